"""What a user asks for: the job specification, and the part of it that placement looks at."""

from dataclasses import replace
from enum import StrEnum

from shunter.events.values.fact import value
from shunter.events.values.ids import GpuType, JobId, QueueName, UserName
from shunter.events.values.resources import Resources


class SuspendMode(StrEnum):
    """How a job can be made to give its GPUs back, and what that costs it."""

    cooperative = "cooperative"
    signal = "signal"
    restart = "restart"
    stop = "stop"
    never = "never"

    @property
    def is_preemptible(self) -> bool:
        """Whether its GPUs can be taken before it ends."""
        return self is not SuspendMode.never

    @property
    def frees_gpus(self) -> bool:
        """Whether the mode alone gives GPUs back, no stronger one needed."""
        return self in (SuspendMode.cooperative, SuspendMode.signal, SuspendMode.restart)

    @property
    def loses_work(self) -> bool:
        """Whether what was done since the last checkpoint is done again."""
        return self is SuspendMode.restart or self is SuspendMode.stop


class Level(StrEnum):
    """How far apart the GPUs of one allocation are, nearest first."""

    switch = "switch"
    socket = "socket"
    server = "server"
    rack = "rack"
    domain = "domain"
    cluster = "cluster"


class DependsWhen(StrEnum):
    """Which end of another job releases this one."""

    ok = "ok"
    any = "any"


UNBOUNDED = QueueName("")


@value
class Dependency:
    """Another job that must have ended first: well (`ok`) or in whatever way (`any`)."""

    job_id: JobId
    when: DependsWhen = DependsWhen.ok


@value
class Demand:
    """What a class of equal jobs needs; to placement, equal demands are one.

    `queue` is named only where the queue has a quota that bounds the class. `shapes` lists
    acceptable GPU counts per server, each summing to `gpus`; empty means any. `tight` asks for the
    fewest servers that could hold the gang; a placement says so, never the job itself.
    `keeps_split` says that the one shape is that of the job's checkpoints, not its owner's wish.
    """

    gpus: int
    queue: QueueName = UNBOUNDED
    cpus_milli: int = 0
    memory_mb: int = 0
    gpu_types: tuple[GpuType, ...] = ()
    max_level: Level | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    tight: bool = False
    keeps_split: bool = False

    @property
    def resources(self) -> Resources:
        """What the whole job asks for."""
        return Resources(self.gpus, self.cpus_milli, self.memory_mb)

    def __hash__(self) -> int:
        """Return a hash of the numbers only: cheap, and it tells most apart."""
        return self.gpus ^ self.cpus_milli << 8 ^ self.memory_mb << 16


@value
class JobSpec:
    """Everything a submission says. CPUs and memory are those of the whole job.

    The fields used most come first, and trailing defaults are left out on disk. `skew` is the size
    of the model's largest tensor over that of all of them, from 0 to 1. `array` is the first task
    of the array it belongs to, of which `at_once` may run at the same time. `split_may_change` says
    that its checkpoints can be loaded by another number of processes, with other GPUs each. After
    so many `retries` an attempt that fails by itself fails the job.
    """

    gpus: int = 1
    user: UserName = UserName("")
    queue: QueueName = QueueName("default")
    model: str = ""
    batch_size: int | None = None
    total_steps: int | None = None
    cpus_milli: int = 0
    memory_mb: int = 0
    time_limit_us: int | None = None
    weight: float = 1.0
    priority: int = 0
    gpu_types: tuple[GpuType, ...] = ()
    name: str = ""
    group: str = ""
    command: tuple[str, ...] = ()
    directory: str = ""
    gpus_min: int | None = None
    gpus_max: int | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    deadline_us: int | None = None
    depends_on: tuple[Dependency, ...] = ()
    array_index: int | None = None
    tolerance: tuple[tuple[Level, float], ...] = ()
    max_level: Level | None = None
    min_speed: float | None = None
    suspend_mode: SuspendMode = SuspendMode.cooperative
    checkpoint_interval_us: int | None = None
    skew: float | None = None
    array: JobId = JobId("")
    at_once: int | None = None
    split_may_change: bool = False
    retries: int = 0

    def demand(self, bounding_queue: QueueName = UNBOUNDED) -> Demand:
        """Return the part that decides when and where the job can run."""
        return Demand(
            self.gpus,
            bounding_queue,
            self.cpus_milli,
            self.memory_mb,
            self.gpu_types,
            self.level_max,
            self.shapes,
        )

    def resized(self, gpus: int) -> "JobSpec":
        """Return what a job asks for once its gang has another size.

        CPUs and memory go with its GPUs, rounded up; of the splits those stay that are as large.

        Args:
            gpus: the new size; it and the old one are 1 at least.
        """
        asked = Resources(self.gpus, self.cpus_milli, self.memory_mb).at_most_with(gpus)
        return replace(
            self,
            gpus=gpus,
            cpus_milli=asked.cpus_milli,
            memory_mb=asked.memory_mb,
            shapes=tuple(shape for shape in self.shapes if sum(shape) == gpus),
        )

    @property
    def level_max(self) -> Level | None:
        """The widest spread accepted: by `max_level`, or by what `min_speed` allows.

        With a tolerance curve and a `min_speed`, the widest level whose speed is not below it;
        a level the curve does not name is not accepted then.
        """
        if self.max_level is not None or self.min_speed is None:
            return self.max_level
        speeds = dict(self.tolerance)
        accepted = [level for level in Level if speeds.get(level, 0.0) >= self.min_speed]
        return accepted[-1] if accepted else Level.switch
