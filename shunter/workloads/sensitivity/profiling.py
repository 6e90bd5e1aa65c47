"""Optimistic profiling: the whole matrix of a job from epochs with a few numbers of CPUs.

Epochs are measured with all of the dataset in memory (`CpuSearch` says with how many CPUs); all
other cells, from none to all of the dataset by tenths, are those of the MinIO model (Synergy: Mohan
et al., OSDI 2022, section 3.1). A job need not use all it has, so no cell is slower than one with
less of either: a measurement that says so is taken for noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from shunter.core.performance.sensitivity import Sensitivity
from shunter.errors import ConfigError
from shunter.events.values.resources import Resources
from shunter.workloads.sensitivity.minio import MinioModel
from shunter.workloads.sensitivity.reading import SPEED_MOST

PERCENTS: Final = tuple(range(0, 101, 10))
"""The parts of the dataset in memory that a profile covers."""

_MILLI, _MB = 1000, 1000
_MB_MOST = 1 << 48


@dataclass(frozen=True)
class RelativeProfile:
    """A profile as the core takes it.

    Attributes:
        matrix: 1 at the proportional share, which is one of its points.
        notes: a sentence for each axis on which the share was not measured or modelled.
    """

    matrix: Sensitivity
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """What was measured of a job, and the model of the rest.

    Attributes:
        gpus: GPUs of the job.
        full_s: seconds of an epoch by CPUs of the whole job, with the dataset in memory.
        cache: the model; it has the memory bandwidth with each of these CPUs.
        own_memory_mb: memory for each GPU besides the dataset's, in MB. A table has no amount of 0:
            without any, none of the dataset in memory stands at 1 MB.
    Raises:
        ConfigError: nothing was measured, there are no GPUs or fewer CPUs than GPUs, a time is not
            above 0, or the model lacks a bandwidth.
    """

    gpus: int
    full_s: Mapping[int, float]
    cache: MinioModel
    own_memory_mb: int = 0

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ConfigError(f"gpus: expected at least 1, not {self.gpus}")
        if not 0 <= self.own_memory_mb < _MB_MOST:
            raise ConfigError(f"own_memory_mb: expected 0 or more, not {self.own_memory_mb}")
        if self.cache.dataset_gb * _MB >= _MB_MOST:
            raise ConfigError(f"dataset_gb: {self.cache.dataset_gb:g} GB are too many")
        if not self.full_s:
            raise ConfigError("no epoch was measured: expected one number of CPUs at least")
        for cpus, full_s in sorted(self.full_s.items()):
            if cpus < self.gpus:
                raise ConfigError(
                    f"an epoch with {cpus} CPUs: expected one for each of {self.gpus} GPUs at least"
                )
            self.cache.epoch_s(cpus, 100, full_s)

    @cached_property
    def cpus(self) -> tuple[int, ...]:
        """The numbers of CPUs measured, ascending, of the whole job."""
        return tuple(sorted(self.full_s))

    @cached_property
    def epoch_s(self) -> tuple[tuple[float, ...], ...]:
        """Seconds of an epoch: a row for each of `cpus`, a column for each of `PERCENTS`."""
        return tuple(
            tuple(self.cache.epoch_s(cpus, percent, self.full_s[cpus]) for percent in PERCENTS)
            for cpus in self.cpus
        )

    @cached_property
    def speeds(self) -> Sensitivity:
        """Throughput for each GPU's CPUs and memory, relative to the fastest cell.

        CPUs are rounded down to thousandths, as the core divides those of a share; memory is
        rounded up to MB. Where two parts of a small dataset are the same MB, they are one column.
        """
        columns = {self.memory_mb(percent): at for at, percent in enumerate(PERCENTS)}
        fastest_s = min(map(min, self.epoch_s))
        rows = {
            cpus * _MILLI // self.gpus: [fastest_s / row[at] for at in columns.values()]
            for cpus, row in zip(self.cpus, self.epoch_s, strict=True)
        }
        return Sensitivity(tuple(rows), tuple(columns), never_falling(tuple(rows.values())))

    def memory_mb(self, percent: int) -> int:
        """Return the MB for each GPU with so many percent of the dataset in memory."""
        dataset_mb = max(round(self.cache.dataset_gb * _MB), 1)
        return max(self.own_memory_mb + -(-dataset_mb * percent // (100 * self.gpus)), 1)

    def seconds(self, cpus: int, memory_mb: int) -> float:
        """Return the seconds of an epoch by `speeds`, at any point.

        Args:
            cpus: of the whole job.
            memory_mb: for each GPU.
        """
        speed = self.speeds.speed(cpus * _MILLI // self.gpus, memory_mb)
        return min(map(min, self.epoch_s)) / speed

    @property
    def demand(self) -> Resources:
        """The least CPUs, and with them the least memory, of maximal speed, for each GPU."""
        return self.speeds.best

    def relative_to(self, share: Resources) -> RelativeProfile:
        """Return the matrix over the speed at the proportional share.

        The share becomes a point of both axes. Where it was none, speed there is what the core
        takes it for: a straight line between its neighbours, or to 0 below the first.

        Args:
            share: the CPUs and memory that go with each GPU in proportion.
        Raises:
            ConfigError: it lacks CPUs or memory, or has more CPUs than were measured, or is so
                little that others are more than a million times as fast.
        """
        speeds = self.speeds
        if share.cpus_milli < 1 or share.memory_mb < 1:
            raise ConfigError(
                f"proportional share: expected CPUs and memory for each GPU, not "
                f"{share.cpus_milli / _MILLI:g} CPUs and {share.memory_mb} MB"
            )
        if share.cpus_milli > speeds.cpus_milli[-1]:
            raise ConfigError(
                f"proportional share: {share.cpus_milli / _MILLI:g} CPUs for each GPU are more "
                f"than were measured, {speeds.cpus_milli[-1] / _MILLI:g}: measure an epoch with as "
                "many"
            )
        cpus = _with(speeds.cpus_milli, share.cpus_milli)
        memory = _with(speeds.memory_mb, share.memory_mb)
        rows = resampled(speeds, cpus, memory)
        at_share = rows[cpus.index(share.cpus_milli)][memory.index(share.memory_mb)]
        if at_share * SPEED_MOST < rows[-1][-1]:
            raise ConfigError(
                f"proportional share: {share.cpus_milli / _MILLI:g} CPUs and {share.memory_mb} MB "
                "for each GPU are less than a millionth as fast as the most that was measured"
            )
        relative = tuple(tuple(cell / at_share for cell in row) for row in rows)
        return RelativeProfile(Sensitivity(cpus, memory, relative), self._notes(share))

    def _notes(self, share: Resources) -> tuple[str, ...]:
        """Return what is to be said of a share that is no point of the profile."""
        speeds = self.speeds
        axes = (
            (speeds.cpus_milli, share.cpus_milli, _MILLI, "CPUs"),
            (speeds.memory_mb, share.memory_mb, _MB, "GB"),
        )
        return tuple(
            f"the proportional share, {at / unit:g} {what} for each GPU, "
            f"{_position(points, at, unit)}"
            for points, at, unit, what in axes
            if at not in points
        )


def resampled(
    speeds: Sensitivity, cpus_milli: Sequence[int], memory_mb: Sequence[int]
) -> tuple[tuple[float, ...], ...]:
    """Return the rows of a matrix at other points, as the core interpolates."""
    return never_falling(
        [[speeds.speed(cpus, memory) for memory in memory_mb] for cpus in cpus_milli]
    )


def never_falling(rows: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Return rows in which each cell is the largest with no more of either axis."""
    along = [tuple(accumulate(row, max)) for row in rows]
    return tuple(accumulate(along, lambda less, more: tuple(map(max, less, more))))


def _with(points: Sequence[int], point: int) -> tuple[int, ...]:
    """Return ascending points and one more, which may be one of them."""
    return tuple(sorted([*points, point])) if point not in points else tuple(points)


def _position(points: Sequence[int], at: int, unit: int) -> str:
    """Say where an amount lies that is not among the points of an axis."""
    if at < points[0]:
        return f"is below the least point, {points[0] / unit:g}: on a straight line from there to 0"
    if at > points[-1]:
        return f"is above the last point, {points[-1] / unit:g}: as fast as that"
    low = max(point for point in points if point < at)
    high = min(point for point in points if point > at)
    return f"is interpolated between {low / unit:g} and {high / unit:g}"
