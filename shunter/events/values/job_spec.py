"""What a user asks for: the job specification, and the part of it that placement looks at."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

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
    """How far apart the GPUs of one allocation are, nearest first.

    `nvlink`: all of them are joined directly, on whichever switches and sockets they are.
    """

    nvlink = "nvlink"
    switch = "switch"
    socket = "socket"
    server = "server"
    rack = "rack"
    domain = "domain"
    cluster = "cluster"


LEVEL_ORDER: Final = {level: number for number, level in enumerate(Level)}
"""The levels, numbered from the nearest on."""
BELOW_SERVER: Final = (Level.nvlink, Level.switch, Level.socket)
IN_SERVER: Final = (*BELOW_SERVER, Level.server)
BY_BUS: Final = (Level.switch, Level.socket, Level.server)
"""The levels in a server at which jobs are neighbours: they share what is there."""


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
    fewest servers that could hold the gang; a placement says so, never the job itself. `apart` is
    whether its owner says that neighbours slow it down, or that they do not; None: nothing is said.
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
    apart: bool | None = None

    @property
    def resources(self) -> Resources:
        """What the whole job asks for."""
        return Resources(self.gpus, self.cpus_milli, self.memory_mb)

    @property
    def splits(self) -> tuple[tuple[int, ...], ...]:
        """Its shapes that its level allows: in one server a gang is in one piece.

        Of a level and a split the lower speed counts, so one does not widen what the other bounds.
        """
        if self.max_level not in IN_SERVER:
            return self.shapes
        return tuple([shape for shape in self.shapes if len(shape) == 1])

    @property
    def is_met_by_count(self) -> bool:
        """Whether it asks for nothing but a number of GPUs, of some type."""
        return (
            self.max_level is None
            and not self.shapes
            and not self.cpus_milli
            and not self.memory_mb
        )

    def accepts_split(self, pieces: Sequence[int]) -> bool:
        """Say whether so many GPUs on each server, in any order, are among its shapes."""
        return not self.shapes or sorted(pieces) in [sorted(shape) for shape in self.shapes]

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

    `tolerance` and `shape_tolerance` are its curve of tolerance: its speed where its GPUs are so
    far apart, and where they are split so over servers, of that with all of them near together
    (Xiao, SOSP-SRC 2017). `interference` is the part of its speed that it loses beside one
    neighbour below the same switch. One that is not `migratable` is not moved while it runs.
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
    shape_tolerance: tuple[tuple[tuple[int, ...], float], ...] = ()
    interference: float | None = None
    migratable: bool = True

    def demand(self, bounding_queue: QueueName = UNBOUNDED) -> Demand:
        """Return the part that decides when and where the job can run."""
        return Demand(
            self.gpus,
            bounding_queue,
            self.cpus_milli,
            self.memory_mb,
            self.gpu_types,
            self.level_max,
            self.shapes_accepted,
            apart=None if self.interference is None else self.interference > 0,
        )

    def resized(self, gpus: int) -> "JobSpec":
        """Return what a job asks for once its gang has another size.

        CPUs and memory go with its GPUs, rounded up; of the splits those stay that are as large,
        and of a floor under them nothing where none is.

        Args:
            gpus: the new size; it and the old one are 1 at least.
        """
        asked = Resources(self.gpus, self.cpus_milli, self.memory_mb).at_most_with(gpus)
        curve = tuple(point for point in self.shape_tolerance if sum(point[0]) == gpus)
        return replace(
            self,
            gpus=gpus,
            cpus_milli=asked.cpus_milli,
            memory_mb=asked.memory_mb,
            shapes=tuple(shape for shape in self.shapes if sum(shape) == gpus),
            shape_tolerance=curve,
            min_speed=self.min_speed if curve or not self.shape_tolerance else None,
        )

    @property
    def is_elastic(self) -> bool:
        """Whether its gang may have other sizes than the one it is submitted with."""
        return self.gpus_min is not None or self.gpus_max is not None

    @property
    def sizes(self) -> tuple[int, int]:
        """The fewest and the most GPUs that its gang may have, as submitted."""
        fewest = self.gpus if self.gpus_min is None else self.gpus_min
        return fewest, self.gpus if self.gpus_max is None else self.gpus_max

    @property
    def has_curve(self) -> bool:
        """Whether it says how fast it is where."""
        return bool(self.tolerance or self.shape_tolerance)

    @property
    def level_max(self) -> Level | None:
        """The widest spread accepted: by `max_level`, or by what `min_speed` allows.

        With a tolerance curve and a `min_speed`, the widest level whose speed is not below it;
        a level the curve does not name is not accepted then. A curve over splits alone leaves
        levels open, and so does a floor without a curve, which is under the one that is learnt.
        """
        if self.max_level is not None or self.min_speed is None or not self.tolerance:
            return self.max_level
        speeds = dict(self.tolerance)
        accepted = [level for level in Level if speeds.get(level, 0.0) >= self.min_speed]
        return accepted[-1] if accepted else Level.switch

    @property
    def shapes_accepted(self) -> tuple[tuple[int, ...], ...]:
        """The splits over servers that will do, the best first; none: any.

        Those that are named, else those of the curve whose speed is not below `min_speed`.
        """
        if self.shapes or self.min_speed is None:
            return self.shapes
        ordered = sorted(self.shape_tolerance, key=lambda point: (-point[1], len(point[0])))
        return tuple(shape for shape, speed in ordered if speed >= self.min_speed)
