"""When jobs of a log start and end, with how past forecasts of it held, as a document.

Data in and out are plain, so that a process of its own can make it. What came of a past moment does
not change any more, so a caller hands it in again, and more moments are added.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from shunter.ask.costs import Launch
from shunter.ask.forks.forecast_process import MOMENTS, SAMPLES, Answer, Held, Kept, Question
from shunter.ask.forks.fork import (
    NOBODY_CALLS,
    Fork,
    ForkChange,
    ForkPoint,
    WorkOf,
    callers_propose,
    end_of_instant,
    fork_at,
    fork_point,
    standing_at,
)
from shunter.ask.forks.future import Future, measure, measured_parts
from shunter.ask.forks.remaining import ENOUGH, History, WorkEstimates, read_history, resampled
from shunter.ask.forks.scenario import recorded_world
from shunter.ask.log_reading import first_start
from shunter.ask.recorded_terms import origin_of
from shunter.ask.waits import job_state
from shunter.ask.words import clock
from shunter.backends.simulated import RecordedFailures, TotalWork
from shunter.core import LAUNCHES, WAITING, Job, Observers, RandomStream, State, View
from shunter.counting import counted
from shunter.errors import PlanError, UsageError
from shunter.events import (
    JOB_ENDS,
    Event,
    JobId,
    JobSpec,
    JobSubmitted,
    Outcome,
    decode_payload,
    end_us_of,
)
from shunter.events.log import LogReader, read_log
from shunter.run import WorldParts, rebuild, recorded_parts

# Each sample draws unknown work and future jobs by its own seed. Run times are learnt from a
# resample of past jobs, with replacement: a long queue evens out what single jobs need, so the
# uncertain part is the distribution. Before enough jobs have ended there is nothing to learn from:
# the first to end are short. Then jobs end at once in one half of the samples, and at their limits
# in the other.
#
# Of n samples the one of rank ceil(p (n + 1)) is the p-quantile: a further draw lies at or below it
# with probability rank / (n + 1) (David and Nagaraja, Order Statistics, 2003, chapter 7).

# Jobs that may come: a stretch of the past from a drawn instant on, with the same gaps, wrapped
# around at its end (a circular block bootstrap with one block; Politis and Romano, 1992). That
# keeps bursts, and which kinds of jobs come together. A drawn job depends on none.

PAST_LEAST = 5
"""With fewer submissions than these in the past, nobody is taken to come; ours."""

PAST_MOST = 2_000
"""So many of the last submissions are the past that is drawn from; ours."""


def drawn_arrivals(
    past: Sequence[JobSubmitted], now_us: int, most: int, seed: int, taken: Container[JobId]
) -> list[JobSubmitted]:
    """Return jobs that may come after an instant, in their order.

    Args:
        past: submissions up to now, in order.
        now_us: the instant.
        most: how many.
        seed: draws the stretch of the past.
        taken: ids that none of them may have.
    """
    known = past[-PAST_MOST:]
    if len(known) < PAST_LEAST or known[0].at_us >= now_us:
        return []
    first_us, span_us = known[0].at_us, now_us - known[0].at_us
    begins_us = first_us + RandomStream(seed, "arrivals").below(span_us)
    place = bisect_right([each.at_us for each in known], begins_us)
    found: list[JobSubmitted] = []
    number = 0
    while len(found) < most:
        turns, index = divmod(place + len(found), len(known))
        at_us = now_us + known[index].at_us - begins_us + turns * span_us
        number += 1
        while (job_id := JobId(f"arrival{number}")) in taken:
            number += 1
        spec = replace(
            known[index].spec, depends_on=(), array=JobId(""), array_index=None, at_once=None
        )
        found.append(JobSubmitted(max(at_us, now_us + 1), job_id, replace(spec, group="")))
    return found


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
        standing = standing_at(point, world, future, work_of, ForkChange(), now_us)
        return fork_at(standing, ForkChange(), [watch.observers()])

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


# A forecast is a function of the log up to its moment, so past ones are made again. Each job is
# asked about its start once, at the first moment at which it waits, and about its end once.

APART = 2
"""A moment lies in the last half of the past, so that there was something to learn from."""


def past_moments(history: History, most: int = MOMENTS) -> list[int]:
    """Return numbers of submissions of the last half, the last one first.

    They are evenly spread, and only of jobs that had to wait: at other moments there is nothing to
    foresee. Before enough jobs had ended nothing was foretold.
    """
    waited = [
        (seq, event.at_us)
        for job_id, (seq, event) in history.submissions.items()
        if (starts := history.launches.get(job_id)) and starts[0] > event.at_us
    ]
    ends_us = [at_us for at_us, _, work in history.worked if work.is_whole]
    known_us = ends_us[ENOUGH - 1] if len(ends_us) >= ENOUGH else history.state.now_us + 1
    late = [seq for seq, at_us in waited[len(waited) // APART :] if at_us >= known_us]
    step = max(1, len(late) // most) if most else 1
    return late[::-1][::step][:most]


async def held_at(
    forecasting: Forecasting,
    moments: Iterable[int],
    point_at: Callable[[int], Awaitable[ForkPoint]],
    known: Iterable[Held] = (),
) -> list[Held]:
    """Return how forecasts held that are made at moments.

    Args:
        forecasting: makes them.
        moments: numbers of events.
        point_at: returns the moment at the end of an event's instant.
        known: how others held, whose jobs are not asked about again.
    """
    started, ended = set[JobId](), set[JobId]()
    for each in known:
        started.update(each.starts.jobs)
        ended.update(each.ends.jobs)
    found: list[Held] = []
    for seq in moments:
        point = await point_at(seq)
        jobs = [job for job in point.state().jobs.values() if _is_asked(job, forecasting.history)]
        starts = [job.job_id for job in jobs if job.phase is WAITING and job.job_id not in started]
        ends = [job.job_id for job in jobs if job.job_id not in ended]
        started.update(starts)
        ended.update(ends)
        found.append(await _held(forecasting, point, seq, starts, ends))
    return found


async def _held(
    forecasting: Forecasting,
    point: ForkPoint,
    seq: int,
    starts: Sequence[JobId],
    ends: Sequence[JobId],
) -> Held:
    history = forecasting.history
    told = await forecasting.forecast(point, dict.fromkeys((*starts, *ends)))
    started = {job_id: _next_start_us(history, job_id, point.at_us) for job_id in starts}
    ended = {job_id: history.ends.get(job_id) for job_id in ends}
    now_us = history.state.now_us
    return Held(seq, kept_of(started, told.starts, now_us), kept_of(ended, told.ends, now_us))


def kept_of(came: Mapping[JobId, int | None], told: Mapping[JobId, Quantiles], now_us: int) -> Kept:
    """Return how forecasts held.

    Args:
        came: when it came, what was foretold; None: it has not.
        told: what was foretold.
        now_us: the instant it is.
    """
    counted = [
        (came_us, told[job_id])
        for job_id, came_us in came.items()
        if (p90_us := told[job_id].p90_us) is not None and p90_us <= now_us
    ]
    by_p50 = sum(_is_by(came_us, limits.p50_us) for came_us, limits in counted)
    by_p90 = sum(_is_by(came_us, limits.p90_us) for came_us, limits in counted)
    return Kept(tuple(came), by_p50, by_p90, len(came) - len(counted))


def _is_by(came_us: int | None, limit_us: int | None) -> bool:
    """Say whether something had come by a limit."""
    return came_us is not None and limit_us is not None and came_us <= limit_us


def _is_asked(job: Job, history: History) -> bool:
    """Say whether nobody ended a job, which cannot be foreseen."""
    return history.outcomes.get(job.job_id) is not Outcome.cancelled


def _next_start_us(history: History, job_id: JobId, at_us: int) -> int | None:
    """Return when a job was given GPUs next after an instant; None: not yet."""
    starts = history.launches.get(job_id, [])
    place = bisect_right(starts, at_us)
    return starts[place] if place < len(starts) else None


MANY_JOBS, FEWER_SAMPLES = 2_000, 9
"""With more jobs than these the samples are fewer, and one past moment is tried with an answer.

9 samples are the fewest with a P50 and a P90 of their own; ours.
"""


async def answer(question: Question) -> Answer:
    """Return what is foreseen.

    Raises:
        UsageError: the log does not say who decides.
        ConfigError: its world cannot be made, or its policy is not installed.
        LogError: the log cannot be read.
    """
    async with read_log(question.address) as reader:
        seq = (await reader.head()).seq
        if not seq:
            raise UsageError("the log is empty: there is nothing to foresee")
        origin = origin_of(await first_start(reader))
        history = await read_history(reader)
        point = await fork_point(reader, seq, rebuild)
        state = point.state()
        forecasting = await _forecasting(reader, point, history, len(state.jobs), question.samples)
        now_us = max(state.now_us, question.now_us)
        submitted = _submitted(question, now_us)
        asked = [] if submitted is not None else _asked(state, question.user)
        told = await forecasting.forecast(point, asked, submitted=submitted, now_us=now_us)

        async def point_at(seq: int) -> ForkPoint:
            return await fork_point(reader, await end_of_instant(reader, seq), rebuild)

        few = min(question.moments, 1 if len(state.jobs) > MANY_JOBS else question.moments)
        held = await _held_answer(forecasting, question.known, few, point_at)
    jobs = [_row(state.jobs[job_id], told, origin) for job_id in asked]
    if submitted is not None:
        jobs.append(_row(submitted, told, origin))
    return Answer(
        {
            "schema_version": 1,
            "evidence": "simulated",
            "seq": seq,
            "now": _dated(now_us, origin),
            "now_us": now_us,
            "policy": point.policy.name,
            "samples": told.samples,
            "jobs": jobs,
            "accuracy": _accuracy(held, len(history.ends)),
            "assumptions": _assumptions(forecasting, point, told),
        },
        held,
    )


async def _forecasting(
    reader: LogReader, point: ForkPoint, history: History, jobs: int, samples: int
) -> Forecasting:
    parts, start_us = recorded_parts(point.started.config), 0
    if not point.started.simulated:
        measured = await measure(reader)
        history.slowed, fitted = measured.slowed, measured.fitted
        parts, start_us = measured_parts(parts, fitted), fitted.launch_us.get(Launch.start, 0)
    if jobs > MANY_JOBS:
        samples = min(samples, FEWER_SAMPLES)
    return Forecasting(history, parts, start_us, samples)


async def _held_answer(
    forecasting: Forecasting,
    known: tuple[Held, ...],
    more: int,
    point_at: Callable[[int], Awaitable[ForkPoint]],
) -> tuple[Held, ...]:
    """Return how past forecasts held, those known and some more.

    Of those that were open it is found out again, in turns: the ones tried last come last.
    """
    again = [each.seq for each in known if each.is_open][: (more + 1) // 2]
    tried = {each.seq for each in known}
    moments = past_moments(forecasting.history, more + len(tried))
    fresh = [seq for seq in moments if seq not in tried][: more - len(again)]
    kept = [each for each in known if each.seq not in again]
    found = await held_at(forecasting, sorted((*again, *fresh)), point_at, kept)
    return (*kept, *found)


def _submitted(question: Question, now_us: int) -> JobSubmitted | None:
    """Return the job that is only imagined, as one that comes right now."""
    if not question.submitted:
        return None
    event = decode_payload(question.submitted)[0]
    assert isinstance(event, JobSubmitted), "it is of a submission"
    return replace(event, at_us=now_us + 1)


def _asked(state: State, user: str | None) -> list[JobId]:
    jobs = state.jobs.values()
    return [job.job_id for job in jobs if user is None or job.spec.user == user]


def _row(job: Job | JobSubmitted, told: Forecast, origin: str | None) -> dict[str, Any]:
    spec, job_id = job.spec, job.job_id
    return {
        "id": job_id,
        "name": spec.name,
        "user": spec.user,
        "gpus": spec.gpus,
        "state": "imagined" if isinstance(job, JobSubmitted) else job_state(job),
        "start": _band(told.starts.get(job_id), origin),
        "end": _band(told.ends[job_id], origin),
    }


def _band(found: Quantiles | None, origin: str | None) -> dict[str, Any] | None:
    """Return an instant as P50 and P90; None: it has come already."""
    if found is None:
        return None
    p50_us, p90_us = found.p50_us, found.p90_us
    return {
        "p50_us": p50_us,
        "p90_us": p90_us,
        "p50": None if p50_us is None else _dated(p50_us, origin),
        "p90": None if p90_us is None else _dated(p90_us, origin),
    }


def _dated(at_us: int, origin: str | None) -> str:
    """Return an instant as a date, or of a simulation as time since its beginning."""
    if origin is None:
        return clock(at_us)
    when = datetime.fromisoformat(origin) + timedelta(microseconds=at_us)
    return when.isoformat(timespec="milliseconds")


def _accuracy(held: Sequence[Held], ended: int) -> dict[str, Any]:
    starts, ends = [each.starts for each in held], [each.ends for each in held]
    return {"moments": len(held), **_shares(starts), "ends": {"ended": ended, **_shares(ends)}}


def _shares(kept: Sequence[Kept]) -> dict[str, Any]:
    jobs = sum(len(each.jobs) - each.open for each in kept)
    by_p50, by_p90 = sum(each.by_p50 for each in kept), sum(each.by_p90 for each in kept)
    return {
        "jobs": jobs,
        "by_p50": by_p50,
        "by_p90": by_p90,
        "share_by_p90": round(by_p90 / jobs, 4) if jobs else None,
    }


def _assumptions(forecasting: Forecasting, point: ForkPoint, told: Forecast) -> list[str]:
    of_past = (
        f"drawn from those of {counted(told.ended, 'job')} that ended, by user, model and gang size"
        if told.ended >= ENOUGH
        else f"not known before {ENOUGH} jobs have ended ({told.ended} so far): what depends on "
        "them has no P50, and a P90 only where a time limit or the policy bounds it"
    )
    come = (
        "other jobs are submitted as in an earlier period of the log"
        if told.others_come
        else "no other jobs are submitted, as too few have been so far to predict them"
    )
    found = [
        f"run times that no job declared are {of_past}",
        f"{come}; servers stay as they are",
    ]
    if point.policy.oracle:
        found.append("the policy is an oracle: it knows run times that are drawn here")
    if not point.started.simulated:
        found.append("starts and suspensions take what they took on average in this log")
        found += forecasting.parts.unmeasured
        found += forecasting.history.slowed.assumed
    if callers_propose(point.started):
        found.append(NOBODY_CALLS)
    if told.failed:
        found.append(f"the policy failed in {counted(told.failed, 'run')}, which ends there")
    return found
