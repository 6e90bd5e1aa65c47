"""Who is on which GPU and server of the simulated world, so that it is known who slows whom."""

from dataclasses import dataclass, field

from shunter.core.cluster import Gpu, gpus_of
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId, NodeName


@dataclass(slots=True)
class GpuTenants:
    """The jobs on each GPU, and on each server, in order of their launches there.

    Servers are kept only if neighbours slow each other down (`has_neighbours`).
    """

    has_neighbours: bool = False
    by_gpu: dict[Gpu, dict[JobId, None]] = field(default_factory=dict)
    by_node: dict[NodeName, dict[JobId, None]] = field(default_factory=dict)

    def enter(self, job_id: JobId, where: Allocation) -> None:
        """Put a job on its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                self.by_gpu.setdefault(gpu, {})[job_id] = None
            if self.has_neighbours and share.gpu_mask:
                self.by_node.setdefault(share.node, {})[job_id] = None

    def leave(self, job_id: JobId, where: Allocation) -> None:
        """Take a job off its GPUs."""
        for share in where.shares:
            for gpu in gpus_of(share):
                del self.by_gpu[gpu][job_id]
            if self.has_neighbours and share.gpu_mask:
                del self.by_node[share.node][job_id]

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

    def around(self, job_id: JobId, where: Allocation) -> list[JobId]:
        """Return who has other GPUs of a job's servers, each once, oldest launch first."""
        if not self.has_neighbours:
            return []
        found: dict[JobId, None] = {}
        for share in where.shares:
            if share.gpu_mask:
                found.update(self.by_node.get(share.node, {}))
        for other in (job_id, *self.beside(job_id, where)):
            found.pop(other, None)
        return list(found)
