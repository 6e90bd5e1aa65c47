"""Facts about how fast jobs run and what they use."""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.fact import event
from shunter.events.values.fact_class import OBSERVED, KindClass
from shunter.events.values.ids import GpuType, JobId


@event
class ProfileSampled:
    """One sample of an attempt; utilisations are fractions, batches in seconds."""

    at_us: int
    job_id: JobId
    attempt: int
    step: int | None = None
    batch_s: float | None = None
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    message_bytes_largest: int | None = None
    message_bytes_total: int | None = None


@event
class ProfileMeasured:
    """One offline measurement of a model on given resources, in steps per second."""

    at_us: int
    model: str
    gpu_type: GpuType
    gpus: int
    steps_per_s: float
    batch_size: int | None = None
    cpus_milli: int | None = None
    memory_mb: int | None = None
    level: str = ""


ProfileEvent: TypeAlias = ProfileSampled | ProfileMeasured

CLASSES: Mapping[type, KindClass] = {
    ProfileSampled: KindClass(OBSERVED),
    ProfileMeasured: KindClass(OBSERVED),
}
"""Where facts of rates and use come from."""
