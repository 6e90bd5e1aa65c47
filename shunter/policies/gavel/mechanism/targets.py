"""What the mechanism asks of an objective: fractions of time by gang and GPU type.

A gang is what runs together in one place: one job, or two that share their GPUs, each job with all
of its GPUs or not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from shunter.core.speeds.speed_model import JobKind, ThroughputTable
from shunter.events.values.fact import fact
from shunter.events.values.ids import GpuType, JobId

Gang = tuple[JobId, ...]
Fractions = dict[Gang, dict[GpuType, float]]


@fact
class JobRequest:
    """A job that wants GPUs: its kind, its steps left, and since when.

    `deadline_s` is the time left until it should be done; `entity` is whose job it is. `rates` are
    what this very job does on each type, and go before the table; `on` is the type it has GPUs of.
    One that is to be `alone` shares GPUs with nobody.
    """

    job_id: JobId
    kind: JobKind
    left: int
    age_s: float = 0.0
    weight: float = 1.0
    deadline_s: float | None = None
    entity: str = ""
    rates: Mapping[GpuType, float] | None = None
    on: GpuType | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Demands:
    """All job requests by arrival, and what there is: whole GPUs of each type."""

    requests: tuple[JobRequest, ...]
    gpus: Mapping[GpuType, int]
    table: ThroughputTable

    def rate(self, request: JobRequest, gpu_type: GpuType) -> float:
        """Return the steps a second of a job alone; 0 where it cannot run."""
        if request.rates is not None:
            return request.rates.get(gpu_type, 0.0)
        return self.table.rate(gpu_type, request.kind) or 0.0


class Targets(Protocol):
    """An objective with what it remembers: a plain dataclass."""

    def fractions(self, demands: Demands) -> Fractions:
        """Return the fraction of time each gang should have on each GPU type.

        A gang without a row is not to run until the next computation.

        Raises:
            PlanError: there is no answer; the message says why.
        """
