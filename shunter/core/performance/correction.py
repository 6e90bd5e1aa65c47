"""A table of sensitivity, corrected by what jobs measured of themselves.

A measured cell is a share (CPUs and memory for each GPU) and how fast a job was with it, relative
to the proportional share. It becomes a point of the matrix, with its measured speed; at the
proportional share that is 1. Every other point is moved in three steps:

1. Above measured cells it keeps its distance from them: the table's speed, times what was measured
   over the table's speed at the nearest measured cell with no more of both resources (of several
   that are not comparable, the one that leaves least).
2. It is not faster than any point with no less of both resources.
3. It is neither slower than a measured cell with no more of both, nor faster than one with no less.

So a corrected matrix never falls along an axis, whatever was measured, and measured cells stay as
they were measured. Where measurements contradict each other, or the proportional share, they give
way: none with at least the proportional share counts as slower than 1, none with at most that as
faster; and of two that fall where they should rise, each counts as the mean of the fastest with no
more than it has and the slowest with no less.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from shunter.core.performance.sensitivity import Sensitivity, SensitivityTable
from shunter.events.records import fact
from shunter.events.values import Resources

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
            gpus: _corrected_matrix(matrix, _of_size(known[model], gpus), table.proportional)
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


def _of_size(cells: Sequence[MeasuredCell], gpus: int) -> list[MeasuredCell]:
    return [cell for cell in cells if cell.gpus == gpus]


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
