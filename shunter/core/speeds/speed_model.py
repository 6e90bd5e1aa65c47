"""How fast a job runs on a placement: one model, for the simulator and for policies that predict.

speed = throughput on this GPU type / throughput on the base type x locality x interference
x sensitivity to CPUs and memory, relative to the base speed at which a trace's durations are given.

Throughput is a table by kind of job and GPU type, else a relative speed by GPU type, else 1.
Locality is the job's own tolerance curve, else that of its model in the table of factors.
Interference is the throughput beside others over that alone, by the same table, else by the table
of factors or its rule. For several partners we multiply, since tables know pairs only. Else the GPU
takes turns, and each further tenant takes as much as one has (`packed`, a half). Neighbours on
other GPUs of its servers slow a job down as it says itself, else as the table of factors says.

Sensitivity is a matrix by model (`sensitivity.py`), 1 at the GPU-proportional share; on CPU units
it does not count. A gang of another size than submitted has its own kind, times `speed_of_size`.

First the two tables (throughputs, factors), then a job's own curve, then `SpeedModel`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, sqrt
from typing import NamedTuple, TypeVar

from shunter.core.speeds.sensitivity import SensitivityTable
from shunter.events import (
    BY_BUS,
    CPU_UNITS,
    IN_SERVER,
    Allocation,
    ConfigurationSet,
    GpuType,
    JobSpec,
    Level,
    LevelGroups,
    NodeName,
)

# Throughputs, in steps a second of the whole gang, alone and in pairs. A rate of 0 means that the
# kind was tried and cannot run there, most often for want of memory; None: nobody measured it.

NO_TYPE = GpuType("")


class JobKind(NamedTuple):
    """What a table knows a job by."""

    model: str
    gpus: int


Pair = tuple[JobKind, JobKind]


@dataclass(frozen=True)
class ThroughputTable:
    """Rates in steps per second; nobody changes the mappings once the table is made.

    Attributes:
        alone: by GPU type and kind, the rate of a job that has its GPUs to itself.
        paired: by GPU type and pair, the rates of the one and the other while they share their
            GPUs; each pair stands there in both orders.
        base_type: the GPU type at which durations are given, and whose speed is 1.
        name: what messages call the table.
    """

    alone: Mapping[GpuType, Mapping[JobKind, float]]
    paired: Mapping[GpuType, Mapping[Pair, tuple[float, float]]] = field(default_factory=dict)
    base_type: GpuType = NO_TYPE
    name: str = field(default="", compare=False)

    @cached_property
    def kinds(self) -> Mapping[JobKind, int]:
        """Every kind with its number, from 0 in order of model and GPUs."""
        found = {kind for rates in self.alone.values() for kind in rates}
        return {kind: number for number, kind in enumerate(sorted(found))}

    def kind_of(self, spec: JobSpec) -> JobKind | None:
        """Return which kind a job is; None if it is none of the table.

        A job that gives its batch size apart from its model is found as well.
        """
        kind = JobKind(spec.model, spec.gpus)
        if kind in self.kinds or spec.batch_size is None:
            return kind if kind in self.kinds else None
        kind = JobKind(f"{spec.model} (batch size {spec.batch_size})", spec.gpus)
        return kind if kind in self.kinds else None

    def rate(self, gpu_type: GpuType, kind: JobKind) -> float | None:
        """Return the rate of a job alone; None where nobody measured it."""
        return self.alone.get(gpu_type, {}).get(kind)

    def pair_rates(
        self, gpu_type: GpuType, one: JobKind, other: JobKind
    ) -> tuple[float, float] | None:
        """Return the rates of two jobs that share GPUs; None where nobody measured it."""
        return self.paired.get(gpu_type, {}).get((one, other))

    def speed(self, gpu_type: GpuType, kind: JobKind) -> float | None:
        """Return the rate over that on the base type; None where that says nothing."""
        here, base = self.rate(gpu_type, kind), self.rate(self.base_type, kind)
        return here / base if here is not None and base else None

    def narrowed(self, gpu_types: Iterable[GpuType]) -> "ThroughputTable":
        """Return the table of these GPU types and the base type, all in order.

        Equal tables are then gone through in equal order, wherever they were read.
        """
        wanted = sorted({*gpu_types, self.base_type}.intersection(self.alone))
        pairs = {gpu_type: self.paired.get(gpu_type, {}) for gpu_type in wanted}
        return ThroughputTable(
            {gpu_type: dict(sorted(self.alone[gpu_type].items())) for gpu_type in wanted},
            {gpu_type: dict(sorted(at.items())) for gpu_type, at in pairs.items()},
            self.base_type,
            self.name,
        )


# A factor is a part of the speed that a job has alone, with its GPUs joined or below one switch:
# 0.72 is 28 % slower.

K = TypeVar("K")
Shape = tuple[int, int]
"""The servers a gang is on, and its GPUs on each."""


@dataclass(frozen=True)
class MemoryCycle:
    """What a model holds of each GPU's memory in a mini-batch (Gandiva, OSDI 2018).

    Least between two mini-batches, most in the middle of one. Between these it grows and falls in
    straight lines: that is our assumption, the course is not published.
    """

    least_mb: int
    most_mb: int
    batch_us: int

    def at_mb(self, since_us: int, batch_us: int | None = None) -> int:
        """Return what it holds so long after a boundary.

        Args:
            since_us: how long it has worked since.
            batch_us: what a mini-batch of the job takes now; None: as long as usual.
        """
        period_us = batch_us or self.batch_us
        into_us = since_us % period_us
        rising_us = min(into_us, period_us - into_us)
        return self.least_mb + 2 * (self.most_mb - self.least_mb) * rising_us // period_us


@dataclass(frozen=True)
class ModelFactors:
    """The factors of one model.

    Attributes:
        levels: by how far apart a job's GPUs are. Levels in a server count for gangs within one;
            rack, domain and cluster count for gangs over several, beside their shape.
        shapes: by the shape of a gang over several servers, of its speed in one server.
        beside: what one neighbour in the same server leaves, by the smallest level that holds a
            GPU of it and one of the job's.
        pairs: by the model of another job on the same GPUs, what is left of this one.
        gpu_utilisation: the part of the time, 0 to 1, in which it keeps a GPU busy; None: unknown.
        gpu_memory_mb: what it takes of the memory of each of its GPUs; None: unknown.
        memory_cycle: how that grows and falls in a mini-batch; None: unknown.
    """

    levels: Mapping[Level, float] = field(default_factory=dict)
    shapes: Mapping[Shape, float] = field(default_factory=dict)
    beside: Mapping[Level, float] = field(default_factory=dict)
    pairs: Mapping[str, float] = field(default_factory=dict)
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    memory_cycle: MemoryCycle | None = None

    def locality(self, allocation: Allocation, level: Level) -> float:
        """Return what the distance between a job's GPUs leaves of its speed.

        Args:
            allocation: its GPUs.
            level: the smallest level that holds them all.
        """
        servers = len(allocation.shares)
        if servers == 1:
            return self.in_server[level]
        return self.levels.get(level, 1.0) * self.spread(allocation.gpus, servers)

    def spread(self, gpus: int, servers: int) -> float:
        """Return what so many servers leave of a gang's speed in one.

        It goes by the gangs of the table that are nearest in size, the smaller of two. Without any,
        servers are no nearer than the GPUs of one that are farthest apart.
        """
        sizes = {over * each for over, each in self.shapes}
        if not sizes:
            return self.in_server[Level.server]
        nearest = min(sizes, key=lambda size: (abs(size - gpus), size))
        known = {over: left for (over, each), left in self.shapes.items() if over * each == nearest}
        return filled(range(1, max(servers, *known) + 1), {1: 1.0} | known)[servers]

    @cached_property
    def in_server(self) -> Mapping[Level, float]:
        """What the distance between GPUs of one server leaves."""
        return filled(IN_SERVER, {Level.nvlink: 1.0, Level.switch: 1.0, **self.levels})

    def left_beside(self, neighbours: Iterable[Level | None]) -> float:
        """Return what neighbours leave, each its part of what the others leave.

        Args:
            neighbours: how near each has a GPU; None: it has none in a server of the job.
        """
        left = 1.0
        for level in neighbours:
            left *= 1.0 if level is None else self.neighbourhood[level]
        return left

    @cached_property
    def neighbourhood(self) -> Mapping[Level, float]:
        """What one neighbour leaves; beyond the server nobody is one."""
        return filled((*BY_BUS, Level.rack), {**self.beside, Level.rack: 1.0})


def filled(places: Iterable[K], known: Mapping[K, float]) -> dict[K, float]:
    """Return a factor for each of some places, which are in order of distance.

    What is not known is the geometric mean of the factor before and of the next one that is known
    (Xiao, SOSP-SRC 2017, gives some points of curves only); with none behind it, that before.
    """
    places = list(places)
    found: dict[K, float] = {}
    before = 1.0
    for number, place in enumerate(places):
        behind = [known[later] for later in places[number:] if later in known]
        if place not in known:
            before = sqrt(before * behind[0]) if behind else before
        else:
            before = known[place]
        found[place] = before
    return found


@dataclass(frozen=True)
class FactorTable:
    """The factors of models, and the memory of GPUs by type in MB, where known."""

    models: Mapping[str, ModelFactors]
    gpu_memory_mb: Mapping[GpuType, int] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    @cached_property
    def know_neighbours(self) -> bool:
        """Whether any model is slower beside a neighbour."""
        return any(factors.beside for factors in self.models.values())

    def of(self, model: str) -> ModelFactors | None:
        """Return the factors of a model, whatever its batch size; None if it has none."""
        found = self.models.get(model)
        return self.models.get(model.partition(" (batch size ")[0]) if found is None else found

    def packed(self, model: str, gpu_type: GpuType, other: str) -> float | None:
        """Return what another model on the same GPUs leaves of a model's speed.

        By the measured pair; else 0 if both do not fit into the memory of a GPU; else by a rule: of
        a GPU that the two together would keep busy for more than all of the time, each gets its
        part. None: the table does not say.
        """
        mine, theirs = self.of(model), self.of(other)
        if mine is None or theirs is None:
            return None
        if other in mine.pairs:
            return mine.pairs[other]
        known_mb = (mine.gpu_memory_mb or 0) + (theirs.gpu_memory_mb or 0)
        if known_mb > self.gpu_memory_mb.get(gpu_type, inf):
            return 0.0
        if mine.gpu_utilisation is None or theirs.gpu_utilisation is None:
            return None
        return 1.0 / max(1.0, mine.gpu_utilisation + theirs.gpu_utilisation)


# A job's own curve: speeds by level (how far apart its GPUs are) and by shape (how they are split
# over servers), relative to all GPUs near. Where both apply, the lower counts: they measure one
# speed, not two effects. Between numbers of servers, as in the table of factors.

ShapeCurve = Sequence[tuple[tuple[int, ...], float]]
_ORDER = list(Level)


def tolerated_speed(spec: JobSpec, level: Level, split: Sequence[int]) -> float:
    """Return the speed that a job's curve says it has, of that with all GPUs near.

    Args:
        spec: the job.
        level: the smallest level that holds all of its GPUs.
        split: its GPUs on each server.
    """
    speed = dict(spec.tolerance).get(level, 1.0)
    if spec.shape_tolerance:
        speed = min(speed, _shape_speed(spec.shape_tolerance, sorted(split)))
    return speed


def _shape_speed(curve: ShapeCurve, split: list[int]) -> float:
    """Return the speed of a split: its own, else that of so many servers."""
    known: dict[int, float] = {1: 1.0}
    for shape, speed in curve:
        if sorted(shape) == split:
            return speed
        known[len(shape)] = min(speed, known.get(len(shape), speed))
    return filled(range(1, max(len(split), *known) + 1), known)[len(split)]


def neighbours_leave(interference: float, near: Sequence[Level | None]) -> float:
    """Return what neighbours leave of a job's speed that says how it bears them.

    Args:
        interference: the part that it loses beside one below the same switch.
        near: how near each neighbour has a GPU; None: it has none in a server of the job.
    """
    return ModelFactors(beside={Level.switch: 1.0 - interference}).left_beside(near)


def unfit_contract(spec: JobSpec) -> tuple[str, str] | None:
    """Return the field of a job's contract that cannot be, and why; None: none."""
    return next(_faults(spec), None)


def _faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    yield from _level_faults(spec)
    yield from _shape_faults(spec)
    loses = spec.interference
    if loses is not None and not 0 <= loses < 1:
        yield "interference", "expected the part that is lost, from 0 to below 1"
    if spec.min_speed is None:
        return
    if not 0 < spec.min_speed <= 1:
        yield "min_speed", "expected a part of the speed with all GPUs near, above 0 up to 1"
    if not spec.has_curve and spec.shapes:
        yield "min_speed", "expected a curve, or no shapes: which splits will do is learnt then"
    named = [level for level, speed in spec.tolerance if speed >= spec.min_speed]
    if spec.tolerance and not named:
        best = max(speed for _, speed in spec.tolerance)
        yield "min_speed", f"no level of its curve reaches it: expected {best:g} at most"


def _level_faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a curve over levels: it falls with distance."""
    curve = spec.tolerance
    if len({level for level, _ in curve}) < len(curve):
        yield "tolerance", "a level stands twice: expected one speed for each"
    ordered = sorted(curve, key=lambda point: _ORDER.index(point[0]))
    before, most = "the nearest", 1.0
    for level, speed in ordered:
        if not 0 < speed <= most:
            why = f"{level} has {speed:g}: expected above 0 and at most the {most:g} of {before}"
            yield "tolerance", f"{why}, for distance makes no job faster"
        before, most = level.value, speed


def _shape_faults(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a curve over splits: it begins with the packed one."""
    curve, field = spec.shape_tolerance, "shape_tolerance"
    if not curve:
        return
    if spec.shapes:
        yield field, "expected no shapes beside it: the curve says which splits will do"
    for shape, _ in curve:
        if sum(shape) != spec.gpus or not all(shape):
            text = "+".join(map(str, shape))
            yield field, f"{text}: expected GPUs a server that make up the {spec.gpus} of the job"
    splits = [sorted(shape) for shape, _ in curve]
    if any(splits.count(split) > 1 for split in splits):
        yield field, "a split stands twice: expected one speed for each"
    if dict(curve).get((spec.gpus,)) != 1:
        yield (
            field,
            f"expected the packed shape with speed 1, {spec.gpus}:1, to which others relate",
        )
    ordered = sorted(curve, key=lambda point: (len(point[0]), -point[1]))
    servers, most, least = 1, 1.0, 1.0
    for shape, speed in ordered:
        if len(shape) > servers:
            servers, most = len(shape), least
        if not 0 < speed <= most:
            text = "+".join(map(str, shape))
            why = f"{text} has {speed:g}: expected above 0 and at most {most:g}"
            yield field, f"{why}, the speed on fewer servers, for distance makes no job faster"
        least = min(least, speed)


@dataclass(frozen=True)
class SpeedModel:
    """Relative speeds by GPU type, and throughputs, which count before them.

    `are_sensitive` says that jobs say themselves what neighbours take of their speed.
    """

    nodes: Mapping[NodeName, ConfigurationSet]
    relative: Mapping[GpuType, float] = field(default_factory=dict)
    throughput: ThroughputTable | None = None
    packed: float = 0.5
    sensitivity: SensitivityTable | None = None
    factors: FactorTable | None = None
    are_sensitive: bool = False

    def speed_of_size(self, submitted: JobSpec, spec: JobSpec) -> float:
        """Return the speed of a gang of another size over that of the one submitted.

        Args:
            submitted: the job as its trace has it, with the gang for which its duration is given.
            spec: the job with the gang that it has now.
        Returns:
            1 if it is as large; by the rates of both on the base type, where the table has them;
            else the GPUs of now over those submitted: linear, for nothing better is known.
        """
        if spec.gpus == submitted.gpus or not submitted.gpus:
            return 1.0
        table = self.throughput
        if table is not None:
            kinds = table.kind_of(submitted), table.kind_of(spec)
            before, now = (
                None if kind is None else table.rate(table.base_type, kind) for kind in kinds
            )
            if before and now is not None:
                return now / before
        return spec.gpus / submitted.gpus

    @property
    def knows_neighbours(self) -> bool:
        """Whether jobs may be slower beside others on the same servers."""
        return self.are_sensitive or (self.factors is not None and self.factors.know_neighbours)

    def speed(
        self,
        spec: JobSpec,
        allocation: Allocation,
        partners: Sequence[JobSpec] = (),
        neighbours: Sequence[Allocation] = (),
    ) -> float:
        """Return the speed of a job on an allocation, relative to base speed.

        Args:
            spec: the job.
            allocation: its GPUs.
            partners: the jobs that run on some of them at once; 0: it cannot run beside them.
            neighbours: where jobs run that have other GPUs of the same servers.
        """
        gpu_type = self.nodes[allocation.shares[0].node].gpu_type
        speed = self._device_speed(spec, gpu_type)
        for partner in partners:
            speed *= self._left_beside(spec, gpu_type, partner)
        return speed * self._kept(spec, allocation, neighbours)

    def rate(
        self,
        spec: JobSpec,
        allocation: Allocation,
        partners: Sequence[JobSpec] = (),
        neighbours: Sequence[Allocation] = (),
    ) -> float | None:
        """Return the steps per second of a job there; None if no table has them.

        It is the table's own number, not a speed times the base rate: policies that count steps by
        the table count the same whole steps.
        """
        table = self.throughput
        kind = None if table is None else table.kind_of(spec)
        if table is None or kind is None:
            return None
        gpu_type = self.nodes[allocation.shares[0].node].gpu_type
        rate = table.rate(gpu_type, kind)
        if len(partners) == 1:
            other = table.kind_of(partners[0])
            rates = None if other is None else table.pair_rates(gpu_type, kind, other)
            rate = rate if rates is None else rates[0]
            partners = partners if rates is None else ()
        if rate is None:
            return None
        for partner in partners:
            rate *= self._left_beside(spec, gpu_type, partner)
        return rate * self._kept(spec, allocation, neighbours)

    def _kept(
        self, spec: JobSpec, allocation: Allocation, neighbours: Sequence[Allocation]
    ) -> float:
        """Return what distance, neighbours, CPUs and memory leave of the speed of a job."""
        factors = None if self.factors is None else self.factors.of(spec.model)
        speed = contract_speed(spec, allocation, neighbours, self.nodes)
        if factors is not None and spec.gpus > 1 and not spec.has_curve:
            speed *= factors.locality(allocation, self._wired_level(allocation))
        if factors is not None and neighbours and spec.interference is None:
            near = [nearest_level(allocation, other, self.nodes) for other in neighbours]
            speed *= factors.left_beside(near)
        device = self.nodes[allocation.shares[0].node].device
        if self.sensitivity is not None and device != CPU_UNITS:
            speed *= self.sensitivity.speed(spec, allocation)
        return speed

    def _wired_level(self, allocation: Allocation) -> Level:
        """Return how far apart GPUs are; without groups they are below one switch."""
        (first, *others), nodes = allocation.shares, self.nodes
        level = level_of(allocation, nodes)
        is_flat = not others and not nodes[first.node].bus_levels
        return Level.switch if is_flat and level is not Level.nvlink else level

    def _device_speed(self, spec: JobSpec, gpu_type: GpuType) -> float:
        if self.throughput is not None:
            kind = self.throughput.kind_of(spec)
            speed = None if kind is None else self.throughput.speed(gpu_type, kind)
            if speed is not None:
                return speed
        return self.relative.get(gpu_type, 1.0)

    def _left_beside(self, spec: JobSpec, gpu_type: GpuType, partner: JobSpec) -> float:
        """Return which part of its speed alone a job has beside another one."""
        table, left = self.throughput, None
        one = None if table is None else table.kind_of(spec)
        other = None if table is None else table.kind_of(partner)
        if table is not None and one is not None and other is not None:
            alone, rates = table.rate(gpu_type, one), table.pair_rates(gpu_type, one, other)
            left = rates[0] / alone if rates is not None and alone else None
        if left is None and self.factors is not None:
            left = self.factors.packed(spec.model, gpu_type, partner.model)
        return self.packed if left is None else left


def contract_speed(
    spec: JobSpec,
    allocation: Allocation,
    neighbours: Sequence[Allocation],
    nodes: Mapping[NodeName, ConfigurationSet],
) -> float:
    """Return how fast a job is by its own contract, of its speed near and alone.

    Args:
        spec: the job; one that says nothing of either has all of its speed.
        allocation: its GPUs.
        neighbours: where jobs run that have other GPUs of the same servers.
        nodes: at least its servers.
    """
    speed = 1.0
    if spec.has_curve:
        split = [share.gpus for share in allocation.shares]
        speed = tolerated_speed(spec, level_of(allocation, nodes), split)
    if neighbours and spec.interference is not None:
        near = [nearest_level(allocation, other, nodes) for other in neighbours]
        speed *= neighbours_leave(spec.interference, near)
    return speed


def level_of(allocation: Allocation, nodes: Mapping[NodeName, ConfigurationSet]) -> Level:
    """Return the smallest level that holds all GPUs of an allocation (SOSP-SRC 2017)."""
    sets = [nodes[share.node] for share in allocation.shares]
    if len(sets) > 1:
        if sets[0].rack and len({where.rack for where in sets}) == 1:
            return Level.rack
        if sets[0].domain and len({where.domain for where in sets}) == 1:
            return Level.domain
        return Level.cluster
    mask = allocation.shares[0].gpu_mask
    for groups in sets[0].levels:
        if any(mask & ~group == 0 for group in groups.masks):
            return groups.level
    return Level.server


def nearest_level(
    one: Allocation, other: Allocation, nodes: Mapping[NodeName, ConfigurationSet]
) -> Level | None:
    """Return the smallest level in a server that holds a GPU of each; None: none.

    A server of no groups has all its GPUs below one switch. NVLink is no nearness of jobs: it joins
    the GPUs of one job, and two that have such GPUs share nothing by that.
    """
    masks = {share.node: share.gpu_mask for share in one.shares}
    found = []
    for share in other.shares:
        mine, theirs = masks.get(share.node, 0), share.gpu_mask
        if mine and theirs:
            levels = nodes[share.node].bus_levels
            shared = (groups for groups in levels if _meet(groups, mine, theirs))
            otherwise = Level.server if levels else Level.switch
            found.append(next((groups.level for groups in shared), otherwise))
    return min(found, key=list(Level).index, default=None)


def _meet(groups: LevelGroups, mine: int, theirs: int) -> bool:
    return any(mine & group and theirs & group for group in groups.masks)
