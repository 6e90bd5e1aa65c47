"""The jobs of the played simulator: what each has left to do, and how fast it is where.

A gang is given its rates once, when its last job comes: jobs never change their kind here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Gang


@dataclass(slots=True)
class PeerJob:
    """A job that has arrived and not ended; `failures` in a row, `left` in steps.

    `deadline_s` counts from the round that first saw it, as there.
    """

    job_id: JobId
    ordinal: int
    model: str
    gpus: int
    left: int
    arrival_s: float
    weight: float = 1.0
    failures: int = 0
    deadline_s: float | None = None

    @property
    def kind(self) -> JobKind:
        """What the table knows it by."""
        return JobKind(self.model, self.gpus)


@dataclass(slots=True)
class Jobs:
    """All jobs by id in the order of arrival; rates and GPUs of their gangs."""

    known: dict[JobId, PeerJob] = field(default_factory=dict)
    rates: dict[Gang, dict[GpuType, tuple[float, ...]]] = field(default_factory=dict)
    sizes: dict[Gang, int] = field(default_factory=dict)

    def add(
        self, job: PeerJob, table: ThroughputTable, types: Iterable[GpuType], *, pairs_too: bool
    ) -> list[Gang]:
        """Add a job; return the new gangs: the job alone, then with each other one."""
        alone, types = (job.job_id,), tuple(types)
        self.sizes[alone] = job.gpus
        self.rates[alone] = {name: (table.rate(name, job.kind) or 0.0,) for name in types}
        found: list[Gang] = [alone]
        for other in self.known.values() if pairs_too else ():
            pair = other.job_id, job.job_id
            self.rates[pair] = {
                name: table.pair_rates(name, other.kind, job.kind) or (0.0, 0.0) for name in types
            }
            self.sizes[pair] = job.gpus if job.gpus == other.gpus else 0
            found.append(pair)
        self.known[job.job_id] = job
        return found

    def remove(self, job_id: JobId) -> None:
        """Forget a job and its pairs."""
        del self.known[job_id]
        for gang in [gang for gang in self.rates if job_id in gang]:
            del self.rates[gang], self.sizes[gang]

    def gpus(self, gang: Gang) -> int:
        """Return how many GPUs a gang needs; 0 for a pair of unequal jobs."""
        return self.sizes[gang]

    def can_run(self, gang: Gang, gpu_type: GpuType) -> bool:
        """Say whether all jobs of a gang get on there."""
        return min(self.rates[gang][gpu_type]) > 0
