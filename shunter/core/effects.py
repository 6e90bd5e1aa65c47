"""What goes out: the orders every backend understands, keyed by (job, attempt).

Resume is a launch from a checkpoint; migrate is a suspend and, once its end is observed, a launch
elsewhere. Every order is idempotent on its key. Stop, Continue and SetAside go to live
backends only.
"""

from typing import TypeAlias

from shunter.events.records import fact
from shunter.events.values import Allocation, JobId, JobSpec, NodeName


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
class Suspend:
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
class Reshape:
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
    | Suspend
    | Migrate
    | Reshape
    | Weigh
    | ShareTurns
    | Stop
    | Continue
    | Terminate
    | SetAside
    | Fence
)
