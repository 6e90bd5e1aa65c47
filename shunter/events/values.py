"""The value types that facts are made of, and the names that facts write into logs.

In this order: names of things, resources, what a job is given, what a job asks for, what is in a
server, why a job waits and an allocation changes, and what is tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, NewType

from shunter.events.records import fact, value

# Names: every identifier has a type of its own.

JobId = NewType("JobId", str)
NodeName = NewType("NodeName", str)
QueueName = NewType("QueueName", str)
GpuType = NewType("GpuType", str)
UserName = NewType("UserName", str)


@fact
class Resources:
    """GPUs, CPUs in thousandths, memory in MB."""

    gpus: int = 0
    cpus_milli: int = 0
    memory_mb: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpus + other.gpus,
            self.cpus_milli + other.cpus_milli,
            self.memory_mb + other.memory_mb,
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpus - other.gpus,
            self.cpus_milli - other.cpus_milli,
            self.memory_mb - other.memory_mb,
        )

    def times(self, count: int) -> "Resources":
        """Return so many times as much."""
        return Resources(self.gpus * count, self.cpus_milli * count, self.memory_mb * count)

    @property
    def are_gpus_alone(self) -> bool:
        """Whether they are neither CPUs nor memory."""
        return not self.cpus_milli and not self.memory_mb

    def fit_beside(self, free: "Resources") -> bool:
        """Say whether there are CPUs and memory enough, whatever the GPUs."""
        return self.cpus_milli <= free.cpus_milli and self.memory_mb <= free.memory_mb

    def at_most_with(self, gpus: int) -> "Resources":
        """Return what goes with so many of its GPUs, CPUs and memory rounded up.

        Where it has no GPUs, that is all of its CPUs and memory.
        """
        if not self.gpus:
            return Resources(gpus, self.cpus_milli, self.memory_mb)
        return Resources(
            gpus,
            -(-self.cpus_milli * gpus // self.gpus),
            -(-self.memory_mb * gpus // self.gpus),
        )

    def divided(self, pieces: Iterable[int]) -> Iterator["Resources"]:
        """Yield the part of each piece, named by its GPUs; together they are all.

        By the GPUs up to each piece, so that no part is more than its own need rounded up.
        """
        gpus = cpus_milli = memory_mb = 0
        for piece in pieces:
            gpus += piece
            cpus = self.cpus_milli * gpus // self.gpus if self.gpus else self.cpus_milli
            memory = self.memory_mb * gpus // self.gpus if self.gpus else self.memory_mb
            yield Resources(piece, cpus - cpus_milli, memory - memory_mb)
            cpus_milli, memory_mb = cpus, memory


# What a job is given.


class Sharing(StrEnum):
    """Whether the GPUs of an allocation have other tenants."""

    exclusive = "exclusive"
    packed = "packed"
    sliced = "sliced"


def gpu_numbers(mask: int) -> list[int]:
    """Return the numbers of the GPUs in a mask, lowest first."""
    return [gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1]


@value
class Share:
    """The part of an allocation on one server; bit i of `gpu_mask` is GPU i."""

    node: NodeName
    gpu_mask: int
    cpus_milli: int = 0
    memory_mb: int = 0

    @property
    def gpus(self) -> int:
        """How many GPUs it is."""
        return self.gpu_mask.bit_count()

    @property
    def beside(self) -> Resources:
        """Its CPUs and memory."""
        return Resources(0, self.cpus_milli, self.memory_mb)


@value
class Allocation:
    """What one job holds, server by server; no shares means nothing."""

    shares: tuple[Share, ...] = ()
    sharing: Sharing = Sharing.exclusive

    @property
    def gpus(self) -> int:
        """The number of GPUs in it."""
        shares = self.shares
        if len(shares) == 1:
            return shares[0].gpu_mask.bit_count()
        return sum([share.gpus for share in shares])

    @property
    def is_spread(self) -> bool:
        """Whether it is on several servers."""
        return len(self.shares) > 1

    def is_on_gpus_of(self, other: "Allocation") -> bool:
        """Say whether it is the same GPUs as another, whatever CPUs and memory."""
        if self.shares == other.shares:
            return True
        mine, others = ([(one.node, one.gpu_mask) for one in each.shares] for each in (self, other))
        return mine == others


NOTHING = Allocation()


# What a user asks for.


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


# Servers of one kind (Xiao, SOSP-SRC 2017).

CPU_UNITS = "cpu"
"""What `device` says of a server that is an accelerator by its CPUs."""

_NVLINK = Level.nvlink  # members are slow to look up


@value
class LevelGroups:
    """The GPU groups of one level inside a server, as bit masks in ascending order."""

    level: Level
    masks: tuple[int, ...]


@value
class ConfigurationSet:
    """What equal servers share: devices, CPUs, memory, levels, and where they stand.

    `levels` runs from the nearest (NVLink, else switch) outwards and leaves out levels that tell
    nothing; in logs of before there is none of NVLink, and there it counts for nothing. The groups
    of all others lie in each other; those of NVLink may lie across them.
    `links` are groups of GPUs joined directly (NVLink). Empty `rack` or `domain`: unknown.
    Where `device` is `CPU_UNITS`, its `gpus` are units of CPU: equal parts of its CPUs, which are
    placed, counted and given away as GPUs are.
    """

    name: str
    gpu_type: GpuType
    gpus: int
    cpus_milli: int = 0
    memory_mb: int = 0
    rack: str = ""
    domain: str = ""
    levels: tuple[LevelGroups, ...] = ()
    links: tuple[int, ...] = ()
    device: str = "gpu"

    @property
    def joined(self) -> tuple[int, ...]:
        """Its groups by NVLink, where they are a level; others are one alone."""
        levels = self.levels
        return levels[0].masks if levels and levels[0].level is _NVLINK else ()

    @property
    def bus_levels(self) -> tuple[LevelGroups, ...]:
        """Its levels but for that of NVLink."""
        levels = self.levels
        return levels[1:] if levels and levels[0].level is _NVLINK else levels

    @property
    def unit_cpus_milli(self) -> int:
        """The CPUs of each of its units, in thousandths; 0: it has no units."""
        return self.cpus_milli // self.gpus if self.device == CPU_UNITS and self.gpus else 0

    @property
    def beside(self) -> Resources:
        """Its CPUs and memory."""
        return Resources(0, self.cpus_milli, self.memory_mb)


# Why a job waits: a closed vocabulary, because old logs cannot learn new words.


class Reason(StrEnum):
    """Why, above all, a job does not run; a policy may add a namespaced detail."""

    no_capacity = "no_capacity"
    fragmented = "fragmented"
    outranked = "outranked"
    gpu_type_unavailable = "gpu_type_unavailable"
    cpu_or_memory_short = "cpu_or_memory_short"
    locality_not_met = "locality_not_met"
    quota = "quota"
    share_met = "share_met"
    time_sliced = "time_sliced"
    guard_min_runtime = "guard_min_runtime"
    guard_preemption_limit = "guard_preemption_limit"
    waiting_for_round = "waiting_for_round"
    dependency = "dependency"
    held = "held"
    node_lost = "node_lost"
    backing_off = "backing_off"
    infeasible = "infeasible"
    refused = "refused"
    checkpoint_unreachable = "checkpoint_unreachable"
    split_kept = "split_kept"
    array_limit = "array_limit"
    node_drained = "node_drained"
    waiting_for_release = "waiting_for_release"
    displaced = "displaced"
    gpus_taken = "gpus_taken"
    awaiting_proposal = "awaiting_proposal"
    proposal_rejected = "proposal_rejected"
    checkpoint_stays = "checkpoint_stays"
    gpus_quarantined = "gpus_quarantined"


@value
class Wait:
    """A reason and its evidence, as numbers and ids; sentences are made in `app`.

    `needed` and `free` count GPUs (or whole units of what was short); `blockers` are jobs that
    hold what the waiting one needs, the first of them the best that lost or the one in front.
    """

    reason: Reason
    needed: int = 0
    free: int = 0
    blockers: tuple[JobId, ...] = ()
    detail: str = ""


@value
class ClassWait:
    """What holds a class of equal jobs back; None once it waits no more."""

    demand: Demand
    wait: Wait | None


@value
class Because:
    """Why an allocation changed: the rule, its scores, and who gains from it.

    `detail` is what the scores are about, where the rule does not say: a GPU type, for shares.
    """

    rule: str
    scores: tuple[int | float, ...] = ()
    beneficiaries: tuple[JobId, ...] = ()
    detail: str = ""


# Causes that the scheduler writes into facts. They are in logs, so their values never change.

BACKING_OFF = "backing_off"
"""Who holds a job that waits for its next try."""

ARRAY = "array"
"""Who holds a task that has no turn yet."""

CHECKPOINT = "checkpoint"
"""Who holds a job whose checkpoint is out of reach for now."""

STAYS = "checkpoint_stays"
"""Who holds a job whose checkpoint is too large to be copied, until its server has room."""

LOST, GIVEN_UP = "lost", "given_up"
"""Why a checkpoint was discarded: a server of it is lost or gone, or its owner did not wait."""

DEPENDENCY = "dependency"
"""Why a job was cancelled whose dependency ended otherwise than it needs."""

TIMEOUT = "timeout"
"""Why a job failed that had held its GPUs as long as it may."""

EXITED = "exit"
"""Why a job failed whose processes ended by themselves, or were killed by others than us."""

NODE_LOST = Because("node_lost", (), ())
"""Why what was promised on a lost server is taken back."""

DISPLACED = Because("displaced", (), ())
"""Why a job loses GPUs that were found in the hands of others; with the job that has them now."""

BY_POLICY = ":policy"
"""Who gives a job another size in a plan; no person's name begins so."""

GROWS, SHRINKS, STARTS_SMALLER = "grow_into_idle", "shrink_for", "start_smaller"
"""Rules by which plans give jobs other sizes; the scores are the GPUs before and after."""

RESIZED = Because("resized", (), ())
"""Why a job leaves whose owner wants its gang to have another size."""

HELD = Because("held", (), ())
"""Why a job leaves that somebody put on hold: the one decision that people make themselves."""

CALLER = "caller"
"""Whose proposal it is where no scheduler of ours made it, but somebody who called the daemon."""

REPEATED = "repeated"
"""Why a refusal stands for more than one proposal of a job in a round."""

PROPOSED = Because("proposed", (), ())
"""Why a job starts for which somebody else's scheduler proposed a gang that was approved."""

HEIGHT_MOST = "height_most"
"""Detail of a wait: the servers on which a job could take turns are as high as they may be."""


# What is tried and measured.

MILLION = 1_000_000
"""One, in the whole millionths in which normalised rates are counted."""

SUM_MOST = 1_000_000
"""A sum of normalised rates is below this."""


class TrialKind(StrEnum):
    """What is tried: two jobs on the same GPUs at once, or one job elsewhere."""

    pack = "pack"
    migrate = "migrate"


class TrialReason(StrEnum):
    """Why a trial ended as it did, or what was kept was given up."""

    gained = "gained"
    no_loss = "no_loss"
    lost = "lost"
    no_way_back = "no_way_back"
    cost_not_met = "cost_not_met"
    no_progress = "no_progress"
    not_measured = "not_measured"
    room = "room"


KEPT = frozenset(
    (
        *(TrialReason.gained, TrialReason.no_loss),
        *(TrialReason.cost_not_met, TrialReason.no_way_back),
    )
)
"""Why what was tried stays.

What gained less than it cost is not undone at the same cost again, and what lost stays where others
have taken the GPUs of before.
"""

LOSSES = frozenset(
    (
        *(TrialReason.lost, TrialReason.no_way_back),
        *(TrialReason.cost_not_met, TrialReason.no_progress),
    )
)
"""What says that a change does not help. Nothing measured says nothing."""


@value
class ChangeKey:
    """What verdicts go by: the change, the models in order, the type of GPU."""

    change: str
    models: tuple[str, ...]
    gpu_type: GpuType


@value
class Batch:
    """How long a mini-batch of a job takes, in microseconds."""

    job_id: JobId
    batch_us: int
