"""Profiles of attempts, downsampled for the log: what is as before is recorded once a while.

A sample is kept where something changed by more than a tolerance, or the last one kept is old.
What is kept waits for the batch, so that the log gets one append for many jobs.
"""

from collections.abc import Sequence

from shunter.backends.agents.attempt_records import Sample
from shunter.backends.profiles.gpus import GpuUse
from shunter.events.facts import ProfileSampled
from shunter.events.values import JobId


def profile_of(
    at_us: int,
    job_id: JobId,
    attempt: int,
    sample: Sample,
    gpus: Sequence[GpuUse],
    *,
    is_exclusive: bool,
) -> ProfileSampled:
    """Return the profile of an instant; a value that cannot be had is None.

    Args:
        at_us: the instant of the sample.
        job_id: whose it is.
        attempt: of which attempt.
        sample: the supervisor's record (see node/sampling.py).
        gpus: readings of the attempt's own GPUs, as far as there are any.
        is_exclusive: whether nobody else is on them.
    """
    return ProfileSampled(
        at_us=at_us,
        job_id=job_id,
        attempt=attempt,
        step=sample.step,
        batch_s=sample.batch_s,
        gpu_utilisation=_utilisation(gpus),
        gpu_memory_mb=_gpu_memory_mb(gpus, sample.pids, is_exclusive=is_exclusive),
        cpus=sample.cpus,
        memory_mb=sample.memory_mb,
    )


def _utilisation(gpus: Sequence[GpuUse]) -> float | None:
    """Return the mean over the GPUs that tell it."""
    known = [each.utilisation for each in gpus if each.utilisation is not None]
    return round(sum(known) / len(known), 4) if known else None


def _gpu_memory_mb(
    gpus: Sequence[GpuUse], pids: Sequence[int], *, is_exclusive: bool
) -> int | None:
    """Return what the job holds: by process, or its GPUs where none is named.

    In a container NVML names processes by their ids on the host: none is the job's then.
    """
    known = [each for each in gpus if each.memory_mb is not None]
    if not known:
        return None
    shares = [(each.memory_by_pid or {}).items() for each in known]
    own = sum(megabytes for share in shares for pid, megabytes in share if pid in pids)
    return own if own or not is_exclusive else sum(each.memory_mb or 0 for each in known)


# A change below this is noise, however large a part of the value it is.
_NOISE = {
    "batch_s": 0.0,
    "gpu_utilisation": 0.05,
    "gpu_memory_mb": 64,
    "cpus": 0.1,
    "memory_mb": 64,
}


class Downsampler:
    """Decides which samples go to the log, and gathers them into batches.

    Args:
        every_us: a sample is kept at least so often.
        at_least_us: and no two are closer than this.
        tolerance: the relative change of a value that is worth telling.
        batch: so many samples are a batch before its time.
        batch_us: a batch waits for at most this.
    """

    def __init__(
        self,
        *,
        every_us: int = 60_000_000,
        at_least_us: int = 5_000_000,
        tolerance: float = 0.2,
        batch: int = 100,
        batch_us: int = 10_000_000,
    ) -> None:
        self._every_us = every_us
        self._at_least_us = at_least_us
        self._tolerance = tolerance
        self._batch = batch
        self._batch_us = batch_us
        self._kept: dict[JobId, ProfileSampled] = {}
        self._waiting: list[ProfileSampled] = []

    def offer(self, sample: ProfileSampled) -> bool:
        """Take a sample in, and say whether it will go to the log."""
        last = self._kept.get(sample.job_id)
        if last is not None and last.attempt == sample.attempt and not self._is_news(last, sample):
            return False
        self._kept[sample.job_id] = sample
        self._waiting.append(sample)
        return True

    def due(self, now_us: int) -> tuple[ProfileSampled, ...]:
        """Return a batch in the order of its samples, or nothing while it may wait."""
        oldest = min((each.at_us for each in self._waiting), default=now_us)
        is_due = len(self._waiting) >= self._batch or now_us - oldest >= self._batch_us
        return self.flush() if is_due else ()

    def flush(self) -> tuple[ProfileSampled, ...]:
        """Return everything that waits."""
        batch, self._waiting = tuple(self._waiting), []
        return batch

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job that ended; what waits still goes to the log."""
        self._kept.pop(job_id, None)

    def _is_news(self, last: ProfileSampled, sample: ProfileSampled) -> bool:
        age_us = sample.at_us - last.at_us
        if age_us < self._at_least_us:
            return False
        return age_us >= self._every_us or any(self._differs(last, sample, name) for name in _NOISE)

    def _differs(self, last: ProfileSampled, sample: ProfileSampled, name: str) -> bool:
        before, now = getattr(last, name), getattr(sample, name)
        if before is None or now is None:
            return before is not now
        noise = max(_NOISE[name], self._tolerance * max(abs(before), abs(now)))
        return bool(abs(now - before) > noise)
