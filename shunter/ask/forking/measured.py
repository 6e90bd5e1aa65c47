"""The simulated world of a live log: what starts and suspensions cost there, as was measured.

A live scheduler counts as work what an attempt does from its start on, its preparation included. A
simulated one has that in the cost of the start. So the whole work of a job is what it did without
its start-ups, and that much more as the attempts that it had begun by the moment were counted for.
The same holds of the time by which its contract slowed it down: none of it is work, but what was
counted by the moment.
"""

from dataclasses import dataclass, replace

from shunter.ask.cost_fitting import (
    Fitted,
    Launch,
    Observed,
    Slowed,
    fit_costs,
    observe_log,
    slowed_in,
    slowed_us,
    work_us,
)
from shunter.ask.forking.future import Future
from shunter.backends.simulated.resuming import TotalWork
from shunter.config.simulation import CostsSection
from shunter.core.state import State
from shunter.events.facts.jobs import Outcome
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.run.simulated_world import WorldParts

STAYED_LEAST_US = 1_000_000
"""Who ends by itself so soon after it was told to leave may have been about to."""


@dataclass(frozen=True)
class Measured:
    """What a live log shows of its jobs, and the costs fitted to that."""

    observed: Observed
    fitted: Fitted

    @property
    def slowed(self) -> Slowed:
        """Who was slower by its contract, which the state does not count."""
        return slowed_in(self.observed, self.fitted)

    def parts(self, recorded: WorldParts) -> WorldParts:
        """Return the parts of the world that a log records, with the costs that it shows."""
        parts = measured_parts(recorded, self.fitted)
        return replace(
            parts,
            moving=_moving(self.observed),
            staying=_staying(self.observed),
            unmeasured=(*parts.unmeasured, *self.slowed.assumed),
        )

    def correct(self, future: Future, state: State) -> None:
        """Correct the work of the jobs of a future, once, by the state at its start."""
        for job in self.observed.jobs:
            known, attempts = future.work.get(job.job_id), len(job.attempts)
            if known is None or not attempts or not job.has_run:
                continue
            # What is measured of attempts does not know in which of their time others had the turn.
            slowed_all_us = slowed_us(job, self.fitted)
            if (ended := future.ended.get(job.job_id)) is not None:
                work = max(1, ended.work_us - slowed_all_us) if slowed_all_us else ended.work_us
                future.ended[job.job_id] = ended._replace(work_us=work)
            pure_us = min(known.total_us, work_us(job, self.observed, self.fitted) + slowed_all_us)
            begun = state.jobs[job.job_id].attempt if job.job_id in state.jobs else 0
            extra_us = max(0, known.total_us - pure_us) * min(begun, attempts) // attempts
            counted_us = self.slowed.by_us(job.job_id, state.now_us)
            total_us = pure_us + extra_us - slowed_all_us + counted_us
            future.work[job.job_id] = TotalWork(total_us, known.exit_code)


async def measure(reader: LogReader) -> Measured:
    """Return what a live log shows, all of which is read."""
    observed = await observe_log(reader)
    return Measured(observed, fit_costs(observed))


def measured_parts(parts: WorldParts, fitted: Fitted) -> WorldParts:
    """Return the parts of a world with costs that were fitted to a log."""
    costs = {str(launch): fitted.cost_us(launch) for launch in Launch}
    if fitted.suspend_us is not None:
        costs["suspend"] = fitted.suspend_us
    if fitted.turn_us is not None:
        costs["turn"] = fitted.turn_us
    section = CostsSection.usual().model_copy(update=costs)
    simulation = parts.simulation.model_copy(update={"costs": section})
    return replace(
        parts,
        simulation=simulation,
        notice_us=fitted.notice_us,
        unmeasured=fitted.unmeasured,
    )


def _staying(observed: Observed) -> frozenset[JobId]:
    """Return who went on to its end, however long ago it was told to leave.

    Ranks on several servers that have no way to agree on a boundary do so.
    """
    told = [
        (job, each, each.left_us - each.told_us)
        for job in observed.jobs
        for each in job.attempts
        if each.told_us is not None and each.left_us is not None and not each.was_forced
    ]
    longest_us = max((took_us for _, each, took_us in told if not each.is_last), default=0)
    least_us = max(STAYED_LEAST_US, longest_us)
    return frozenset(
        job.job_id
        for job, each, took_us in told
        if each.is_last and job.outcome is Outcome.finished and took_us > least_us
        if not any(other.told_us and not other.is_last for other in job.attempts)  # it can leave
    )


def _moving(observed: Observed) -> frozenset[JobId]:
    """Return the jobs that said that they take their GPUs anew with each turn."""
    return frozenset(
        job.job_id for job in observed.jobs if any(each.can_move for each in job.attempts)
    )
