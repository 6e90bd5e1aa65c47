"""What distance, neighbours and packing leave of a model's speed, by a table of factors.

A factor is a part of the speed that a job has alone, with its GPUs joined or below one switch: 0.72
is 28 % slower. Where a table has no number, the geometric mean of the nearest numbers on both sides
counts; with nothing behind it, the number before: nobody measured it, and it can hardly be faster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, sqrt
from typing import TypeVar

from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import GpuType
from shunter.events.values.job_spec import BY_BUS, IN_SERVER, Level

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
