"""What the core needs from others, and never who provides it.

First what comes in (commands and observations), then what goes out (orders), then the ports: a
policy, a backend, a log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from shunter.core.plan import Plan
from shunter.core.view import View
from shunter.events import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    Allocation,
    Event,
    JobId,
    JobSpec,
    NodeName,
    SolvedFact,
    fact,
    facts,
)

# From these records the core makes facts; other observations are facts already (`NodeLost`, …).


@fact
class SubmitJob:
    """Somebody submits a job; `duration_us` is what a trace knows of its run time.

    A second one under the same `key` of the same user is none. `environment` are names and digests.
    """

    at_us: int
    job_id: JobId
    spec: JobSpec
    duration_us: int | None = None
    key: str = ""
    environment: tuple[tuple[str, str], ...] = ()


@fact
class CancelJob:
    """Somebody wants a job to end; `group`: with all of its multi-job."""

    at_us: int
    job_id: JobId
    by: str = ""
    group: str = ""


@fact
class HoldJob:
    """Somebody wants a waiting job not to start."""

    at_us: int
    job_id: JobId
    by: str = ""


@fact
class SuspendJob:
    """Somebody wants a job to leave its GPUs, and not to start until it is released."""

    at_us: int
    job_id: JobId
    by: str = ""


@fact
class DiscardCheckpoint:
    """Somebody gives up what a job saved on servers that do not answer."""

    at_us: int
    job_id: JobId
    by: str = ""


@fact
class ReleaseJob:
    """Somebody lets a held job start again."""

    at_us: int
    job_id: JobId
    by: str = ""


@fact
class ResizeJob:
    """Somebody wants the gang of a job to have another number of GPUs."""

    at_us: int
    job_id: JobId
    gpus: int
    by: str = ""


@fact
class ChangePriority:
    """Somebody gives a job another priority; `group`: and to all of its multi-job."""

    at_us: int
    job_id: JobId
    priority: int
    by: str = ""
    group: str = ""


@fact
class SetAttemptAside:
    """Somebody wants nothing that a job's attempt tells to be believed any more."""

    at_us: int
    job_id: JobId
    by: str = ""


@fact
class ProposeGang:
    """Somebody's scheduler proposes places for a job, found in the view of `version`."""

    at_us: int
    job_id: JobId
    version: int
    candidates: tuple[Allocation, ...]
    by: str = ""


@fact
class DrainNode:
    """Somebody wants no new jobs on a server."""

    at_us: int
    node: NodeName
    by: str = ""


@fact
class RestoreNode:
    """Somebody puts a drained server back to work."""

    at_us: int
    node: NodeName
    by: str = ""


@fact
class QuarantineGpu:
    """Somebody wants no new jobs on one GPU of a server."""

    at_us: int
    node: NodeName
    gpu: int
    by: str = ""


@fact
class ReleaseGpu:
    """Somebody puts a quarantined GPU back to work."""

    at_us: int
    node: NodeName
    gpu: int
    by: str = ""


@fact
class AttemptExited:
    """The processes of an attempt are gone; `released` says that its GPUs are too.

    `ended_us` is when they went, where that was not seen at once. `memory_kills` of them were
    killed for want of memory. `signal` killed the one whose end the exit code tells.
    """

    at_us: int
    job_id: JobId
    attempt: int
    exit_code: int | None
    released: bool = False
    ended_us: int | None = None
    memory_kills: int = 0
    signal: int | None = None


@fact
class RoundEnded:
    """The backend says that a round is over (where rounds have no fixed length)."""

    at_us: int


@fact
class NothingComes:
    """Nothing happens any more in a simulation unless it is ordered."""

    at_us: int


@fact
class WorldEnded:
    """Nothing will happen again unless the scheduler acts (only a simulation knows)."""

    at_us: int


Command: TypeAlias = (
    SubmitJob
    | CancelJob
    | HoldJob
    | SuspendJob
    | DiscardCheckpoint
    | ReleaseJob
    | ResizeJob
    | ChangePriority
    | SetAttemptAside
    | ProposeGang
    | DrainNode
    | RestoreNode
    | QuarantineGpu
    | ReleaseGpu
)
Observation: TypeAlias = (
    AttemptExited
    | RoundEnded
    | NothingComes
    | WorldEnded
    | facts.LaunchFailed
    | facts.AttemptStarted
    | facts.SpeedChanged
    | facts.SuspendAcknowledged
    | facts.SuspendEscalated
    | facts.TrainingStarted
    | facts.JobStopped
    | facts.JobContinued
    | facts.TurnStarted
    | facts.TurnEnded
    | facts.CheckpointSaved
    | facts.MessagesDropped
    | facts.JobWarned
    | facts.JobSuspended
    | facts.AttemptLost
    | facts.GpusReleased
    | facts.NodeLost
    | facts.NodeUnreachable
    | facts.NodeReachable
    | facts.AllocationLearned
    | facts.ReshapeRefused
    | facts.GpuQuarantined
    | facts.GpusTaken
    | facts.ProfileSampled
    | facts.ClockStepped
    | facts.SegmentSealed
)
Input: TypeAlias = Command | Observation


# Every order is idempotent on its key (job, attempt). Stop, Continue and SetAside go to live
# backends only.


@fact
class Launch:
    """Start the job's first attempt.

    Where it takes turns, the weight of `spec` is that of now.
    """

    job_id: JobId
    attempt: int
    allocation: Allocation
    spec: JobSpec


@fact
class Resume:
    """Start a later attempt, from the last checkpoint.

    `checkpoints` are the servers of earlier attempts, by rank, the newest attempt first; None: of
    where its checkpoints lie nothing is known here, or all servers share them.
    """

    job_id: JobId
    attempt: int
    allocation: Allocation
    spec: JobSpec
    migrates: bool = False
    checkpoints: tuple[tuple[NodeName, ...], ...] | None = None


@fact
class SuspendAttempt:
    """Make an attempt save its state and leave its GPUs, to be resumed later."""

    job_id: JobId
    attempt: int


@fact
class Migrate:
    """Make an attempt save its state and leave, to be resumed elsewhere."""

    job_id: JobId
    attempt: int
    allocation: Allocation


@fact
class ReshapeAttempt:
    """Give a running attempt other CPUs or memory beside the GPUs that it has."""

    job_id: JobId
    attempt: int
    allocation: Allocation


@fact
class Weigh:
    """Give an attempt another weight beside those with which it takes turns."""

    job_id: JobId
    attempt: int
    weight: float


@fact
class ShareTurns:
    """Let an attempt have its turns together with other jobs.

    They are on the same GPUs at once. With nobody `beside` it has turns of its own again.
    """

    job_id: JobId
    attempt: int
    beside: tuple[JobId, ...]


@fact
class Stop:
    """Make the processes of an attempt stand still; it keeps all it holds."""

    job_id: JobId
    attempt: int


@fact
class Continue:
    """Let the processes of a stopped attempt go on."""

    job_id: JobId
    attempt: int


@fact
class Terminate:
    """End an attempt for good; where none runs, there will be no other one."""

    job_id: JobId
    attempt: int


@fact
class SetAside:
    """End an attempt, and believe nothing that it tells; then it is lost."""

    job_id: JobId
    attempt: int


@fact
class Fence:
    """Ensure that nothing of this or an earlier attempt runs or can write any more.

    With `is_alone` only this attempt is ended, and none is barred from starting: what was found
    running may bear a number that the log has yet to give.
    """

    job_id: JobId
    attempt: int
    is_alone: bool = False


PauseEffect: TypeAlias = Stop | Continue
"""What leaves an attempt where it is."""

Effect: TypeAlias = (
    Launch
    | Resume
    | SuspendAttempt
    | Migrate
    | ReshapeAttempt
    | Weigh
    | ShareTurns
    | Stop
    | Continue
    | Terminate
    | SetAside
    | Fence
)


Memory = TypeVar("Memory")
Observer = Callable[[Any, View], None]
Observers = Mapping[type[Event], Observer]

REPLAN_AFTER = (
    *(
        facts.JobSubmitted,
        facts.JobHeld,
        facts.JobReleased,
        facts.JobResized,
        facts.JobCancelRequested,
        facts.QuotaChanged,
    ),
    *(
        facts.GpusReleased,
        facts.LaunchFailed,
        facts.AttemptLost,
        facts.PlanRejected,
        *CLUSTER_CHANGES,
        *JOB_ENDS,
    ),
)
"""The kinds after which another plan may be due: who wants GPUs, or what GPUs there are."""


def both(first: Observers, second: Observers) -> Observers:
    """Return who is told of facts by two: the first of them before the second."""
    found = dict(first)
    for kind, observe in second.items():
        before = found.get(kind)
        found[kind] = observe if before is None else _one_after_the_other(before, observe)
    return found


def _one_after_the_other(first: Observer, second: Observer) -> Observer:
    def observe_both(event: Any, view: View) -> None:
        first(event, view)
        second(event, view)

    return observe_both


class Rng(Protocol):
    """A stream of chance that depends on nothing but seed, policy and round number."""

    def random(self) -> float:
        """Return the next number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Return the next integer in [0, bound)."""


class Policy(Protocol[Memory]):
    """A pure function from a view and its own memory to a plan that explains itself.

    Its memory is a plain dataclass which only observers and `advance` write; `self` holds
    configuration only. docs/decisions/policies.md says why the port is as it is.
    """

    @property
    def name(self) -> str:
        """Its name in configuration and log."""

    @property
    def version(self) -> str:
        """The version of its rules; another one may decide otherwise."""

    @property
    def oracle(self) -> bool:
        """Whether it is told how long jobs will run."""

    def start(self, view: View) -> Memory:
        """Return the memory for a cluster as it is, at time zero or in mid-log."""

    def observers(self, memory: Memory) -> Observers:
        """Return what it wants to hear of, and who listens: called after the fold."""

    def advance(self, memory: Memory, view: View) -> None:
        """Bring the memory up to the view's instant; called right before a plan."""

    def target(self, memory: Memory, view: View) -> tuple[facts.Target, ...] | SolvedFact | None:
        """Return new target shares if they are due: the expensive part, recorded.

        The whole fact, where there is more to say of them (that there was no answer, and why), or
        where it is of something else: the sizes of jobs.
        """

    def plan(self, memory: Memory, view: View, rng: Rng) -> Plan:
        """Return what to change now; reads only."""

    def wake_at(self, memory: Memory) -> int | None:
        """Return when it could decide otherwise though nothing arrives or ends; O(1)."""

    def settled(self, memory: Memory) -> bool:
        """Say whether a plan made now could not change anything."""


AnyPolicy: TypeAlias = Policy[Any]
"""A policy whose memory only itself reads."""


class Backend(Protocol):
    """Whoever carries effects out and sees what happens; only here does time pass."""

    @property
    def instant(self) -> bool:
        """Whether all outcomes take no time here, and so are part of the decision."""

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Accept the effects of a step; does not wait for their outcomes."""

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Wait for inputs and return them with the instant they bring us to.

        Returns the inputs of the next instant, and those that follow up to the next multiple of
        `gather_us`, never past `until_us`; on a timeout exactly `until_us` and nothing, but that
        `NothingComes` where a simulation knows it.
        """


class SimulatedWorld(Backend, Protocol):
    """A simulated cluster, as what other packages put around it sees it."""

    @property
    def arrivals(self) -> Sequence[tuple[int, JobId, JobSpec]]:
        """Instant, id and specification of every job of the trace, in its order."""

    @property
    def arrives_us(self) -> int:
        """The instant of the next arrival; one that never comes, if there is none."""

    def due(self, at_us: int) -> list[JobId] | None:
        """Return whose ends are foreseen at an instant, in order; None: not next."""

    def end(self, job_id: JobId, at_us: int) -> Input | None:
        """End a job, whether it runs or waits; None: it has gone."""


class EventLog(Protocol):
    """Where facts go."""

    def append(self, events: Sequence[Event]) -> int:
        """Fix the order of events and return the last sequence number; no I/O."""

    async def commit(self) -> None:
        """Make what was appended durable, as far as this log promises."""
