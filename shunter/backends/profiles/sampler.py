"""One attempt's sample: its speed from the SDK, its processes from /proc, its GPUs from NVML."""

from pathlib import Path

from shunter.backends.profiles.gpus import GpuReader, GpuUse, NoGpus
from shunter.backends.profiles.printed import printed_speed
from shunter.backends.profiles.processes import Processes, ProcessUse
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId
from shunter.train import channel

__all__ = ["Sampler"]


class Sampler:
    """Takes samples of one attempt on one machine."""

    def __init__(
        self,
        job_id: JobId,
        attempt: int,
        *,
        processes: Processes,
        folder: Path | None = None,
        gpus: tuple[int, ...] = (),
        is_exclusive: bool = True,
        reader: GpuReader | None = None,
        printed: Path | None = None,
    ) -> None:
        self.gpu_state: tuple[GpuUse, ...] | NoGpus = ()
        self._job_id = job_id
        self._attempt = attempt
        self._processes = processes
        self._folder = folder
        self._gpus = gpus
        self._is_exclusive = is_exclusive
        self._printed = printed
        self._reader = reader or GpuReader()

    def sample(self, at_us: int, now_s: float) -> ProfileSampled | None:
        """Return a sample of an instant (of the log, and monotonic); None if all is gone.

        A value that cannot be had is None; `gpu_state` says why those of GPUs are missing.
        """
        use = self._processes.read(now_s)
        if use is None:
            return None
        self.gpu_state = self._reader.read(self._gpus) if self._gpus else ()
        read = () if isinstance(self.gpu_state, NoGpus) else self.gpu_state
        step, batch_s = speed(self._folder) if self._folder else (None, None)
        if batch_s is None and step is None and self._printed is not None:
            step, batch_s = printed_speed(self._printed)
        return ProfileSampled(
            at_us=at_us,
            job_id=self._job_id,
            attempt=self._attempt,
            step=step,
            batch_s=batch_s,
            gpu_utilisation=_utilisation(read),
            gpu_memory_mb=self._gpu_memory_mb(read, use),
            cpus=use.cpus,
            memory_mb=use.memory_mb,
        )

    def _gpu_memory_mb(self, read: tuple[GpuUse, ...], use: ProcessUse) -> int | None:
        """Return what the job holds: by process, or its GPUs where none is named.

        In a container NVML names processes by their ids on the host: none is the job's then.
        """
        known = [each for each in read if each.memory_mb is not None]
        if not known:
            return None
        shares = [(each.memory_by_pid or {}).items() for each in known]
        own = sum(megabytes for share in shares for pid, megabytes in share if pid in use.pids)
        whole = sum(each.memory_mb or 0 for each in known)
        return own if own or not self._is_exclusive else whole


def speed(folder: Path) -> tuple[int | None, float | None]:
    """Return the step all ranks have reached, and the slowest mini-batch."""
    told = [each for _, each in sorted(channel.progress(folder).items())]
    steps = [each["step"] for each in told if isinstance(each.get("step"), int)]
    batches = [each["batch_s"] for each in told if isinstance(each.get("batch_s"), float)]
    return min(steps, default=None), max(batches, default=None)


def _utilisation(read: tuple[GpuUse, ...]) -> float | None:
    """Return the mean over the GPUs that tell it."""
    known = [each.utilisation for each in read if each.utilisation is not None]
    return round(sum(known) / len(known), 4) if known else None
