"""How much work a job has left: by its own steps, or drawn from what others of the log worked."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, fsum, isqrt, log
from typing import NamedTuple

from shunter.ask.costs import NOT_SLOWED, Slowed
from shunter.ask.log_reading import Follower, LogFold
from shunter.backends.simulated import TotalWork
from shunter.core import FoldResult, Job, RandomStream, State, remaining_us
from shunter.events import (
    JOB_ENDS,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobRejected,
    JobSpec,
    JobSubmitted,
    Outcome as JobOutcome,
    UserName,
    end_us_of,
)
from shunter.events.log import LogReader

# Unknown work. A job that reports steps and mini-batches has what is left by them. Of any other the
# work is drawn among jobs that did more: of the same user, model and gang size, then user and gang
# size, then gang size, then all. A job of a kind of which n are known lies in each of the n + 1
# gaps between them with the same probability (Hill, Posterior distribution of percentiles, 1968): a
# gap is drawn, and within it a job of the next wider kind. What is longer than all follows a power
# law, with the index of the longest, or 1 where they are few (Harchol-Balter and Downey, Exploiting
# process lifetime distributions, 1997).
#
# The time limit bounds the work. Where works differ less as parts of the limits than in themselves,
# parts are drawn, first of jobs of the same limit (Smith, Foster and Taylor, Predicting application
# run times using historical information, 1998).
#
# A job that was stopped, or still works, had at least so much: if it is drawn, one that did more is
# drawn in its place, the weight that Kaplan and Meier's estimate gives censored observations
# (Efron, The two sample problem with censored data, 1967: redistribution to the right).

ENOUGH = 5
"""So many jobs must have ended before anything is said of how they are alike; ours."""

UNSEEN_US = 3_600_000_000
"""The work of a job of which nothing is known, not even how long others ran: one hour; ours."""

WHOLE_LIMIT = 1_000_000
"""A time limit in the unit in which works are parts of it."""

LONGER_MOST = 1_000
"""Who is longer than all others is at most so many times as long; ours."""

_Kind = tuple[object, ...]


class Worked(NamedTuple):
    """What a job worked in microseconds, in so many attempts.

    Not `is_whole`: it had more to do.
    """

    user: UserName
    gpus: int
    work_us: int
    model: str = ""
    is_whole: bool = True
    attempts: int = 1
    limit_us: int | None = None

    @property
    def kinds(self) -> "Sequence[_Kind]":
        """The kinds that it is of, the narrowest first."""
        return _kinds(self.user, self.model, self.gpus)


class WorkEstimates:
    """What jobs have worked, and what others may therefore have to work.

    `drawn` are the jobs whose work was drawn, so that it is not certain. `start_us` is what each
    attempt counts as work before it has any effect, `slowed` what jobs counted that were slower by
    their contracts; neither is in any work of `worked`.
    """

    def __init__(
        self,
        worked: Iterable[Worked],
        seed: int,
        *,
        start_us: int = 0,
        slowed: Slowed = NOT_SLOWED,
    ) -> None:
        known = list(worked)
        limited = [each for each in known if each.limit_us]
        self._works = _Known((each.kinds, each.work_us, each.is_whole) for each in known)
        self._parts = _Known(
            (_limited(each.kinds, each.limit_us), _part(each), each.is_whole) for each in limited
        )
        self._draws_parts = _differ_less_as_parts([each for each in limited if each.is_whole])
        self._seed = seed
        self._start_us = start_us
        self._slowed = slowed
        self.drawn: dict[JobId, None] = {}

    def work_of(self, job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        """Return the whole work of a job; `job` is what it is by now, if it is there."""
        done_us = 0 if job is None else job.done_us(now_us)
        if job is not None and job.measured_rate is not None and spec.total_steps is not None:
            left_us = remaining_us(job, now_us) or 0
            return TotalWork(done_us + round(left_us * self._slowed.speed(job_id, now_us)))
        self.drawn[job_id] = None
        begun_us = 0 if job is None else min(done_us, job.attempt * self._start_us)
        begun_us += self._slowed.by_us(job_id, now_us)
        total_us = self._drawn_us(job_id, spec, max(0, done_us - begun_us)) + begun_us
        limit_us = spec.time_limit_us
        if limit_us is not None:
            held_us = 0 if job is None else job.occupied_us(now_us)
            total_us = min(total_us, done_us + max(0, limit_us - held_us))
        return TotalWork(total_us)

    def _drawn_us(self, job_id: JobId, spec: JobSpec, done_us: int) -> int:
        rng = RandomStream(self._seed, "work", job_id)
        kinds, limit_us = _kinds(spec.user, spec.model, spec.gpus), spec.time_limit_us
        if limit_us and self._draws_parts:
            done = done_us * WHOLE_LIMIT // limit_us
            drawn_us = self._parts.drawn(_limited(kinds, limit_us), done, rng)
            drawn_us = drawn_us * limit_us // WHOLE_LIMIT
        else:
            drawn_us = self._works.drawn(kinds, done_us, rng) or UNSEEN_US
        return max(done_us + 1, drawn_us)


class _Known:
    """Works of jobs by their kinds, or as parts of their limits; which were cut off."""

    def __init__(self, sizes: Iterable[tuple[Sequence[_Kind], int, bool]]) -> None:
        by_kind: dict[_Kind, list[tuple[int, bool]]] = defaultdict(list)
        for kinds, size, is_whole in sizes:
            for kind in kinds:
                by_kind[kind].append((size, not is_whole))
        self._by_kind = {kind: sorted(found) for kind, found in by_kind.items()}
        ended = [size for size, is_cut in self._by_kind.get((), ()) if not is_cut]
        self._tail_index = _tail_index(ended)

    def drawn(self, kinds: Sequence[_Kind], above: int, rng: RandomStream) -> int:
        """Draw a size above a known least, the narrowest kind first; 0: nothing is known."""
        most: int | None = None
        for kind in kinds:
            above, most = _gap(self._by_kind.get(kind, ()), above, most, rng)
        if most is not None:
            return most
        times = LONGER_MOST / (1 + rng.below(LONGER_MOST))
        return round(above * exp(self._tail_index * log(times)))


def resampled(worked: Sequence[Worked], seed: int) -> list[Worked]:
    """Return as many jobs, drawn with replacement.

    What is learned from them is not certain, and so it differs by the seed.

    Source: Efron, Bootstrap methods, 1979.
    """
    rng = RandomStream(seed, "worked")
    return [worked[rng.below(len(worked))] for _ in worked]


def _kinds(user: UserName, model: str, gpus: int) -> Sequence[_Kind]:
    """Return the kinds that a job is of, the narrowest first."""
    wider: Sequence[_Kind] = ((user, gpus), (gpus,), ())
    return ((user, model, gpus), *wider) if model else wider


def _limited(kinds: Sequence[_Kind], limit_us: int | None) -> Sequence[_Kind]:
    """Return the kinds of a job with a time limit: of the same, then of a near one."""
    limit_us = limit_us or 0
    near = limit_us.bit_length() // 2  # at most four times as long
    return (*((*kind, "limit", limit_us) for kind in kinds), ("near", near), ())


def _part(worked: Worked) -> int:
    """Return what part of its time limit a job worked."""
    return worked.work_us * WHOLE_LIMIT // (worked.limit_us or 1)


def _differ_less_as_parts(whole: Sequence[Worked]) -> bool:
    """Say whether works differ less as parts of the time limits than in themselves."""
    if len(whole) < ENOUGH or len({each.limit_us for each in whole}) == 1:
        return False
    works = [log(each.work_us + 1) for each in whole]
    parts = [work - log(each.limit_us or 1) for work, each in zip(works, whole, strict=True)]
    return _spread(parts) < _spread(works)


def _spread(values: Sequence[float]) -> float:
    mean = fsum(values) / len(values)
    return fsum((each - mean) ** 2 for each in values)


def _tail_index(sizes: Sequence[int]) -> float:
    """Return the extreme value index of a sample, 1 at most and as if seen once.

    Source: Hill, A simple general approach to inference about the tail of a distribution, 1975, on
    as many of the largest as the square root of all.
    """
    largest = sizes[-isqrt(len(sizes)) - 1 :]
    if len(largest) < 2:
        return 1.0
    excess = [log((each + 1) / (largest[0] + 1)) for each in largest[1:]]
    return min(1.0, (1.0 + fsum(excess)) / (1 + len(excess)))


def _gap(
    found: Sequence[tuple[int, bool]], above: int, most: int | None, rng: RandomStream
) -> tuple[int, int | None]:
    """Draw a gap between sizes that are known, within another one.

    Args:
        found: sizes, sorted, and whether each was cut off there.
        above: the lower end of the other gap.
        most: its upper end; None: it has none.
        rng: draws.
    Returns:
        the ends of the gap.
    """
    first = bisect_right(found, (above, True))
    last = len(found) if most is None else bisect_right(found, (most, False))
    while first < last:
        # The upper end of a gap is one of the jobs itself, as it is known to all wider kinds.
        place = first + rng.below(last - first + (most is None))
        if place > first:
            above = found[place - 1][0]
        if place == last:
            break
        size, is_cut = found[place]
        if not is_cut:
            return above, size
        first, above = place + 1, size
    return above, most


# The past of a log's jobs. `worked_before` and `submitted_before` return only what a scheduler
# could know at a moment: run times that a trace declares are not read.

EVENTS_MOST = 1_000_000
"""So many of the last events are read, back to the snapshot before them; ours."""


@dataclass
class History(Follower):
    """The past of a log's jobs, up to `state`, its end; instants in microseconds.

    `submissions` come with the numbers of their events, in order; those that were rejected are
    left out. `launches` are when a job was given GPUs, `ends` when it ended. `worked` is, in the
    order of their ends, when jobs ended and what they had worked, `outcomes` is how. `slowed` are
    those that were slower by their contracts; what that took counts in `worked` as the state counts
    it, as work.
    """

    state: State
    submissions: dict[JobId, tuple[int, JobSubmitted]] = field(default_factory=dict)
    launches: dict[JobId, list[int]] = field(default_factory=dict)
    worked: list[tuple[int, JobId, Worked]] = field(default_factory=list)
    outcomes: dict[JobId, JobOutcome] = field(default_factory=dict)
    ends: dict[JobId, int] = field(default_factory=dict)
    slowed: Slowed = NOT_SLOWED

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Note an event, and whose attempts began with it and who ended."""
        departed = result.departed
        for job in result.launched:
            self.launches.setdefault(job.job_id, []).append(event.at_us)
        if isinstance(event, JobSubmitted):
            self.submissions[event.job_id] = state.seq, event
        elif departed is not None and isinstance(event, JOB_ENDS):
            self._ended(event, departed)

    def submitted_before(self, at_us: int) -> list[JobSubmitted]:
        """Return who had been submitted by an instant, in order."""
        return [event for _, event in self.submissions.values() if event.at_us <= at_us]

    def worked_before(self, state: State, now_us: int, start_us: int) -> list[Worked]:
        """Return what jobs were known to have worked, those last that are there yet.

        Args:
            state: that of the moment.
            now_us: the instant it is; nothing has happened since the state.
            start_us: what an attempt counts as work before it has any effect.
        """
        found = [
            self._at_full_speed(work, job_id, at_us)
            for at_us, job_id, work in self.worked
            if at_us <= state.now_us
        ]
        for job in state.jobs.values():
            done_us = job.done_us(now_us)
            if done_us:
                work = worked_by(job, done_us, is_whole=False)
                found.append(self._at_full_speed(work, job.job_id, now_us))
        if not start_us:
            return found
        return [_without_start(each, start_us) for each in found]

    def _at_full_speed(self, worked: Worked, job_id: JobId, at_us: int) -> Worked:
        """Return what a job worked, without the time that its contract took."""
        slowed_us = self.slowed.by_us(job_id, at_us)
        return worked._replace(work_us=max(1, worked.work_us - slowed_us)) if slowed_us else worked

    def _ended(self, event: JobFinished | JobFailed | JobCancelled | JobRejected, job: Job) -> None:
        self.ends[job.job_id] = end_us_of(event)
        if job.outcome is not None:
            self.outcomes[job.job_id] = job.outcome
        if isinstance(event, JobRejected):
            self.submissions.pop(job.job_id, None)
        if job.work_us:
            is_whole = (
                isinstance(event, JobFinished | JobFailed) and job.outcome is not JobOutcome.timeout
            )
            work = worked_by(job, job.work_us, is_whole=is_whole)
            self.worked.append((event.at_us, job.job_id, work))


async def read_history(reader: LogReader, events_most: int = EVENTS_MOST) -> History:
    """Fold a log, or its last part, and return what it tells of its jobs.

    Raises:
        LogDamagedError: the bytes of the log are not what was written.
    """
    head = await reader.head()
    begins = await reader.snapshot_at(max(0, head.seq - events_most))
    fold = await LogFold(reader).restore(begins)
    history = History(fold.state)
    await fold.forward(head.seq, (history,))
    return history


def worked_by(job: Job, work_us: int, *, is_whole: bool = True) -> Worked:
    """Return what a job has worked in all; not `is_whole`: it had more to do."""
    spec = job.spec
    return Worked(
        spec.user, spec.gpus, work_us, spec.model, is_whole, job.attempt, spec.time_limit_us
    )


def _without_start(worked: Worked, start_us: int) -> Worked:
    """Return what a job worked without the start-ups of its attempts."""
    return worked._replace(work_us=max(1, worked.work_us - worked.attempts * start_us))
