"""How fast each job is on each GPU type: measured while it ran, else by the table, else unknown.

A sample of a running job counts for that job on that type, as an average in which each sample
weighs a quarter. Where a job was measured on some types only, and no table has it, the others
count as its average: so it has no preference for what it never tried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shunter.core.state import Job
from shunter.core.throughputs import JobKind, ThroughputTable
from shunter.events.values.ids import GpuType, JobId

__all__ = ["Measured", "Rates"]

WEIGHT: Final = 0.25
"""Of a new sample in the average of a job on a type."""

NOTABLE: Final = 0.1
"""A relative change of an average since fractions were computed that asks for new ones."""


@dataclass(slots=True)
class Measured:
    """Steps a second by job and GPU type, and how far each job was.

    `used` are the averages with which fractions were computed last.
    """

    rates: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    used: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    steps: dict[JobId, int] = field(default_factory=dict)

    def sample(self, job_id: JobId, gpu_type: GpuType, batch_s: float) -> bool:
        """Take a sample in; say whether the job's pace is notably another one."""
        known = self.rates.setdefault(job_id, {})
        rate, before = 1.0 / batch_s, known.get(gpu_type)
        known[gpu_type] = rate if before is None else before + WEIGHT * (rate - before)
        used = self.used.setdefault(job_id, {}).get(gpu_type)
        if used is not None and abs(known[gpu_type] - used) <= NOTABLE * used:
            return False
        self.used[job_id][gpu_type] = known[gpu_type]
        return True

    def forget(self, job_id: JobId) -> None:
        """Drop a job that has ended."""
        for notes in (self.rates, self.used):
            notes.pop(job_id, None)
        self.steps.pop(job_id, None)


@dataclass(frozen=True, slots=True)
class Rates:
    """Looks up how fast jobs are, on some GPU types with so many GPUs each."""

    measured: Measured
    table: ThroughputTable | None
    room: Mapping[GpuType, int]
    guessed: Mapping[JobId, Mapping[GpuType, float]] = field(default_factory=dict)
    found: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)

    def of(self, job: Job) -> dict[GpuType, float]:
        """Return steps a second by type; 0 where it cannot run, 1 if nobody knows.

        What was `found` once is taken again, until whoever keeps it drops it.
        """
        rates = self.found.get(job.job_id)
        if rates is None:
            rates = self.found[job.job_id] = self._looked_up(job)
        return rates

    def _looked_up(self, job: Job) -> dict[GpuType, float]:
        spec = job.spec
        fits = [
            name
            for name, gpus in self.room.items()
            if gpus >= spec.gpus and (not spec.gpu_types or name in spec.gpu_types)
        ]
        known = self._known(job.job_id, self.kind_of(job), fits)
        known = {**self.guessed.get(job.job_id, {}), **known}
        tried = [rate for rate in known.values() if rate > 0]
        usual = sum(tried) / len(tried) if tried else 1.0
        return {name: known.get(name, usual) if name in fits else 0.0 for name in self.room}

    def kind_of(self, job: Job) -> JobKind | None:
        """Return what the table knows a job by, None if it does not."""
        return None if self.table is None else self.table.kind_of(job.spec)

    def base_rate(self, job: Job) -> float | None:
        """Return the steps a second that count as speed 1, None where no table says."""
        if self.table is None:
            return None
        kind = self.table.kind_of(job.spec)
        return None if kind is None else self.table.rate(self.table.base_type, kind)

    def _known(
        self, job_id: JobId, kind: JobKind | None, fits: Sequence[GpuType]
    ) -> dict[GpuType, float]:
        known: dict[GpuType, float] = {}
        if kind is not None and self.table is not None:
            for name in fits:
                rate = self.table.rate(name, kind)
                if rate is not None:
                    known[name] = rate
        used = self.measured.used.get(job_id)
        if not used:
            return known
        # Where a table knows the types' ratios, they carry what was measured over to the others.
        ratios = [used[name] / known[name] for name in used if known.get(name)]
        scale = sum(ratios) / len(ratios) if ratios else 1.0
        return {**{name: rate * scale for name, rate in known.items()}, **used}
