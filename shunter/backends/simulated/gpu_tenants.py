"""Who is on which GPU of the simulated world, so that it is known who slows whom down."""

from dataclasses import dataclass, field

from shunter.core.cluster import Gpu, gpus_of
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId

__all__ = ["GpuTenants"]


@dataclass(slots=True)
class GpuTenants:
    """The jobs on each GPU, in the order in which they were launched there."""

    by_gpu: dict[Gpu, dict[JobId, None]] = field(default_factory=dict)

    def enter(self, job_id: JobId, where: Allocation) -> None:
        """Put a job on its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                self.by_gpu.setdefault(gpu, {})[job_id] = None

    def leave(self, job_id: JobId, where: Allocation) -> None:
        """Take a job off its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                del self.by_gpu[gpu][job_id]

    def beside(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return who else is on the GPUs of a job, each once, oldest launch first."""
        found: dict[JobId, None] = {}
        for share in where.shares:
            for gpu in gpus_of(share):
                there = self.by_gpu.get(gpu, {})
                if len(there) > 1 or job_id not in there:
                    found.update(there)
        found.pop(job_id, None)
        return list(found)
