"""What a policy may look at, and for how long.

A view shows the state read-only and hides what a scheduler cannot know: how long a job will run
is told to declared oracles only. It is open while the core asks or tells a policy something, and
raises when it is used after that: the state behind it has moved on.
"""

from collections.abc import Mapping
from typing import Any

from shunter.core import estimates
from shunter.core.cluster import Cluster, Pool
from shunter.core.performance.correction import MeasuredCell
from shunter.core.performance.trials import KnownVerdict, Trial
from shunter.core.planning.guards import Guards
from shunter.core.proposals.book import ProposalBook
from shunter.core.queue import Queue
from shunter.core.state import NO_RESULT, FoldResult, Job, State
from shunter.errors import PlanError
from shunter.events.facts import Outcome, Target
from shunter.events.values import ChangeKey, Demand, JobId, QueueName, Wait


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
            return estimates.remaining_us(job, self.now_us)
        return max(0, duration_us - job.done_us(self.now_us))

    def duration_us(self, job: Job) -> int | None:
        """Return the total run time of a job at base speed, None where nobody knows.

        Raises:
            PlanError: the policy is not an oracle.
        """
        if not self._oracle:
            raise PlanError("only a policy that declares itself an oracle sees run times")
        duration_us = self._state.durations_us.get(job.job_id)
        return estimates.total_us(job) if duration_us is None else duration_us

    def is_declared(self, job: Job) -> bool:
        """Say whether a run time was declared, so that none need be estimated."""
        return job.job_id in self._state.durations_us
