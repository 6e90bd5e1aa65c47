"""Facts about what really ran, as backends observed it."""

from shunter.events.values.fact import fact
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import SuspendMode


@fact
class LaunchFailed:
    """An attempt never started; its GPUs are free again."""

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    retryable: bool = True


@fact
class AttemptStarted:
    """A job's processes run: from which checkpoint, moved from which servers.

    `speed` is relative to base speed, where the performance model foresees it (a simulation).
    """

    at_us: int
    job_id: JobId
    attempt: int
    resumed_from: str = ""
    migrated_from: tuple[NodeName, ...] = ()
    speed: float = 1.0


@fact
class SpeedChanged:
    """A running attempt goes at another speed, because who shares its GPUs changed.

    `speed` is relative to base speed, as the performance model foresees it (a simulation).
    """

    at_us: int
    job_id: JobId
    attempt: int
    speed: float


@fact
class SuspendAcknowledged:
    """The job has seen the request and will stop at its next mini-batch boundary."""

    at_us: int
    job_id: JobId
    attempt: int


@fact
class SuspendEscalated:
    """The job did not answer in time; the next stronger mode was used."""

    at_us: int
    job_id: JobId
    attempt: int
    mode: SuspendMode


@fact
class JobStopped:
    """The processes of an attempt stand still; it keeps its GPUs and memory."""

    at_us: int
    job_id: JobId
    attempt: int


@fact
class JobContinued:
    """The processes of a stopped attempt go on."""

    at_us: int
    job_id: JobId
    attempt: int


@fact
class CheckpointSaved:
    """A checkpoint is complete on disk."""

    at_us: int
    job_id: JobId
    attempt: int
    checkpoint: str
    step: int | None = None
    bytes: int | None = None


@fact
class JobSuspended:
    """An attempt ended to go on later; `lost_us` of its work must be redone."""

    at_us: int
    job_id: JobId
    attempt: int
    step: int | None = None
    lost_us: int = 0


@fact
class AttemptEnded:
    """The processes of an attempt are gone; None where nobody saw the exit code."""

    at_us: int
    job_id: JobId
    attempt: int
    exit_code: int | None


@fact
class AttemptLost:
    """An attempt ended with its server or supervisor; the job goes back to the queue.

    Its GPUs are free with it; `lost_us` is the work since its last checkpoint.
    """

    at_us: int
    job_id: JobId
    attempt: int
    cause: str
    lost_us: int = 0


@fact
class GpusReleased:
    """Nothing of the job is on its GPUs any more; they can be given on."""

    at_us: int
    job_id: JobId
    attempt: int
