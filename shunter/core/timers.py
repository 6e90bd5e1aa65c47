"""What is due once time has come: time limits, back-off, turns of arrays, checkpoint holds.

All of it follows from the state; the indexes here save a step from looking at every job. At the end
of a step comes what is due, in this order: a job over its time limit is asked to end; one that
backed off comes back; tasks of arrays get their turn; jobs whose checkpoints cannot be reached or
have no room are held, or released.

Arrays, proposals that repeat and back-off come first, each with its index; `Timers` asks them all.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from shunter.core.fold import hold_wanted, waits_for_checkpoint
from shunter.core.state import ENDING, Job, State
from shunter.events import (
    ARRAY,
    BACKING_OFF,
    CHECKPOINT,
    CLUSTER_CHANGES,
    JOB_ENDS,
    REPEATED,
    STAYS,
    Event,
    JobId,
    JobSpec,
    Reason,
    Wait,
    facts,
)

if TYPE_CHECKING:
    from shunter.core.planning import Refused, RoundRules

# A task of an array counts as under way while it holds GPUs, or waits for them and is held by
# nobody. To policies a task without a turn is a job on hold.

Jobs = Mapping[JobId, Job]

TURNING = frozenset(
    (*JOB_ENDS, facts.JobHeld, facts.GpusReleased, facts.AttemptLost, facts.LaunchFailed)
)
"""The kinds after which fewer tasks of an array may be under way."""


def has_no_turn(job: Job) -> bool:
    """Say whether a task waits for others of its array to end."""
    return job.is_on_hold and job.held_by == ARRAY


def under_way(jobs: Mapping[JobId, Job], spec: JobSpec) -> tuple[JobId, ...]:
    """Return the tasks of an array that have their turn."""
    tasks = [job for job in jobs.values() if job.spec.array == spec.array]
    return tuple(job.job_id for job in tasks if _is_under_way(job))


def turn_of(spec: JobSpec) -> Wait:
    """Return why a task without a turn waits: for others, of which so many may run."""
    return Wait(Reason.array_limit, detail=f"{ARRAY}:{spec.at_once}")


class Arrays:
    """The tasks of arrays with a bound, in the order in which they came."""

    def __init__(self) -> None:
        self._tasks: dict[JobId, dict[JobId, None]] = {}

    def add(self, job: Job) -> None:
        """Note a task of an array with a bound; any other job is none of ours."""
        if job.spec.at_once is not None and job.spec.array:
            self._tasks.setdefault(job.spec.array, {})[job.job_id] = None

    def is_full(self, task: Job, jobs: Jobs) -> bool:
        """Say whether as many others of a task's array are under way as may be."""
        bound, others = task.spec.at_once, self._tasks.get(task.spec.array, {})
        if bound is None or task.job_id not in others:
            return False
        count = 0
        for job_id in others:
            job = jobs.get(job_id)
            if job is not None and job is not task and _is_under_way(job):
                count += 1
                if count >= bound:
                    return True
        return False

    @property
    def is_set(self) -> bool:
        """Whether there is any such task."""
        return bool(self._tasks)

    def due(self, jobs: Jobs) -> list[JobId]:
        """Return the tasks whose turn it is now, of all jobs that have not ended."""
        found: list[JobId] = []
        for array in list(self._tasks):
            found += self._turns(array, jobs)
        return found

    def _turns(self, array: JobId, jobs: Jobs) -> list[JobId]:
        tasks = self._tasks[array]
        for job_id in [job_id for job_id in tasks if job_id not in jobs]:
            del tasks[job_id]
        if not tasks:
            del self._tasks[array]
            return []
        bound = next(iter(jobs[job_id].spec.at_once for job_id in tasks)) or 0
        free = bound - sum(_is_under_way(jobs[job_id]) for job_id in tasks)
        waiting = [job_id for job_id in tasks if has_no_turn(jobs[job_id])] if free > 0 else []
        return waiting[: max(0, free)]


def _is_under_way(job: Job) -> bool:
    is_held = job.is_on_hold and job.held_by not in (BACKING_OFF, CHECKPOINT, STAYS)
    return not is_held or job.since_us is not None or bool(job.allocation.shares)


# Repeated rejections are counted: a caller that proposes in a loop would fill the log.

WINDOW_US = 60_000_000
"""What counts as a round where plans are made at events."""


@dataclass(slots=True)
class _Counted:
    """The rejections of a job in a round that were not recorded, and the last."""

    count: int
    refused: "Refused"
    version: int
    over_us: int


class Repeats:
    """The rejections that are still to be told; it begins empty with each term."""

    def __init__(self, state: State, round_us: int) -> None:
        self._state = state
        self._window_us = round_us or WINDOW_US
        self._counted: dict[JobId, _Counted] = {}

    @property
    def is_set(self) -> bool:
        """Whether any rejection is still to be told."""
        return bool(self._counted)

    def is_again(self, job_id: JobId, now_us: int) -> bool:
        """Say whether a rejection of a job has been recorded in this round."""
        last = self._state.proposals.rejections.get(job_id)
        return last is not None and self._number(last.at_us) == self._number(now_us)

    def count(self, job: Job, refused: "Refused", now_us: int) -> None:
        """Count a rejection that is not recorded by itself."""
        before = self._counted.get(job.job_id)
        over_us = (self._number(now_us) + 1) * self._window_us if before is None else before.over_us
        count = 1 if before is None else before.count + 1
        self._counted[job.job_id] = _Counted(count, refused, self._state.seq, over_us)

    def next_us(self) -> int | None:
        """Return when rejections are told next; None: there are none."""
        return min((one.over_us for one in self._counted.values()), default=None)

    def due(self, jobs: Mapping[JobId, Job], now_us: int) -> facts.GangRejected | None:
        """Take out the next fact that is due; of jobs that have ended nothing is told."""
        over = [job_id for job_id, one in self._counted.items() if one.over_us <= now_us]
        for job_id in over:
            one = self._counted.pop(job_id)
            if job_id in jobs:
                refused = one.refused
                return facts.GangRejected(
                    *(now_us, job_id, one.version, refused.reason, refused.conflicts),
                    *(REPEATED, refused.detail),
                    count=one.count,
                )
        return None

    def _number(self, at_us: int) -> int:
        return at_us // self._window_us


def only_counts(event: Event) -> bool:
    """Say whether a fact tells how many rejections there were, and no more.

    It is taken as observed, since nothing else in a log says so. The scheduler itself tells it once
    its round is over, and no plan is due by that.
    """
    return isinstance(event, facts.GangRejected) and event.cause == REPEATED


_CHANGING = frozenset(
    (
        *CLUSTER_CHANGES,
        facts.GpusReleased,
        facts.AttemptLost,
        facts.LaunchFailed,
        facts.JobReleased,
        facts.CheckpointDiscarded,
        facts.SchedulerStarted,
    )
)
"""The kinds after which a checkpoint may be in reach, or out of it, or wanted by a waiting job."""

Due = facts.TimeLimitReached | facts.JobHeld | facts.JobReleased | facts.GangRejected
"""The facts that follow from the state and the time, or tell of a round that is over."""


class Returns:
    """When jobs that back off may be tried again."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int, JobId]] = []

    def add(self, job: Job) -> None:
        """Note a job that backs off, if it does."""
        if job.back_at_us is not None:
            heappush(self._due, (job.back_at_us, job.ordinal, job.job_id))

    @property
    def is_set(self) -> bool:
        """Whether any job may back off."""
        return bool(self._due)

    def next_us(self, jobs: Mapping[JobId, Job]) -> int | None:
        """Return when the next job comes back; those that need not are forgotten."""
        while self._due:
            back_us, _, job_id = self._due[0]
            job = jobs.get(job_id)
            if job is not None and job.back_at_us == back_us:
                return back_us
            heappop(self._due)
        return None

    def due(self, jobs: Mapping[JobId, Job], now_us: int) -> JobId | None:
        """Take out the next job that comes back now."""
        if not self._due or (back_us := self.next_us(jobs)) is None or back_us > now_us:
            return None
        return heappop(self._due)[2]


class Timers:
    """What will be due, and when; begins with what the state says.

    By the rules checkpoints may lie on the servers that saved them, and the time limit of an
    attempt may count from its start on: before it waits in a queue that is not ours.
    """

    def __init__(self, state: State, rules: "RoundRules") -> None:
        self._state = state
        self._stay = rules.checkpoints_stay
        self._waits = rules.launches_wait
        self._limits: list[tuple[int, int, JobId, int]] = []
        self._turns: deque[JobId] = deque()
        self._turns_changed = True
        self._checkpoints: deque[facts.JobHeld | facts.JobReleased] = deque()
        self._is_bound = any(state.jobs[each].stays_on is not None for each in state.resumable)
        self._checkpoints_changed = False
        self.returns = Returns()
        self.arrays = Arrays()
        self.repeats = Repeats(state, rules.round_us)
        for job in state.jobs.values():
            self.began(job)
            self.returns.add(job)
            self.arrays.add(job)

    @property
    def is_set(self) -> bool:
        """Whether anything can be due at all."""
        return bool(
            self._limits
            or self.returns.is_set
            or self.arrays.is_set
            or self.repeats.is_set
            or self._state.resumable
        )

    def began(self, job: Job) -> None:
        """Note when a job that holds GPUs will have held them as long as it may."""
        if self._waits and job.working_since_us is None:
            return
        limit_us = job.spec.time_limit_us
        if limit_us is not None and job.since_us is not None:
            due_us = job.since_us + max(0, limit_us - job.held_us)
            heappush(self._limits, (due_us, job.ordinal, job.job_id, job.attempt))

    def note(self, kind: type[Event]) -> None:
        """Note a fact after which turns or checkpoints may be other ones."""
        if kind in TURNING:
            self._turns_changed = True
        if kind in _CHANGING or self._is_bound:  # room on one server may come with any
            self._checkpoints_changed = True

    def next_us(self) -> int | None:
        """Return when a time limit or a wait between launches is over next."""
        limit_us, back_us = self._next_limit(), self.returns.next_us(self._state.jobs)
        if self.repeats.is_set:
            over_us = self.repeats.next_us()
            back_us = over_us if back_us is None or over_us is None else min(back_us, over_us)
        if limit_us is None or back_us is None:
            return back_us if limit_us is None else limit_us
        return min(limit_us, back_us)

    def due(self, now_us: int) -> Due | None:
        """Take out what is due next at the end of a step at an instant; None: nothing is."""
        if self._limits and (over := self._over(now_us)) is not None:
            return over
        if (back := self.returns.due(self._state.jobs, now_us)) is not None:
            return facts.JobReleased(now_us, back, BACKING_OFF)
        if self.repeats.is_set and (told := self.repeats.due(self._state.jobs, now_us)):
            return told
        if self.arrays.is_set and (turn := self._turn()) is not None:
            return facts.JobReleased(now_us, turn, ARRAY)
        return self._checkpoint(now_us) if self._state.resumable else None

    def _next_limit(self) -> int | None:
        while self._limits:
            due_us, _, job_id, attempt = self._limits[0]
            job = self._state.jobs.get(job_id)
            if job is not None and job.attempt == attempt and job.since_us is not None:
                return due_us
            heappop(self._limits)
        return None

    def _over(self, now_us: int) -> facts.TimeLimitReached | None:
        """Take out the next job that has held its GPUs as long as it may."""
        while (due_us := self._next_limit()) is not None and due_us <= now_us:
            _, _, job_id, _ = heappop(self._limits)
            job = self._state.jobs[job_id]
            if job.phase is not ENDING:
                assert job.spec.time_limit_us is not None, "only jobs with a limit are timed"
                return facts.TimeLimitReached(now_us, job_id, job.spec.time_limit_us)
        return None

    def _turn(self) -> JobId | None:
        """Take out the next task whose turn it is."""
        if self._turns_changed:
            self._turns_changed = False
            self._turns = deque(self.arrays.due(self._state.jobs))
        return self._turns.popleft() if self._turns else None

    def _checkpoint(self, now_us: int) -> facts.JobHeld | facts.JobReleased | None:
        """Take out the next job that is to wait for its checkpoint, or need not any more."""
        if self._checkpoints_changed:
            self._checkpoints_changed = False
            self._checkpoints = deque(self._checkpoint_waits(now_us))
        return self._checkpoints.popleft() if self._checkpoints else None

    def _checkpoint_waits(self, now_us: int) -> list[facts.JobHeld | facts.JobReleased]:
        """Return which jobs are to be held, and which to be released."""
        state, found = self._state, list[facts.JobHeld | facts.JobReleased]()
        jobs = [state.jobs[job_id] for job_id in state.resumable]
        self._is_bound = any(job.stays_on is not None for job in jobs)
        for job in jobs:
            by = hold_wanted(job, state.cluster) if self._stay else ""
            is_held = waits_for_checkpoint(job)
            if is_held and job.held_by != by:
                found.append(facts.JobReleased(now_us, job.job_id, job.held_by))
            if by and (job.is_eligible or (is_held and job.held_by != by)):
                found.append(facts.JobHeld(now_us, job.job_id, by))
        return found
