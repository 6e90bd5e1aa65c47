"""How fast a model is by the CPUs and memory with each GPU: the table, and its correction."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from shunter.events import Allocation, JobSpec, Resources, fact

# Synergy (Mohan et al., OSDI 2022, section 3.1) measures a matrix for each model: throughput by CPU
# cores and memory per GPU, relative to the GPU-proportional share. We interpolate in a straight
# line between points, and to 0 below the first; beyond the last point nothing grows. An axis that
# an allocation does not bound counts as the proportional share.

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Sensitivity:
    """The matrix of one model and gang size.

    Attributes:
        cpus_milli: the rows: CPUs per GPU, in thousandths, ascending.
        memory_mb: the columns: memory per GPU in MB, ascending.
        speeds: a row for each of `cpus_milli`, a number for each of `memory_mb`: throughput over
            that at the proportional share; it never falls along either axis.
    """

    cpus_milli: tuple[int, ...]
    memory_mb: tuple[int, ...]
    speeds: tuple[tuple[float, ...], ...]
    _found: dict[tuple[int, int], Resources] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _speeds: dict[tuple[int, int], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def speed(self, cpus_milli: int, memory_mb: int) -> float:
        """Return the speed with so much per GPU, relative to the proportional share."""
        amounts = cpus_milli, memory_mb
        speed = self._speeds.get(amounts)
        if speed is None:
            speed = self._speeds[amounts] = self._between_points(cpus_milli, memory_mb)
        return speed

    def _between_points(self, cpus_milli: int, memory_mb: int) -> float:
        row, of_row = _between(self.cpus_milli, cpus_milli)
        column, of_column = _between(self.memory_mb, memory_mb)
        low = self._along(row - 1, column, of_column) if row else 0.0
        if of_row == 0.0:
            return low
        return low + (self._along(row, column, of_column) - low) * of_row

    @cached_property
    def best(self) -> Resources:
        """The least CPUs per GPU, and with them the least memory, of maximal speed."""
        return self.best_within(self.cpus_milli[-1], self.memory_mb[-1])

    def best_within(self, cpus_milli: int, memory_mb: int) -> Resources:
        """Return the least of so much per GPU that is as fast as all of it."""
        found = self._found.get((cpus_milli, memory_mb))
        if found is None:
            found = self._least(self.speed(cpus_milli, memory_mb), cpus_milli, memory_mb)
            self._found[cpus_milli, memory_mb] = found
        return found

    def _least(self, speed: float, cpus_most: int, memory_most: int) -> Resources:
        """Return the first points, by CPUs and then memory, that are so fast."""
        enough = speed - _ROUNDING
        for cpus_milli in _upto(self.cpus_milli, cpus_most):
            if self.speed(cpus_milli, memory_most) >= enough:
                for memory_mb in _upto(self.memory_mb, memory_most):
                    if self.speed(cpus_milli, memory_mb) >= enough:
                        return Resources(0, cpus_milli, memory_mb)
        return Resources(0, cpus_most, memory_most)

    def _along(self, row: int, column: int, of_column: float) -> float:
        """Return the speed in one row, some way before a column's point."""
        speeds = self.speeds[row]
        low = speeds[column - 1] if column else 0.0
        return low if of_column == 0.0 else low + (speeds[column] - low) * of_column


@dataclass(frozen=True)
class SensitivityTable:
    """The matrices of all models.

    Attributes:
        models: by model and number of GPUs in ascending order; a gang of another size is as the
            next smaller one, one smaller than all as the smallest.
        proportional: the share per GPU at which all speeds are 1.
        name: what messages call the table.
    """

    models: Mapping[str, Mapping[int, Sensitivity]]
    proportional: Resources
    name: str = field(default="", compare=False)
    _of: dict[tuple[str, int], Sensitivity | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of(self, spec: JobSpec) -> Sensitivity | None:
        """Return the matrix of a job; None: its model is not in the table."""
        key = spec.model, spec.gpus
        if key not in self._of:
            size = self.size_of(spec)
            self._of[key] = None if size is None else self.models[spec.model][size]
        return self._of[key]

    def size_of(self, spec: JobSpec) -> int | None:
        """Return the gang size whose matrix counts for a job; None: no such model."""
        sizes = self.models.get(spec.model)
        if not sizes or not spec.gpus:
            return None
        smaller = [size for size in sizes if size <= spec.gpus]
        return max(smaller) if smaller else min(sizes)

    def speed(self, spec: JobSpec, allocation: Allocation) -> float:
        """Return the speed of a job over that with its proportional share.

        A gang goes as fast as its slowest part. One is what counts for jobs without GPUs, models
        that are not in the table, and allocations that say neither CPUs nor memory.
        """
        matrix = self.of(spec)
        if matrix is None:
            return 1.0
        speed = None
        for share in allocation.shares:
            gpus = share.gpus
            if not gpus or not (share.cpus_milli or share.memory_mb):
                continue
            cpus_milli, memory_mb = share.cpus_milli // gpus, share.memory_mb // gpus
            here = matrix.speed(
                cpus_milli or self.proportional.cpus_milli,
                memory_mb or self.proportional.memory_mb,
            )
            speed = here if speed is None else min(speed, here)
        return 1.0 if speed is None else speed


def _between(points: Sequence[int], at: int) -> tuple[int, float]:
    """Return the first point above `at`, and the part of the way to it.

    The way begins at the point before; on a point, or beyond the last, it is 0.
    """
    above = bisect_right(points, at)
    if above == len(points):
        return above, 0.0
    low = points[above - 1] if above else 0
    return above, (at - low) / (points[above] - low)


def _upto(points: Sequence[int], most: int) -> list[int]:
    """Return the points below a bound, and the bound or the last point."""
    return [*points[: bisect_right(points, most - 1)], min(most, points[-1])]


# A corrected table. A measured cell is a share (CPUs and memory for each GPU) and its speed
# relative to the proportional share, where that is 1. Every other point is moved in three steps:
#
# 1. Above measured cells: the table's speed, times what was measured over the table's speed at the
#    nearest measured cell with no more of both (of several, the one that leaves least).
# 2. It is not faster than any point with no less of both resources.
# 3. It is neither slower than a measured cell with no more of both, nor faster than one with no
#    less.
#
# So a corrected matrix never falls along an axis. Measurements that contradict each other give way:
# none with at least the proportional share counts as slower than 1, none with at most that as
# faster; of two that fall where they should rise, each counts as the mean of the fastest with no
# more than it has and the slowest with no less.

CELLS_MOST = 12
"""So many measured cells of a model and gang size count at most: those measured last."""

_Share = tuple[int, int]
_Pin = tuple[_Share, float]


@fact
class MeasuredCell:
    """What was measured of a model, in the matrix of gangs of `gpus`.

    Attributes:
        gpus: the gang size that the table names.
        cpus_milli: CPUs for each GPU, in thousandths.
        memory_mb: memory for each GPU.
        speed: the speed with them, relative to the proportional share.
    """

    gpus: int
    cpus_milli: int
    memory_mb: int
    speed: float

    @property
    def share(self) -> tuple[int, int]:
        """The CPUs and memory for each GPU."""
        return self.cpus_milli, self.memory_mb


@dataclass(frozen=True)
class TableCheck:
    """A table that is corrected where a job measures another speed.

    `tolerance` is by which part of the speed that the table says it may differ.
    """

    table: SensitivityTable
    tolerance: float


def with_cell(cells: Sequence[MeasuredCell], cell: MeasuredCell) -> tuple[MeasuredCell, ...]:
    """Return measured cells with a new one, in place of what was known there."""
    others = [each for each in cells if (each.gpus, *each.share) != (cell.gpus, *cell.share)]
    of_size = [each for each in others if each.gpus == cell.gpus]
    if len(of_size) >= CELLS_MOST:
        others.remove(of_size[0])
    return (*others, cell)


def corrected(
    table: SensitivityTable, cells: Mapping[str, Sequence[MeasuredCell]]
) -> SensitivityTable:
    """Return a table with measured cells, by model; itself if there are none."""
    known = {model: found for model, found in cells.items() if found and model in table.models}
    if not known:
        return table
    models = {
        model: {
            gpus: _corrected_matrix(
                matrix, [cell for cell in known[model] if cell.gpus == gpus], table.proportional
            )
            for gpus, matrix in sizes.items()
        }
        if model in known
        else sizes
        for model, sizes in table.models.items()
    }
    return SensitivityTable(models, table.proportional, table.name)


def _corrected_matrix(
    matrix: Sensitivity, cells: Sequence[MeasuredCell], fair: Resources
) -> Sensitivity:
    """Return a matrix with the measured cells among its points."""
    if not cells:
        return matrix
    pins = _pins(cells, fair)
    cpus = sorted({*matrix.cpus_milli, *[cell.cpus_milli for cell in cells]})
    memory = sorted({*matrix.memory_mb, *[cell.memory_mb for cell in cells]})
    rows: list[tuple[float, ...]] = []
    above = [inf] * len(memory)
    for at_cpus in reversed(cpus):
        most = inf
        for column in reversed(range(len(memory))):
            speed = _moved(matrix, pins, (at_cpus, memory[column]))
            most = above[column] = min(speed, most, above[column])
        rows.append(
            tuple(
                [
                    _between_pins(speed, pins, (at_cpus, at_memory))
                    for speed, at_memory in zip(above, memory, strict=True)
                ]
            )
        )
    return Sensitivity(tuple(cpus), tuple(memory), tuple(reversed(rows)))


def _moved(matrix: Sensitivity, pins: Iterable[_Pin], share: _Share) -> float:
    """Return the speed of a share, as far from the pins below as in the table."""
    speed = matrix.speed(*share)
    below = [pin for pin in pins if _is_within(pin[0], share)]
    nearest = [
        pin
        for pin in below
        if not any(_is_within(pin[0], each[0]) for each in below if each != pin)
    ]
    moved = [
        measured * speed / before for at, measured in nearest if (before := matrix.speed(*at)) > 0
    ]
    return min(moved, default=speed)


def _pins(cells: Iterable[MeasuredCell], fair: Resources) -> list[_Pin]:
    """Return measured cells and the proportional share with speeds that never fall."""
    at_fair = fair.cpus_milli, fair.memory_mb
    speeds = {cell.share: _limited(cell, at_fair) for cell in cells}
    speeds[at_fair] = 1.0
    raw = list(speeds.items())
    return [(share, _mean_of_bounds(share, raw)) for share in speeds]


def _limited(cell: MeasuredCell, at_fair: _Share) -> float:
    """Return the speed of a cell, no slower or faster than 1 where it cannot be."""
    if _is_within(at_fair, cell.share):
        return max(1.0, cell.speed)
    return min(1.0, cell.speed) if _is_within(cell.share, at_fair) else cell.speed


def _mean_of_bounds(share: _Share, pins: Iterable[_Pin]) -> float:
    """Return a measured share's speed between the most below and the least above."""
    slowest, fastest = _bounds(share, pins)
    return slowest if slowest == fastest else (slowest + fastest) / 2


def _between_pins(speed: float, pins: Iterable[_Pin], share: _Share) -> float:
    slowest, fastest = _bounds(share, pins)
    return max(slowest, min(fastest, speed))


def _bounds(share: _Share, pins: Iterable[_Pin]) -> tuple[float, float]:
    """Return the fastest pin with no more of both, and the slowest with no less."""
    slowest, fastest = 0.0, inf
    for at, speed in pins:
        if _is_within(at, share):
            slowest = max(slowest, speed)
        if _is_within(share, at):
            fastest = min(fastest, speed)
    return slowest, fastest


def _is_within(one: _Share, other: _Share) -> bool:
    return one[0] <= other[0] and one[1] <= other[1]
