"""Forks at the decisions of a log, in each of which one job is placed first there.

    moment before the decision ──▶ fork ──▶ the decision, the job first ──▶ the same policy goes on

The moment is the end of the last step before that of the decision. What is to come is read from the
log once, from the first decision on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.app.cost_fitting import NOT_SLOWED
from shunter.app.forking.assumptions import assumptions_of
from shunter.app.forking.changes import Wishes
from shunter.app.forking.fork import Change, fork_at
from shunter.app.forking.fork_point import ForkPoint, fork_point
from shunter.app.forking.future import Future, read_future
from shunter.app.forking.inevitable.outcomes import Happened, Watch
from shunter.app.forking.measured import Measured, measure
from shunter.app.forking.placed_first import PlacedFirst
from shunter.app.forking.remaining import WorkEstimates
from shunter.app.forking.scenario import Staged, needs_rerun
from shunter.app.replaying.lookup import seq_at
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.replaying.why.scan_start import Round
from shunter.app.simulated_world import WorldParts, recorded_parts
from shunter.core.metrics import JobLedger
from shunter.core.planning.planner import RoundRules
from shunter.core.state import State
from shunter.errors import UsageError
from shunter.events.log import LogReader


@dataclass(frozen=True)
class Tried:
    """What came of a fork at a decision; no `decision`: nothing was otherwise in it.

    `is_placed` says that the job had GPUs right after the decision.
    """

    decision: Round | None
    is_spared: bool
    is_placed: bool
    words: str


@dataclass
class Forks:
    """Plays the decisions at which a job is to be placed first.

    `future` is what came after the moment before the first of them, `measured` what a live log
    shows, `drawn` of how many jobs the work was drawn in any fork.
    """

    reader: LogReader
    rebuild: Rebuild
    happened: Happened
    decisions: Sequence[Round]
    rules: RoundRules
    parts: WorldParts
    future: Future
    first: ForkPoint
    is_rerun: bool
    measured: Measured | None
    drawn: int = 0

    async def as_it_was(self) -> Tried:
        """Return what comes of a fork before the first decision with nothing otherwise."""
        return await self._played(self.first, None)

    async def at(self, place: int) -> Tried:
        """Return what comes of a fork in which the job is placed first at a decision."""
        decision = self.decisions[place]
        seq = await seq_at(self.reader, decision.at_us - step_us(self.rules))
        point = self.first
        if seq != point.seq:
            point = await fork_point(self.reader, seq, self.rebuild)
        return await self._played(point, decision)

    def assumptions(self) -> Sequence[str]:
        """Return what the forks take for granted."""
        return assumptions_of(
            self.first.started,
            self.parts,
            self.future,
            drawn=self.drawn,
            is_rerun=self.is_rerun,
            removes=False,
        )

    async def _played(self, point: ForkPoint, decision: Round | None) -> Tried:
        happened = self.happened
        staged = self._staged(point)
        standing = await staged.standing(self.reader, JobLedger())
        watch = Watch(happened.job_id)
        job = standing.state.jobs.get(happened.job_id)
        if job is not None:
            watch.begin(happened.since_us, has_gpus=bool(job.allocation.shares))
        fork = fork_at(standing, Change())
        core, first = fork.core, None
        if decision is not None:
            placement = getattr(point.policy, "placement", None)
            from_us = _grid_before(self.rules, decision.at_us)
            in_rounds = bool(self.rules.round_us)
            first = PlacedFirst(
                core.asked, happened.job_id, from_us, placement, in_rounds=in_rounds
            )
            core.ask_instead(first)

        def is_enough() -> bool:
            return watch.outcome is not None or happened.is_lost(watch, core.state.now_us)

        await fork.run(happened.until_us, watch, is_enough)
        self.drawn = max(self.drawn, len(staged.estimates.drawn))
        placed_us = None if first is None else first.placed_us
        is_placed = placed_us is not None and watch.has_gpus_at(placed_us)
        is_spared = happened.is_spared(watch)
        return Tried(decision, is_spared, is_placed, happened.told(watch))

    def _staged(self, point: ForkPoint) -> Staged:
        state, future = point.state(), self.future
        if not self.is_rerun:
            future = future.after(point.at_us)
        slowed = NOT_SLOWED
        if self.measured is not None:
            self.measured.correct(future, state)
            slowed = self.measured.slowed
        estimates = WorkEstimates(future.ended.values(), point.rules.seed, slowed=slowed)
        return Staged(point, state, self.parts, Change(), future, estimates, self.is_rerun)


async def forks_of(
    reader: LogReader,
    rebuild: Rebuild,
    happened: Happened,
    decisions: Sequence[Round],
    rules: RoundRules,
) -> Forks:
    """Return the forks of a log at some decisions.

    Args:
        reader: the log.
        rebuild: makes the policy of a term.
        happened: what the job is to be spared.
        decisions: those at which it can be placed first, in order; at least one.
        rules: when plans were made.
    Raises:
        UsageError: the policy has no order in which a job could be first, or could not be asked.
        ConfigError: the log cannot be simulated.
    """
    seq = await seq_at(reader, decisions[0].at_us - step_us(rules))
    point = await fork_point(reader, seq, rebuild)
    if getattr(point.policy, "needs_slicing", False):
        raise UsageError(
            f"policy {point.policy.name} shares GPUs in turns among all that come: no job is first "
            "there, so nothing can be tried; `shunter what-if` tries another policy"
        )
    if point.rules.backend_rounds or not point.encoded_memory:
        raise UsageError(
            f"policy {point.policy.name} cannot be asked at e{seq}: its rounds are those of the "
            "world that ran it, or it was set aside; `shunter why JOB` tells what is recorded"
        )
    parts = recorded_parts(point.started.config)
    is_rerun = needs_rerun(point, parts, Wishes())
    future = await read_future(
        reader,
        State() if is_rerun else point.state(),
        is_simulated=point.started.simulated,
        is_exact=parts.simulation.lease.lease(parts.round_us).is_exact,
    )
    measured = None if point.started.simulated else await measure(reader)
    if measured is not None:
        parts = measured.parts(parts)
    return Forks(
        reader, rebuild, happened, decisions, rules, parts, future, point, is_rerun, measured
    )


def step_us(rules: RoundRules) -> int:
    """Return how long before a decision its step may have begun, in microseconds."""
    return max(rules.round_us, 1)


def _grid_before(rules: RoundRules, at_us: int) -> int:
    """Return when a decision was due that a live scheduler made a little late."""
    return at_us // rules.round_us * rules.round_us if rules.round_us else at_us
