"""Optimistic profiling: the whole matrix of a job from epochs with a few numbers of CPUs.

Epochs are measured with all of the dataset in memory (`CpuSearch` says with how many CPUs); all
other cells, from none to all of the dataset by tenths, are those of the MinIO model (Synergy: Mohan
et al., OSDI 2022, section 3.1). A job need not use all it has, so no cell is slower than one with
less of either: a measurement that says so is taken for noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import Any, Final

from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.errors import ConfigError
from shunter.events import Resources
from shunter.workloads.sensitivity import SPEED_MOST

# The MinIO cache model (Synergy: Mohan et al., OSDI 2022, section 3.1; CoorDL, VLDB 2021): a cache
# that drops nothing, so each epoch reads the same part of the dataset from memory.
#
#     C = D m / 100           F = D - C
#     t_cache = C / B_mem(c)  t_disk = 1024 F / B_disk  t_fetch = t_cache + t_disk
#     T(c, m) = max(T_c, t_fetch)
#
# m is the percentage of the dataset in memory, c the CPUs, T_c the time with c CPUs and all of it
# in memory. As in the source, a GB of disk has 1,024 MB; amounts of memory in tables have 1,000.

_MB_OF_GB = 1024


@dataclass(frozen=True)
class MinioModel:
    """The dataset of a job, and how fast it is read.

    Attributes:
        dataset_gb: D, the size of the dataset in GB.
        memory_gb_s: B_mem, by the CPUs of the job: GB per second read from memory.
        disk_mb_s: B_disk: MB per second read from disk.
    Raises:
        ConfigError: one of them is not above 0.
    """

    dataset_gb: float
    memory_gb_s: Mapping[int, float]
    disk_mb_s: float

    def __post_init__(self) -> None:
        require_positive(self.dataset_gb, "dataset_gb")
        require_positive(self.disk_mb_s, "disk_mb_s")
        for cpus, bandwidth in self.memory_gb_s.items():
            require_positive(bandwidth, f"memory_gb_s at {cpus} CPUs")

    def cached_gb(self, percent: float) -> float:
        """Return C: the GB in memory, with so many percent of the dataset there.

        Raises:
            ConfigError: it is no percentage.
        """
        if not 0 <= percent <= 100:
            raise ConfigError(f"expected 0 to 100 percent of the dataset in memory, not {percent}")
        return self.dataset_gb * (percent / 100)  # all of it, to the last bit, at 100

    def missing_gb(self, percent: float) -> float:
        """Return F: the GB that every epoch reads from disk."""
        return self.dataset_gb - self.cached_gb(percent)

    def cache_s(self, cpus: int, percent: float) -> float:
        """Return t_cache: the seconds an epoch reads from memory.

        Raises:
            ConfigError: the bandwidth was not measured with so many CPUs.
        """
        bandwidth = self.memory_gb_s.get(cpus)
        if bandwidth is None:
            known = ", ".join(map(str, sorted(self.memory_gb_s))) or "none"
            raise ConfigError(
                f"memory_gb_s: nothing was measured with {cpus} CPUs, only with {known}: "
                "measure the bandwidth with each number of CPUs that epochs were measured with"
            )
        return self.cached_gb(percent) / bandwidth

    def disk_s(self, percent: float) -> float:
        """Return t_disk: the seconds an epoch reads from disk."""
        return _MB_OF_GB * self.missing_gb(percent) / self.disk_mb_s

    def fetch_s(self, cpus: int, percent: float) -> float:
        """Return t_fetch: the seconds an epoch reads, from memory and then from disk."""
        return self.cache_s(cpus, percent) + self.disk_s(percent)

    def epoch_s(self, cpus: int, percent: float, full_s: float) -> float:
        """Return T(c, m): the seconds of an epoch.

        Args:
            cpus: c, of the whole job.
            percent: m, the part of the dataset in memory.
            full_s: T_c, seconds of an epoch measured with c CPUs and all of it in memory.
        Raises:
            ConfigError: `full_s` is not above 0, or what the other methods raise.
        """
        require_positive(full_s, f"seconds of an epoch with {cpus} CPUs")
        return max(full_s, self.fetch_s(cpus, percent))

    def storage_mb_s(self, cpus: int, percent: float, full_s: float) -> float:
        """Return S(c, m): the MB per second of disk bandwidth that the job can use.

        All of B_disk where reading is what takes the time, else 1024 F / (T_c - t_cache).

        Deviation: where all of the dataset is in memory it is 0, also where reading that takes
        longer than T_c, since nothing is read from disk.

        Args and raises: as `epoch_s`.
        """
        require_positive(full_s, f"seconds of an epoch with {cpus} CPUs")
        spare_s = full_s - self.cache_s(cpus, percent)
        disk_s = self.disk_s(percent)
        if not disk_s:
            return 0.0
        if spare_s <= disk_s:
            return self.disk_mb_s
        return _MB_OF_GB * self.missing_gb(percent) / spare_s


def require_positive(value: float, what: str) -> None:
    """Refuse what is not a finite number above 0.

    Raises:
        ConfigError: it is none.
    """
    if not 0 < value < inf:
        raise ConfigError(f"{what}: expected a number above 0, not {value!r}")


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


# Which numbers of CPUs are measured (Synergy, OSDI 2022, section 3.1, and its profiler): downwards
# by half while an epoch takes as long as before, else by one CPU for each GPU.
#
#     24 (warm-up), 24, 12, 6, 3, 2, 1    for a job that four CPUs keep busy
#
# Deviation: nothing is measured below one CPU for each GPU, and that number always is.

_SAME = 0.1


class CpuSearch:
    """The measurements of one job so far, and the next one.

    Each number is compared with the one before it: by less than a tenth slower or faster is as
    long as before.
    """

    def __init__(self, cpus_most: int, gpus: int) -> None:
        """Begin with the most CPUs the job can have; both numbers are of the whole job.

        Raises:
            ConfigError: the job has no GPUs, or fewer CPUs than GPUs.
        """
        if gpus < 1:
            raise ConfigError(f"gpus: expected at least 1, not {gpus}")
        if cpus_most < gpus:
            raise ConfigError(
                f"cpus_most: expected a CPU for each of {gpus} GPUs at least, not {cpus_most}"
            )
        self._gpus = gpus
        self._next: int | None = cpus_most
        self._warm = False
        self._epoch_s: dict[int, float] = {}
        self._before_s: float | None = None

    @property
    def next_cpus(self) -> int | None:
        """The number of CPUs to measure an epoch with now; None: it is done."""
        return self._next

    @property
    def epoch_s(self) -> Mapping[int, float]:
        """Seconds of an epoch by CPUs, as measured, without the warm-up."""
        return dict(self._epoch_s)

    def record(self, epoch_s: float) -> None:
        """Take the seconds of an epoch with `next_cpus` and all of the dataset in memory.

        Raises:
            ConfigError: they are not above 0, or everything has been measured.
        """
        cpus = self._next
        if cpus is None:
            raise ConfigError("all numbers of CPUs have been measured: nothing more is expected")
        require_positive(epoch_s, f"seconds of an epoch with {cpus} CPUs")
        if not self._warm:
            self._warm = True
            return
        before_s, self._before_s = self._before_s, epoch_s
        self._epoch_s[cpus] = epoch_s
        is_same = before_s is None or abs(epoch_s - before_s) < _SAME * before_s
        fewer = cpus // 2 if is_same else cpus - self._gpus
        self._next = max(fewer, self._gpus) if cpus > self._gpus else None


def table_document(table: SensitivityTable, about: Iterable[str] = ()) -> dict[str, Any]:
    """Return a table as a file of it has it.

    All models of a file have the same points: those of any matrix, and the
    proportional share. A matrix that lacks one gets it
    where the core takes its speed to be, so that no speed changes. What a model is with its fewest
    GPUs counts for jobs with fewer as well, in a table as in the file.

    Args:
        table: the models and the proportional share, at which all their speeds are 1.
        about: what is to be said of the table, such as the notes of profiles; not read back.
    Raises:
        ConfigError: there is no model, or one without a matrix.
    """
    matrices = [matrix for sizes in table.models.values() for matrix in sizes.values()]
    if not matrices or not all(table.models.values()):
        raise ConfigError(f"{table.name or 'table'}: expected models, each with a matrix")
    fair = table.proportional
    cpus = sorted({fair.cpus_milli, *(at for matrix in matrices for at in matrix.cpus_milli)})
    memory = sorted({fair.memory_mb, *(at for matrix in matrices for at in matrix.memory_mb)})

    def rows(matrix: Sensitivity) -> dict[str, object]:
        return {"table": [list(row) for row in resampled(matrix, cpus, memory)]}

    models: dict[str, Any] = {}
    for model, sizes in sorted(table.models.items()):
        fewest, *others = sorted(sizes)
        models[model] = rows(sizes[fewest])
        if others:
            models[model]["multi_gpu"] = {str(gpus): rows(sizes[gpus]) for gpus in others}
    return {
        "about": list(about),
        "proportional_per_gpu": {
            "cpus": fair.cpus_milli / _MILLI,
            "memory_gb": fair.memory_mb / _MB,
        },
        "cpu_points": [point / _MILLI for point in cpus],
        "memory_gb_points": [point / _MB for point in memory],
        "models": models,
    }
