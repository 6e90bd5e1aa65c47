"""The MinIO cache model: how long an epoch takes with a part of its dataset in memory.

MinIO (Synergy: Mohan et al., OSDI 2022, section 3.1; the cache is that of CoorDL, VLDB 2021) drops
nothing that it holds, so each epoch reads the same part of the dataset from memory and the rest
from disk. The epoch's time by memory then follows from one measurement with the whole dataset in
memory and two bandwidths:

    C = D m / 100           F = D - C
    t_cache = C / B_mem(c)  t_disk = 1024 F / B_disk  t_fetch = t_cache + t_disk
    T(c, m) = max(T_c, t_fetch)

D is `dataset_gb`, m the percentage of it in memory, c the CPUs, B_mem(c) `memory_gb_s`, B_disk
`disk_mb_s`, and T_c the time measured with c CPUs and all of the dataset in memory. Reads from
memory and disk add up; training overlaps with both.

The source counts 1,024 MB to the GB where disks are read, and so do we, to get the same cells;
amounts of memory in tables count 1,000.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from shunter.errors import ConfigError

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
