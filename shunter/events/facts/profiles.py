"""Facts about how fast jobs run and what they use."""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.fact import event
from shunter.events.values.fact_class import DERIVED, OBSERVED, KindClass
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


@event
class SensitivityCorrected:
    """A running job measured another speed than the table of sensitivity says.

    `cpus_milli` and `memory_mb` are what each GPU of the job has, or what it had before, where it
    has its base now. `measured` is its speed with them, `expected` what the table said, both
    relative to the proportional share. The job measured it against its own rate with
    `base_cpus_milli` and `base_memory_mb`. `gpus` is the gang size of the matrix that is corrected.
    """

    at_us: int
    job_id: JobId
    model: str
    gpus: int
    cpus_milli: int
    memory_mb: int
    expected: float
    measured: float
    base_cpus_milli: int
    base_memory_mb: int


ProfileEvent: TypeAlias = ProfileSampled | ProfileMeasured | SensitivityCorrected

CLASSES: Mapping[type, KindClass] = {
    ProfileSampled: KindClass(OBSERVED),
    ProfileMeasured: KindClass(OBSERVED),
    SensitivityCorrected: KindClass(DERIVED),
}
"""Where facts of rates and use come from."""
