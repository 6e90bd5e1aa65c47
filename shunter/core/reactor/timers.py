"""What is due once time has come: time limits, back-off, turns of arrays, checkpoint holds.

All of it can be read from the state; what stands here is an index of that, so that a step need not
look at every job. At the end of a step comes what is due, in this order. A job whose time limit is
over is asked to end; one that backed off comes back; tasks of arrays have their turn; and jobs are
held whose checkpoints do not answer or stay where there is no room, and released once they may go
on.
"""

from collections import deque
from heapq import heappop, heappush

from shunter.core.backoff import Returns
from shunter.core.fold.checkpoints import hold_wanted, waits_for_checkpoint
from shunter.core.intake.arrays import TURNING, Arrays
from shunter.core.planning.planner import RoundRules
from shunter.core.proposals.repeats import Repeats
from shunter.core.state import ENDING, Job, State
from shunter.events.facts import (
    CLUSTER_CHANGES,
    AttemptLost,
    CheckpointDiscarded,
    Event,
    GangRejected,
    GpusReleased,
    JobHeld,
    JobReleased,
    LaunchFailed,
    SchedulerStarted,
    TimeLimitReached,
)
from shunter.events.values import ARRAY, BACKING_OFF, JobId

_CHANGING = frozenset(
    (
        *CLUSTER_CHANGES,
        GpusReleased,
        AttemptLost,
        LaunchFailed,
        JobReleased,
        CheckpointDiscarded,
        SchedulerStarted,
    )
)
"""The kinds after which a checkpoint may be in reach, or out of it, or wanted by a waiting job."""

Due = TimeLimitReached | JobHeld | JobReleased | GangRejected
"""The facts that follow from the state and the time, or tell of a round that is over."""


class Timers:
    """What will be due, and when; begins with what the state says.

    By the rules checkpoints may lie on the servers that saved them, and the time limit of an
    attempt may count from its start on: before it waits in a queue that is not ours.
    """

    __slots__ = (
        "_checkpoints",
        "_checkpoints_changed",
        "_is_bound",
        "_limits",
        "_state",
        "_stay",
        "_turns",
        "_turns_changed",
        "_waits",
        "arrays",
        "repeats",
        "returns",
    )

    def __init__(self, state: State, rules: RoundRules) -> None:
        self._state = state
        self._stay = rules.checkpoints_stay
        self._waits = rules.launches_wait
        self._limits: list[tuple[int, int, JobId, int]] = []
        self._turns: deque[JobId] = deque()
        self._turns_changed = True
        self._checkpoints: deque[JobHeld | JobReleased] = deque()
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
            return JobReleased(now_us, back, BACKING_OFF)
        if self.repeats.is_set and (told := self.repeats.due(self._state.jobs, now_us)):
            return told
        if self.arrays.is_set and (turn := self._turn()) is not None:
            return JobReleased(now_us, turn, ARRAY)
        return self._checkpoint(now_us) if self._state.resumable else None

    def _next_limit(self) -> int | None:
        while self._limits:
            due_us, _, job_id, attempt = self._limits[0]
            job = self._state.jobs.get(job_id)
            if job is not None and job.attempt == attempt and job.since_us is not None:
                return due_us
            heappop(self._limits)
        return None

    def _over(self, now_us: int) -> TimeLimitReached | None:
        """Take out the next job that has held its GPUs as long as it may."""
        while (due_us := self._next_limit()) is not None and due_us <= now_us:
            _, _, job_id, _ = heappop(self._limits)
            job = self._state.jobs[job_id]
            if job.phase is not ENDING:
                assert job.spec.time_limit_us is not None, "only jobs with a limit are timed"
                return TimeLimitReached(now_us, job_id, job.spec.time_limit_us)
        return None

    def _turn(self) -> JobId | None:
        """Take out the next task whose turn it is."""
        if self._turns_changed:
            self._turns_changed = False
            self._turns = deque(self.arrays.due(self._state.jobs))
        return self._turns.popleft() if self._turns else None

    def _checkpoint(self, now_us: int) -> JobHeld | JobReleased | None:
        """Take out the next job that is to wait for its checkpoint, or need not any more."""
        if self._checkpoints_changed:
            self._checkpoints_changed = False
            self._checkpoints = deque(self._checkpoint_waits(now_us))
        return self._checkpoints.popleft() if self._checkpoints else None

    def _checkpoint_waits(self, now_us: int) -> list[JobHeld | JobReleased]:
        """Return which jobs are to be held, and which to be released."""
        state, found = self._state, list[JobHeld | JobReleased]()
        jobs = [state.jobs[job_id] for job_id in state.resumable]
        self._is_bound = any(job.stays_on is not None for job in jobs)
        for job in jobs:
            by = hold_wanted(job, state.cluster) if self._stay else ""
            is_held = waits_for_checkpoint(job)
            if is_held and job.held_by != by:
                found.append(JobReleased(now_us, job.job_id, job.held_by))
            if by and (job.is_eligible or (is_held and job.held_by != by)):
                found.append(JobHeld(now_us, job.job_id, by))
        return found
