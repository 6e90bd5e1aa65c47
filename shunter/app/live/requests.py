"""What people ask of a running cluster, who they are, and what they are told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.events.kinds import Event
from shunter.events.values.job_spec import Dependency, Level, SuspendMode

__all__ = ["Caller", "Receipt", "Submission"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: proven by the peer of a socket or by a token, never claimed in a request."""

    user: str
    uid: int | None = None
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as its owner describes it; memory is in MB, times in microseconds.

    `key` makes a submission happen once, however often it is sent: whoever sends a second one
    under the key gets the job of the first. `environment` are values the job gets and nobody else
    sees; the log holds none of them.
    """

    command: tuple[str, ...]
    directory: str = ""
    name: str = ""
    queue: str = "default"
    gpus: int = 1
    gpu_types: tuple[str, ...] = ()
    cpus_milli: int = 0
    memory_mb: int = 0
    priority: int = 0
    weight: float = 1.0
    time_limit_us: int | None = None
    deadline_us: int | None = None
    suspend_mode: SuspendMode = SuspendMode.cooperative
    checkpoint_interval_us: int | None = None
    model: str = ""
    batch_size: int | None = None
    total_steps: int | None = None
    max_level: Level | None = None
    group: str = ""
    after: tuple[Dependency, ...] = ()
    array_index: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a command: the step that took it is durable, its effects are on their way.

    `events` are those of the step about the command's job or server, `seq` is the step's last.
    """

    seq: int
    at_us: int
    events: tuple[Event, ...]
