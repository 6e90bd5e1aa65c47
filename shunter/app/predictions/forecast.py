"""When jobs start and end, as P50 and P90: a moment is forked again and again, and run on.

Each sample draws the work that is not known, and the jobs that may come, by its own seed, and lets
the policy decide. It learns run times from jobs that it draws of those of the past, with
replacement: where a long queue evens out what single jobs need, it is this that is uncertain.

Before enough jobs have ended there is nothing to learn from: those that ended first are the short
ones. Then jobs end at once in one half of the samples, and in the other they work on to their time
limits. Where samples differ there is no P50, and a P90 only where limits or the policy bound it.

Of n samples the one of rank ceil(p (n + 1)) is told as the p-quantile: a further draw of the same
kind lies at or below it with probability rank / (n + 1), for n = 19 exactly 0.5 and 0.9 (order
statistics; David and Nagaraja, Order Statistics, 2003, chapter 7).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from shunter.app.forking.fork import Change, Fork, WorkOf, fork_at, standing_at
from shunter.app.forking.fork_point import ForkPoint
from shunter.app.forking.future import Future
from shunter.app.forking.remaining import ENOUGH, WorkEstimates, resampled
from shunter.app.forking.scenario import recorded_world
from shunter.app.predictions.arrivals import drawn_arrivals
from shunter.app.predictions.history import History
from shunter.app.predictions.messages import SAMPLES
from shunter.app.simulated_world import WorldParts
from shunter.backends.simulated.failures import RecordedFailures
from shunter.backends.simulated.resuming import TotalWork
from shunter.core.interfaces import Observers
from shunter.core.metrics import LAUNCHES
from shunter.core.state import Job, State
from shunter.core.view import View
from shunter.errors import PlanError
from shunter.events.facts.jobs import JOB_ENDS, JobSubmitted, end_us_of
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec

HORIZON_US = 366 * 86_400 * 1_000_000
"""What is later than this is told as not known: a year; ours."""

ENDLESS_US = 1_000 * HORIZON_US
"""The work of a job of which nothing is known: more than any GPU does until the horizon."""

FACTS_MOST, FACTS_OF_A_JOB = 6_000, 40
"""So many facts a simulation goes on for at most, and so many more for each job that is there.

Where jobs take turns a job that never starts would be waited for through all turns of a year.
"""

ARRIVALS_LEAST = 200
"""So many jobs may come in a run at least, and else as many as there are; ours."""

WORKED_MOST = 5_000
"""From so many jobs that worked last run times are learned; ours."""


@dataclass(frozen=True)
class Quantiles:
    """An instant in microseconds as P50 and P90.

    None: later than is simulated, never, or not known before more jobs have ended.
    """

    p50_us: int | None
    p90_us: int | None


@dataclass(frozen=True)
class Forecast:
    """When jobs start and end after a moment.

    `starts` are those that hold no GPUs then, `ends` all that were asked about. `failed` of the
    samples ended early, as the policy failed in them. Run times were learned from `ended` jobs;
    with too few they were not. `others_come` says whether jobs came that are not there yet.
    """

    seq: int
    at_us: int
    samples: int
    failed: int
    ended: int
    others_come: bool
    starts: Mapping[JobId, Quantiles]
    ends: Mapping[JobId, Quantiles]


@dataclass
class _Watch:
    """What became of jobs in one run; ends when nothing of it is `pending` any more."""

    pending: set[JobId]
    starts: dict[JobId, int] = field(default_factory=dict)
    ends: dict[JobId, int] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it observes."""
        told: dict[type[Event], Callable[[Event, View], None]]
        told = dict.fromkeys(LAUNCHES, self._launched)
        return {**told, **dict.fromkeys(JOB_ENDS, self._ended)}

    def _launched(self, event: Event, view: View) -> None:
        for job in view.result.launched:
            self.starts.setdefault(job.job_id, event.at_us)

    def _ended(self, event: Event, view: View) -> None:
        self._launched(event, view)
        departed = view.result.departed
        if departed is not None and isinstance(event, JOB_ENDS):
            self.ends[departed.job_id] = end_us_of(event)
            self.pending.discard(departed.job_id)


@dataclass(frozen=True)
class Forecasting:
    """What forecasts of one log share.

    `parts` are what its world is made of, with measured costs; an attempt counts `start_us` as work
    before it has any effect.
    """

    history: History
    parts: WorldParts
    start_us: int = 0
    samples: int = SAMPLES
    horizon_us: int = HORIZON_US

    async def forecast(
        self,
        point: ForkPoint,
        asked: Collection[JobId],
        *,
        submitted: JobSubmitted | None = None,
        now_us: int | None = None,
    ) -> Forecast:
        """Return when jobs start and end.

        Args:
            point: the moment.
            asked: jobs of that moment.
            submitted: a job that comes right then, and is asked about too.
            now_us: the instant it is, up to which nothing more has happened; None: the moment.
        """
        state = point.state()
        now_us = state.now_us if now_us is None else now_us
        worked = self.history.worked_before(state, now_us, self.start_us)[-WORKED_MOST:]
        ended = sum(each.is_whole for each in worked)
        past = self.history.submitted_before(state.now_us)
        ids = [*asked, *([] if submitted is None else [submitted.job_id])]
        seen: list[_Watch] = []
        failed, others_come = 0, False
        for seed in range(self.samples):
            most = max(ARRIVALS_LEAST, len(state.jobs))
            coming = drawn_arrivals(past, now_us, most, seed, state.jobs)
            others_come = bool(coming)
            if submitted is not None:
                coming.insert(0, submitted)
            watch = _Watch(set(ids))
            drawn = resampled(worked, seed)
            slowed = self.history.slowed
            estimates = WorkEstimates(drawn, seed, start_us=self.start_us, slowed=slowed)
            work_of: WorkOf = estimates.work_of
            if ended < ENOUGH:
                work_of = _unknown(estimates, ENDLESS_US if seed % 2 else 1)
            fork = self._fork(point, state, coming, work_of, watch, now_us)
            failed += not await self._run(fork, watch, now_us)
            seen.append(watch)
        told = _quantiles if ended >= ENOUGH else _bounds
        waiting = [each for each in ids if _waits(state.jobs.get(each))]
        return Forecast(
            point.seq,
            point.at_us,
            self.samples,
            failed,
            ended,
            others_come,
            {each: told([watch.starts.get(each) for watch in seen]) for each in waiting},
            {each: told([watch.ends.get(each) for watch in seen]) for each in ids},
        )

    def _fork(
        self,
        point: ForkPoint,
        state: State,
        coming: Sequence[JobSubmitted],
        work_of: WorkOf,
        watch: _Watch,
        now_us: int,
    ) -> Fork:
        future = Future(state, is_simulated=True, submissions=list(coming))
        for each in coming:
            for dependency in each.spec.depends_on:
                outcome = self.history.outcomes.get(dependency.job_id)
                if outcome is not None:
                    future.outcomes[dependency.job_id] = outcome
        world = recorded_world(point, state, self.parts, losses=RecordedFailures())
        standing = standing_at(point, world, future, work_of, Change(), now_us)
        return fork_at(standing, Change(), [watch.observers()])

    async def _run(self, fork: Fork, watch: _Watch, now_us: int) -> bool:
        """Run a fork to what is asked; return whether its policy did not fail."""
        pending = watch.pending
        if not pending:
            return True
        state = fork.core.state
        last = state.seq + FACTS_MOST + FACTS_OF_A_JOB * len(state.jobs)
        try:
            await fork.run(
                now_us + self.horizon_us, is_enough=lambda: not pending or state.seq > last
            )
        except PlanError:
            return False
        return True


def _unknown(estimates: WorkEstimates, drawn_us: int) -> WorkOf:
    """Return what tells the work of jobs: always the same where it would be drawn."""

    def work_of(job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        known = estimates.work_of(job_id, spec, job, now_us)
        return TotalWork(drawn_us) if job_id in estimates.drawn else known

    return work_of


def quantile(found: Sequence[int | None], part: float) -> int | None:
    """Return what a further draw does not exceed with some probability.

    Args:
        found: draws; None: later than all.
        part: the probability.
    """
    rank = min(len(found), ceil(part * (len(found) + 1) - 1e-9))
    ordered = sorted(each for each in found if each is not None)
    return ordered[rank - 1] if rank <= len(ordered) else None


def _quantiles(found: Sequence[int | None]) -> Quantiles:
    return Quantiles(quantile(found, 0.5), quantile(found, 0.9))


def _bounds(found: Sequence[int | None]) -> Quantiles:
    """Return quantiles of what is not drawn: no P50 unless it is certain."""
    told = _quantiles(found)
    return told if len({*found}) == 1 else Quantiles(None, told.p90_us)


def _waits(job: Job | None) -> bool:
    """Say whether a job holds no GPUs; one that is still to come does not."""
    return job is None or job.since_us is None
