"""What is left for the next job of a walk: GPUs by type, and by queue with a quota."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shunter.core import CPU_POOL, Job, View
from shunter.events import Demand, JobId, QueueName


@dataclass
class Room:
    """GPUs left for a job at its turn, and of them those for which nobody has to leave.

    `barred` are the jobs that were found to have no place in a pool; jobs of equal demand behind
    them are `out` of that pool.
    """

    left: dict[str, int]
    loose: dict[str, int]
    quotas: dict[QueueName, int]
    barred: list[tuple[JobId, str]]
    demand_of: Callable[[Job], Demand]
    out: list[tuple[Demand, str]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        view: View,
        running: Iterable[Job],
        barred: list[tuple[JobId, str]],
        demand_of: Callable[[Job], Demand],
    ) -> "Room":
        """Return all the room there is before the first job has taken any."""
        loose = {name: pool.gpus_free for name, pool in view.pools.items()}
        left = dict(loose)
        quotas = {
            name: queue.quota_gpus - queue.gpus
            for name, queue in view.queues.items()
            if queue.quota_gpus is not None
        }
        for job in running:
            first = view.cluster.servers[job.allocation.shares[0].node]
            left[first.configuration.gpu_type] += job.allocation.gpus
            if job.spec.queue in quotas:
                quotas[job.spec.queue] += job.allocation.gpus
        return cls(left, loose, quotas, barred, demand_of)

    def is_enough_for(self, job: Job, pool: str) -> bool:
        """Say whether a job's GPUs fit into its pool and its quota."""
        if not job.spec.gpus:
            return True
        quota = self.quotas.get(job.spec.queue, job.spec.gpus)
        return self.left.get(pool, 0) >= job.spec.gpus and quota >= job.spec.gpus

    def pools_for(self, job: Job) -> list[str]:
        """Return the acceptable pools in which a waiting job fits, best first."""
        names = list(job.spec.gpu_types or self.left) if job.spec.gpus else [CPU_POOL]
        demand = self.demand_of(job)
        self.out += [(demand, name) for name in names if (job.job_id, name) in self.barred]
        allowed = [name for name in names if (demand, name) not in self.out]
        fitting = [name for name in allowed if self.is_enough_for(job, name)]
        return sorted(fitting, key=lambda name: self.loose.get(name, 0) < job.spec.gpus)

    def stay(self, job: Job, pool: str) -> None:
        """Let a running job keep its GPUs."""
        self._spend(job, pool, job.spec.gpus)

    def start(self, job: Job, pool: str) -> None:
        """Give a waiting job GPUs."""
        self._spend(job, pool, job.spec.gpus)
        if job.spec.gpus:
            self.loose[pool] -= job.spec.gpus

    def leave(self, job: Job, pool: str) -> None:
        """Make a running job leave."""
        self.loose[pool] += job.spec.gpus

    def _spend(self, job: Job, pool: str, gpus: int) -> None:
        if gpus:
            self.left[pool] -= gpus
        if job.spec.queue in self.quotas:
            self.quotas[job.spec.queue] -= gpus
