"""What a policy may look at, and for how long.

A view shows the state read-only and hides what a scheduler cannot know: only declared oracles see
how long a job will run. It is open while the core asks a policy something, and raises when it is
used after that: the state behind it has moved on.

With it come the guards of jobs, and what is known of how long they still need.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from shunter.core.cluster import Cluster, Pool
from shunter.core.speeds import KnownVerdict, MeasuredCell, Trial
from shunter.core.state import (
    ENDING,
    NO_RESULT,
    RUNNING,
    FoldResult,
    Job,
    ProposalBook,
    Queue,
    State,
)
from shunter.errors import PlanError
from shunter.events import (
    ChangeKey,
    Demand,
    JobId,
    Outcome,
    QueueName,
    Reason,
    SuspendMode,
    Target,
    Wait,
    fact,
)

# Under every policy a pinned job keeps its GPUs and is seated first; so is every job that has GPUs
# and has not been launched. The approver refuses plans that would move a pinned job.

HOUR_US = 3_600_000_000
_NEVER = SuspendMode.never  # members are slow to look up


class Band(IntEnum):
    """The first part of every rank."""

    pinned = 0
    starved = 1
    normal = 2


@fact
class Guards:
    """The promises: all off by default; durations in microseconds.

    `min_runtime_us`: what an attempt may run before it is preempted, from its first mini-batch on
    where that is told. `preemptions_per_hour`: how
    often one job is preempted in any hour at most. `starvation_us`: how long a job waits at a
    stretch before it goes to the head of the line. `launches_first`: launches take time, so a job
    keeps what it was given until it was launched there, and runs from its first mini-batch on.
    `only_lower`: a job is told to wait for the guards of those alone that would rank behind it.
    """

    min_runtime_us: int = 0
    preemptions_per_hour: int | None = None
    starvation_us: int | None = None
    launches_first: bool = False
    only_lower: bool = False

    @property
    def are_off(self) -> bool:
        """Whether no guard is configured; jobs that must never be suspended stay pinned."""
        return (
            not self.min_runtime_us
            and self.preemptions_per_hour is None
            and (self.starvation_us is None)
        )

    def pinned_by(self, job: Job, now_us: int) -> Reason | None:
        """Return what keeps a job where it is, if anything: a guard, or a launch to come."""
        guard = self.guarded_by(job, now_us)
        return Reason.guard_min_runtime if guard is None and self.is_promised(job) else guard

    def is_promised(self, job: Job) -> bool:
        """Say whether a job was given GPUs on which it has not been launched yet."""
        return (
            self.launches_first
            and job.phase is not RUNNING
            and job.phase is not ENDING
            and bool(job.allocation.shares)
        )

    def runs_from_us(self, job: Job) -> int:
        """Return the instant from which it counts what an attempt has run."""
        if self.launches_first and job.counts_from_us is not None:
            return job.counts_from_us
        return job.attempt_began_us or 0

    def guarded_by(self, job: Job, now_us: int) -> Reason | None:
        """Return the guard that keeps a job where it is, if one does."""
        if not job.allocation.shares:
            return None
        if job.spec.suspend_mode is _NEVER:
            return Reason.guard_preemption_limit
        if self._min_runtime_until(job) > now_us:
            return Reason.guard_min_runtime
        until_us = self._limit_until(job)
        if until_us is not None and now_us < until_us:
            return Reason.guard_preemption_limit
        return None

    def band(self, job: Job, now_us: int) -> Band:
        """Return the first part of a job's rank; a starved job keeps it until it runs."""
        if job.allocation.shares and self.pinned_by(job, now_us):
            return Band.pinned
        starves_us = self._starves_at(job)
        return Band.starved if starves_us is not None and now_us >= starves_us else Band.normal

    def changes_at(self, job: Job, now_us: int) -> int | None:
        """Return when the band of a job changes next if nothing happens to it."""
        if job.allocation.shares:
            if job.spec.suspend_mode is SuspendMode.never:
                return None
            if self.is_promised(job):
                return None  # its launch ends this
            ends = [self._limit_until(job)]
            ends.append(self._min_runtime_until(job))
            pinned_us = max((end for end in ends if end is not None), default=now_us)
            if pinned_us > now_us:
                return pinned_us
        starves_us = self._starves_at(job)
        return starves_us if starves_us is not None and starves_us > now_us else None

    def _min_runtime_until(self, job: Job) -> int:
        """Return until when a job has run for too short a time; 0: no more.

        What an attempt runs counts from its first mini-batch on, which may be to come; where the
        guard is off that keeps nobody.
        """
        if not self.min_runtime_us or job.since_us is None:
            return 0
        return self.runs_from_us(job) + self.min_runtime_us

    def _limit_until(self, job: Job) -> int | None:
        limit = self.preemptions_per_hour
        if limit is None or len(job.preempted_at_us) < limit:
            return None
        return job.preempted_at_us[-limit] + HOUR_US

    def _starves_at(self, job: Job) -> int | None:
        if self.starvation_us is None or job.waiting_since_us is None:
            return None
        return job.waiting_since_us + self.starvation_us


NO_GUARDS = Guards()


# How long a live job still needs:
#
# (total steps - step) x measured time of a mini-batch     if it says its steps and shows its pace
# what is left of its time limit                           else, where it has one
# nothing                                                  else: an oracle ranks it last


def remaining_us(job: Job, now_us: int) -> int | None:
    """Return the time a job probably still needs, None where nothing is known of it.

    It falls as time passes while the job works, from the last sample on.
    """
    measured_rate, steps = job.measured_rate, job.spec.total_steps
    if measured_rate is not None and steps is not None:
        left_us = max(0, steps - measured_rate.step) * measured_rate.batch_us
        since_us = job.working_since_us
        worked_us = 0 if since_us is None else now_us - max(since_us, measured_rate.at_us)
        return max(0, left_us - worked_us)
    limit_us = job.spec.time_limit_us
    return None if limit_us is None else max(0, limit_us - job.occupied_us(now_us))


def is_by_limit(job: Job, state: State) -> bool:
    """Say whether nothing but its time limit tells how long a job still needs."""
    is_measured = job.measured_rate is not None and job.spec.total_steps is not None
    return not is_measured and job.job_id not in state.durations_us


def expected_us(job: Job, now_us: int) -> int:
    """Return the time a job is taken to need still.

    Where nothing is known it is as long as it has run: the usual guess for jobs of unknown length,
    few of which are long.
    """
    left_us = remaining_us(job, now_us)
    return job.occupied_us(now_us) if left_us is None else left_us


def total_us(job: Job) -> int | None:
    """Return the time a job probably needs in all, None where nothing is known of it."""
    measured_rate, steps = job.measured_rate, job.spec.total_steps
    if measured_rate is not None and steps is not None:
        return steps * measured_rate.batch_us
    return job.spec.time_limit_us


class _Closed(State):
    """Stands in for the state outside a call; every look at it says what is wrong."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> object:
        raise PlanError(f"a view was used after the call it was made for (it asked for {name})")


_CLOSED: Any = _Closed()


class View:
    """A read-only look at the state at the instant `now_us`.

    `all_reasons` asks a plan to tell what holds back every class, not only what is new, and
    `full_waits` one without classes to tell it also of those that lose their GPUs by it. Where
    `moves_evicted`, a plan gives those that it evicts other GPUs, if some are left for them. Where
    `homes_are_fixed`, jobs that take turns keep their GPUs, but for those that can move. While an
    event is told, `result` is what became of jobs with it.
    """

    __slots__ = (
        "_open",
        "_oracle",
        "_state",
        "all_reasons",
        "full_waits",
        "guards",
        "homes_are_fixed",
        "is_guarded",
        "moves_evicted",
        "now_us",
        "result",
    )

    def __init__(
        self,
        state: State,
        guards: Guards,
        *,
        oracle: bool,
        all_reasons: bool,
        homes_are_fixed: bool = False,
        full_waits: bool = False,
        moves_evicted: bool = False,
    ) -> None:
        self._open: State = state
        self._state: State = _CLOSED
        self.result: FoldResult = _CLOSED
        self._oracle = oracle
        self.guards = guards
        self.is_guarded = not guards.are_off
        self.all_reasons = all_reasons
        self.homes_are_fixed = homes_are_fixed
        self.full_waits = full_waits
        self.moves_evicted = moves_evicted
        self.now_us = 0

    def open(self) -> None:
        """Let the view be used."""
        self._state = self._open
        self.result = NO_RESULT

    def close(self) -> None:
        """Make every further use raise."""
        self._state = self.result = _CLOSED

    @property
    def seq(self) -> int:
        """The sequence number of the last event in the view."""
        return self._state.seq

    @property
    def cluster(self) -> Cluster:
        """The servers."""
        return self._state.cluster

    @property
    def pools(self) -> Mapping[str, Pool]:
        """The servers by GPU type, with their free GPUs."""
        return self._state.cluster.pools

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        """The jobs that have not ended, in the order of submission."""
        return self._state.jobs

    @property
    def resumable(self) -> tuple[Job, ...]:
        """The jobs whose checkpoints bind them to servers or to a split."""
        state = self._state
        return tuple(state.jobs[job_id] for job_id in state.resumable)

    @property
    def queues(self) -> Mapping[QueueName, Queue]:
        """The queues that were configured or used."""
        return self._state.queues

    def quota_free(self, name: QueueName) -> int:
        """Return how many GPUs the jobs of a queue with a quota may still get."""
        queue = self._state.queues[name]
        return (queue.quota_gpus or 0) - queue.gpus

    @property
    def class_waits(self) -> Mapping[Demand, Wait]:
        """What held back each class of equal jobs after the last round."""
        return self._state.class_waits

    @property
    def targets(self) -> tuple[Target, ...]:
        """The target shares recorded last."""
        return self._state.targets

    @property
    def messages(self) -> Mapping[str, tuple[int, int]]:
        """The largest message and the most of all in a mini-batch, in bytes, by model."""
        return self._state.messages

    @property
    def corrections(self) -> Mapping[str, tuple[MeasuredCell, ...]]:
        """What jobs measured otherwise than the table of sensitivity says, by model."""
        return self._state.corrections

    @property
    def trials(self) -> Mapping[JobId, Trial]:
        """The changes that are being tried, by the first of their jobs."""
        return self._state.trials

    @property
    def verdicts(self) -> Mapping[ChangeKey, KnownVerdict]:
        """How the last trials of changes ended."""
        return self._state.verdicts

    @property
    def proposals(self) -> ProposalBook:
        """Who may be proposed, who was rejected, and which GPUs are kept for whom."""
        return self._state.proposals

    @property
    def reservations(self) -> Mapping[JobId, int]:
        """From when on GPUs are kept for which waiting jobs."""
        return self._state.reservations

    @property
    def launched(self) -> tuple[Job, ...]:
        """The jobs whose attempt began with the event just told."""
        return self.result.launched

    def can_rehome(self, job: Job) -> bool:
        """Say whether a job that takes turns may be given other GPUs of its server."""
        return job.can_move or not self.homes_are_fixed

    def partners(self, job: Job) -> tuple[JobId, ...]:
        """Return who shares GPUs with a job, as decided, in order of submission."""
        return self._state.cluster.deciding.beside(job.job_id, job.allocation.shares)

    def outcome(self, job_id: JobId) -> Outcome:
        """Return how the job ended whose end is being told.

        Raises:
            PlanError: it is about another job.
        """
        departed = self.result.departed
        if departed is None or departed.job_id != job_id or departed.outcome is None:
            raise PlanError(
                f"only the end that is told has an outcome, and it is not that of {job_id}"
            )
        return departed.outcome

    @property
    def departed(self) -> Job | None:
        """The job whose end is being told; None: the event is no end."""
        return self.result.departed

    @property
    def unblocked(self) -> tuple[JobId, ...]:
        """The jobs which waited for the end that is being told."""
        return self.result.unblocked

    def remaining_us(self, job: Job) -> int | None:
        """Return a job's work left in microseconds at base speed, None if nobody knows.

        Raises:
            PlanError: the policy is not an oracle.
        """
        if not self._oracle:
            raise PlanError("only a policy that declares itself an oracle sees remaining time")
        duration_us = self._state.durations_us.get(job.job_id)
        if duration_us is None:
            return remaining_us(job, self.now_us)
        return max(0, duration_us - job.done_us(self.now_us))

    def duration_us(self, job: Job) -> int | None:
        """Return the total run time of a job at base speed, None where nobody knows.

        Raises:
            PlanError: the policy is not an oracle.
        """
        if not self._oracle:
            raise PlanError("only a policy that declares itself an oracle sees run times")
        duration_us = self._state.durations_us.get(job.job_id)
        return total_us(job) if duration_us is None else duration_us

    def is_declared(self, job: Job) -> bool:
        """Say whether a run time was declared, so that none need be estimated."""
        return job.job_id in self._state.durations_us
