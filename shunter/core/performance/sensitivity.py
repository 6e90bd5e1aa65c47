"""How a model's speed depends on the CPUs and memory that go with each of its GPUs.

Synergy (Mohan et al., OSDI 2022, section 3.1) measures a matrix for each model: throughput by CPU
cores and memory per GPU, relative to the GPU-proportional share. Between two points of an axis we
interpolate in a straight line; beyond the last point nothing grows; below the first one, speed
falls in a straight line to 0 at nothing. Where an allocation says nothing of one axis, that is
taken for the proportional share: nobody bounds it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shunter.events.values import Allocation, JobSpec, Resources

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
