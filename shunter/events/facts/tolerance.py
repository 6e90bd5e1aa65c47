"""Facts about what distance between its GPUs leaves of a model's speed."""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.fact import event
from shunter.events.values.fact_class import DERIVED, KindClass
from shunter.events.values.ids import GpuType, JobId
from shunter.events.values.job_spec import Level


@event
class ToleranceLearnt:
    """A gang measured how long its mini-batches take where its GPUs are so far apart.

    `level` is the smallest one that holds all of its GPUs, `split` how many it has on each server,
    the most first. `batch_us` is the mean time of `samples` mini-batches, in microseconds.
    """

    at_us: int
    job_id: JobId
    model: str
    gpu_type: GpuType
    level: Level
    split: tuple[int, ...]
    batch_us: int
    samples: int
    batch_size: int | None = None


ToleranceEvent: TypeAlias = ToleranceLearnt

CLASSES: Mapping[type, KindClass] = {ToleranceLearnt: KindClass(DERIVED)}
"""Where facts of learnt tolerance come from."""
