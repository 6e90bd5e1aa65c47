"""Facts about what really ran, as backends observed it.

`nodes` of what an attempt's journal told are the servers whose journal it is, of a gang over
several.
"""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.causes import GIVEN_UP, LOST
from shunter.events.values.fact import event
from shunter.events.values.fact_class import COMMANDED, DERIVED, OBSERVED, KindClass
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import SuspendMode


@event
class LaunchFailed:
    """An attempt never started; its GPUs are free again.

    `checkpoint_on` names the servers its checkpoint could not be brought from or to. Such a failure
    is not the job's own, and does not count among those of which it fails. `waited`: up to now it
    was in the queue of who starts jobs instead of this scheduler, and that is no service.
    `checkpoint_stays`: what it saved is more than is copied, so it goes on there or without it.
    """

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    retryable: bool = True
    checkpoint_on: tuple[NodeName, ...] = ()
    waited: bool = False
    checkpoint_stays: bool = False


@event
class AttemptStarted:
    """A job's processes run: from which checkpoint, moved from which servers.

    `speed` is relative to base speed, where the performance model foresees it (a simulation).
    `keeps_split` says that later attempts must have as many GPUs on each server as this one, since
    its checkpoints depend on it. `checkpoints_stay` says that these lie on its own servers, and
    must be copied from there to wherever the job goes on. `may_tell_training`: its first mini-batch
    follows as `TrainingStarted`, if the job tells it. `waited`: up to now it was in the queue of
    who starts jobs instead of this scheduler, and that counts neither as service nor to its limit:
    up to `started_us`, where that was seen only later.
    """

    at_us: int
    job_id: JobId
    attempt: int
    resumed_from: str = ""
    migrated_from: tuple[NodeName, ...] = ()
    speed: float = 1.0
    keeps_split: bool = False
    checkpoints_stay: bool = False
    may_tell_training: bool = False
    waited: bool = False
    started_us: int | None = None


@event
class AllocationLearned:
    """An attempt is on these GPUs, and not on those that were booked for it.

    Who places the jobs instead of this scheduler (Slurm) has told it, best before
    `AttemptStarted`. Others that had been given these GPUs get what it gave up, or are displaced.
    """

    at_us: int
    job_id: JobId
    attempt: int
    allocation: Allocation


@event
class TrainingStarted:
    """An attempt has told its first mini-batch: it has started up, and trains."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class SpeedChanged:
    """A running attempt goes at another speed, because who shares its GPUs changed.

    `speed` is relative to base speed, as the performance model foresees it (a simulation).
    """

    at_us: int
    job_id: JobId
    attempt: int
    speed: float


@event
class ReshapeRefused:
    """An attempt keeps its CPUs and memory: its server refused it others.

    `wanted` are the shares that were refused, on servers of one agent, `kept` what the attempt has
    there instead, `cause` what the agent said. It is asked for no other ones while it lasts.
    """

    at_us: int
    job_id: JobId
    attempt: int
    wanted: tuple[Share, ...]
    kept: tuple[Share, ...]
    cause: str


@event
class SuspendAcknowledged:
    """The job has seen the request and will stop at its next mini-batch boundary."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class SuspendEscalated:
    """The job did not answer in time; the next stronger mode was used."""

    at_us: int
    job_id: JobId
    attempt: int
    mode: SuspendMode
    nodes: tuple[NodeName, ...] = ()


@event
class JobStopped:
    """The processes of an attempt stand still; it keeps its GPUs and memory."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class JobContinued:
    """The processes of a stopped attempt go on."""

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...] = ()


@event
class TurnStarted:
    """An attempt that shares GPUs in turns works now, on these of its servers.

    `shares` are those of this turn, which may be others of the same servers than it was given.
    `began_us` is when it began, if it was seen later. `can_move`: its program has said that it
    takes its GPUs anew with each turn. Of a gang over several servers each tells of its own part,
    and it works once it has all of them, at the speed that the last one tells.
    """

    at_us: int
    job_id: JobId
    attempt: int
    shares: tuple[Share, ...]
    speed: float = 1.0
    began_us: int | None = None
    can_move: bool = False


@event
class TurnEnded:
    """The turn of an attempt is over; others have its GPUs until the next one.

    `ended_us` is when it ended, if it was seen later. `nodes` are the servers of a gang on which it
    did, if not on all of them at once.
    """

    at_us: int
    job_id: JobId
    attempt: int
    ended_us: int | None = None
    nodes: tuple[NodeName, ...] = ()


@event
class CheckpointSaved:
    """A checkpoint is complete on disk."""

    at_us: int
    job_id: JobId
    attempt: int
    checkpoint: str
    step: int | None = None
    bytes: int | None = None
    nodes: tuple[NodeName, ...] = ()


@event
class CheckpointDiscarded:
    """A job goes on without what an attempt saved on some servers.

    `attempt` is the one that saved there, and `step` the last step that it told of. The cause is
    that a server of them was `lost` or left the cluster, or that somebody gave the checkpoint up
    (`given_up`).
    """

    at_us: int
    job_id: JobId
    attempt: int
    nodes: tuple[NodeName, ...]
    step: int | None = None
    cause: str = ""
    by: str = ""


@event
class JobSuspended:
    """An attempt ended to go on later; `lost_us` of its work must be redone.

    `cause` says who ended it, where this scheduler did not: such as Slurm by its time limit.
    """

    at_us: int
    job_id: JobId
    attempt: int
    step: int | None = None
    lost_us: int = 0
    cause: str = ""


@event
class AttemptEnded:
    """The processes of an attempt are gone; None where nobody saw the exit code.

    `ended_us` is when they went, where the scheduler saw that later. `memory_kills` are those
    that the kernel killed because the attempt used more than its memory. `signal` killed the
    process whose end the exit code tells, as its server saw; without one it may have exited so.
    """

    at_us: int
    job_id: JobId
    attempt: int
    exit_code: int | None
    ended_us: int | None = None
    memory_kills: int = 0
    signal: int | None = None


@event
class AttemptLost:
    """An attempt ended with its server or supervisor; the job goes back to the queue.

    Its GPUs are free with it; `lost_us` is the work since its last checkpoint.
    """

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    lost_us: int = 0


@event
class GpusReleased:
    """Nothing of the job is on its GPUs any more; they can be given on."""

    at_us: int
    job_id: JobId
    attempt: int


@event
class MessagesDropped:
    """Messages of an attempt were not taken: wrong ones, or too many of them.

    `count` is how many so far, `cause` what was wrong with the last one.
    """

    at_us: int
    job_id: JobId
    attempt: int
    count: int
    cause: str
    nodes: tuple[NodeName, ...] = ()


@event
class AttemptSetAside:
    """Somebody ordered that nothing an attempt tells is believed any more.

    It is ended, and counts as lost once nothing of it runs.
    """

    at_us: int
    job_id: JobId
    attempt: int
    by: str = ""


ExecutionEvent: TypeAlias = (
    LaunchFailed
    | AttemptStarted
    | SuspendAcknowledged
    | SuspendEscalated
    | TrainingStarted
    | JobStopped
    | JobContinued
    | TurnStarted
    | TurnEnded
    | CheckpointSaved
    | CheckpointDiscarded
    | JobSuspended
    | AttemptEnded
    | AttemptLost
    | GpusReleased
    | SpeedChanged
    | MessagesDropped
    | AttemptSetAside
    | AllocationLearned
    | ReshapeRefused
)

CLASSES: Mapping[type, KindClass] = {
    LaunchFailed: KindClass(OBSERVED),
    AttemptStarted: KindClass(OBSERVED),
    SuspendAcknowledged: KindClass(OBSERVED),
    SuspendEscalated: KindClass(OBSERVED),
    TrainingStarted: KindClass(OBSERVED),
    JobStopped: KindClass(OBSERVED),
    JobContinued: KindClass(OBSERVED),
    TurnStarted: KindClass(OBSERVED),
    TurnEnded: KindClass(OBSERVED),
    CheckpointSaved: KindClass(OBSERVED),
    CheckpointDiscarded: KindClass(COMMANDED, "cause", {LOST: DERIVED, GIVEN_UP: COMMANDED}),
    JobSuspended: KindClass(OBSERVED),
    AttemptEnded: KindClass(OBSERVED),
    AttemptLost: KindClass(OBSERVED),
    GpusReleased: KindClass(OBSERVED),
    SpeedChanged: KindClass(OBSERVED),
    MessagesDropped: KindClass(OBSERVED),
    AttemptSetAside: KindClass(COMMANDED),
    AllocationLearned: KindClass(OBSERVED),
    ReshapeRefused: KindClass(OBSERVED),
}
"""Where facts of attempts come from."""
