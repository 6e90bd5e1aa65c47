"""What comes in: commands of people and observations of backends, each with its instant.

Many observations are facts already (`AttemptStarted`, `GpusReleased`, `NodeLost`, …) and come as
such; the records here are those from which the core must make a fact, or more than one.
"""

from typing import TypeAlias

from shunter.events.facts import (
    AllocationLearned,
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    ClockStepped,
    GpuQuarantined,
    GpusReleased,
    GpusTaken,
    JobContinued,
    JobStopped,
    JobSuspended,
    LaunchFailed,
    MessagesDropped,
    NodeLost,
    NodeReachable,
    NodeUnreachable,
    ProfileSampled,
    ReshapeRefused,
    SegmentSealed,
    SpeedChanged,
    SuspendAcknowledged,
    SuspendEscalated,
    TrainingStarted,
    TurnEnded,
    TurnStarted,
)
from shunter.events.records import fact
from shunter.events.values import Allocation, JobId, JobSpec, NodeName


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
    | LaunchFailed
    | AttemptStarted
    | SpeedChanged
    | SuspendAcknowledged
    | SuspendEscalated
    | TrainingStarted
    | JobStopped
    | JobContinued
    | TurnStarted
    | TurnEnded
    | CheckpointSaved
    | MessagesDropped
    | JobSuspended
    | AttemptLost
    | GpusReleased
    | NodeLost
    | NodeUnreachable
    | NodeReachable
    | AllocationLearned
    | ReshapeRefused
    | GpuQuarantined
    | GpusTaken
    | ProfileSampled
    | ClockStepped
    | SegmentSealed
)
Input: TypeAlias = Command | Observation
