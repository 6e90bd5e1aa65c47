"""Which numbers of CPUs optimistic profiling measures: few, and more where they matter.

Synergy (Mohan et al., OSDI 2022, section 3.1), as its public profiler goes: from all CPUs
downwards, by half while an epoch takes as long as before, else by one CPU for each GPU. The first
run warms caches up and does not count.

    24 (warm-up), 24, 12, 6, 3, 2, 1    for a job that four CPUs keep busy

Deviation: below one CPU for each GPU nothing is measured, and that number always is.
"""

from collections.abc import Mapping

from shunter.errors import ConfigError
from shunter.workloads.sensitivity.minio import require_positive

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
