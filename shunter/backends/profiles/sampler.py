"""One attempt's profile: what its supervisor sampled, and what NVML says of its GPUs."""

from collections.abc import Mapping, Sequence
from typing import Any

from shunter.backends.profiles.gpus import GpuUse
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId

__all__ = ["profile_of"]


def profile_of(
    at_us: int,
    job_id: JobId,
    attempt: int,
    sample: Mapping[str, Any],
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
        step=sample["step"],
        batch_s=sample["batch_s"],
        gpu_utilisation=_utilisation(gpus),
        gpu_memory_mb=_gpu_memory_mb(gpus, sample["pids"], is_exclusive=is_exclusive),
        cpus=sample["cpus"],
        memory_mb=sample["memory_mb"],
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
