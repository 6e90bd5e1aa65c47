"""How fast each job is on each GPU type: measured while it ran, else by the table, else unknown.

A sample of a running job counts for that job on that type, as an average in which each sample
weighs a quarter. Where a job was measured on some types only, and no table has it, the others
count as its average: so it has no preference for what it never tried.

A sample of a job beside another says what part of its rate its kind keeps beside that kind; this
goes before the table as well, for all jobs of the two kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from shunter.core.speeds.speed_model import JobKind, Pair, ThroughputTable
from shunter.core.state import Job
from shunter.events.values.ids import GpuType, JobId

WEIGHT: Final = 0.25
"""Of a new sample in the average of a job on a type."""

NOTABLE: Final = 0.1
"""A relative change of an average since fractions were computed that asks for new ones."""


Together = tuple[str, ...]
"""A GPU type, a model, the model beside it, and the GPUs of each of the two."""


@dataclass(slots=True)
class Measured:
    """Steps a second by job and GPU type, and how far each job was.

    `used` are the averages with which fractions were computed last. `kept` and `kept_used` are the
    same of the parts that kinds keep beside others.
    """

    rates: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    used: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    steps: dict[JobId, int] = field(default_factory=dict)
    kept: dict[Together, float] = field(default_factory=dict)
    kept_used: dict[Together, float] = field(default_factory=dict)

    def sample(self, job_id: JobId, gpu_type: GpuType, batch_s: float) -> bool:
        """Take a sample in; say whether the job's pace is notably another one."""
        known = self.rates.setdefault(job_id, {})
        known[gpu_type] = _averaged(1.0 / batch_s, known.get(gpu_type))
        used = self.used.setdefault(job_id, {}).get(gpu_type)
        if used is not None and abs(known[gpu_type] - used) <= NOTABLE * used:
            return False
        self.used[job_id][gpu_type] = known[gpu_type]
        return True

    def sample_beside(self, together: "Together", part: float, before: float) -> bool:
        """Take in the part that a kind keeps; say whether it is notably another.

        `before` is the part that counts where none was measured.
        """
        self.kept[together] = _averaged(min(1.0, part), self.kept.get(together))
        used = self.kept_used.get(together, before)
        if abs(self.kept[together] - used) <= NOTABLE * used:
            return False
        self.kept_used[together] = self.kept[together]
        return True

    def forget_rates(self, job_id: JobId) -> None:
        """Drop how fast a job was."""
        for notes in (self.rates, self.used):
            notes.pop(job_id, None)

    def forget(self, job_id: JobId) -> None:
        """Drop a job that has ended."""
        self.forget_rates(job_id)
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

    def beside(self, job: Job, other: Job, gpu_type: GpuType, rate: float) -> bool:
        """Take in how fast a job is beside another; say whether targets are to follow.

        A pair that the table does not know, or knows not to fit, is left out.
        """
        kind, with_kind = self.kind_of(job), self.kind_of(other)
        alone = self.of(job).get(gpu_type, 0.0)
        if self.table is None or kind is None or with_kind is None or alone <= 0:
            return False
        known, usual = self.table.pair_rates(gpu_type, kind, with_kind), None
        if known is not None and min(known) > 0:
            usual = self.table.rate(gpu_type, kind)
        if known is None or not usual:
            return False
        together = gpu_type, kind.model, with_kind.model, str(kind.gpus)
        return self.measured.sample_beside(together, rate / alone, known[0] / usual)

    def table_as_measured(self) -> ThroughputTable | None:
        """Return the table with what was measured of pairs in it."""
        table, kept = self.table, self.measured.kept_used
        if table is None or not kept:
            return table
        changed: dict[GpuType, dict[Pair, tuple[float, float]]] = {}
        for (name, model, other, gpus), part in kept.items():
            gpu_type, size = GpuType(name), int(gpus)
            one, two = JobKind(model, size), JobKind(other, size)
            alone = table.rate(gpu_type, one)
            if not alone or table.pair_rates(gpu_type, one, two) is None:
                continue
            if gpu_type not in changed:
                changed[gpu_type] = dict(table.paired[gpu_type])
            rows, own = changed[gpu_type], part * alone
            theirs = own if one == two else rows[one, two][1]
            rows[one, two], rows[two, one] = (own, theirs), (theirs, own)
        return replace(table, paired={**table.paired, **changed})

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


def _averaged(value: float, before: float | None) -> float:
    """Return an average with a new value in it."""
    return value if before is None else before + WEIGHT * (value - before)
