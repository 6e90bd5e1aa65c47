"""What can never run here is said at once, not left to wait for ever."""

from shunter.core.cluster import CPU_POOL, Cluster, Health, Pool, Server
from shunter.core.placement import Consolidated, place
from shunter.core.queue import Queue
from shunter.events.records import fact
from shunter.events.values import Demand, Reason, UserName

EVEN_WHEN_EMPTY = "even when empty: "
"""With this begins the detail of a refusal that is not for too few GPUs; the reason follows."""


@fact
class Refusal:
    """Why a job can never run: what it needs, and the most there is."""

    reason: Reason
    needed: int
    most: int
    detail: str


_UNKNOWN = Refusal(Reason.infeasible, 0, 0, "not tried yet")


class Admission:
    """Tries each class of demand once on the empty cluster, and remembers the answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answers: dict[Demand, Refusal | None] = {}
        self._version = cluster.version

    def refusal(self, demand: Demand, user: UserName, queue: Queue) -> Refusal | None:
        """Return why such a job can never run, or None if it can."""
        if queue.users and user not in queue.users:
            return Refusal(Reason.refused, 0, 0, f"user {user!r} may not use queue {queue.name}")
        if queue.quota_gpus is not None and demand.gpus > queue.quota_gpus:
            detail = f"the quota of queue {queue.name}"
            return Refusal(Reason.infeasible, demand.gpus, queue.quota_gpus, detail)
        if self._version != self._cluster.version:
            self._version = self._cluster.version
            self._answers.clear()  # it is another cluster
        answer = self._answers.get(demand, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self._answers[demand] = self._try(demand)
        return answer

    def _try(self, demand: Demand) -> Refusal | None:
        pools = [
            pool
            for pool in self._empty_pools()
            if not demand.gpus or not demand.gpu_types or pool.gpu_type in demand.gpu_types
        ]
        if not demand.gpus and not demand.cpus_milli:
            return Refusal(Reason.infeasible, 0, 0, "a job must ask for GPUs or CPUs")
        if not pools:
            wanted = " or ".join(demand.gpu_types)
            return Refusal(Reason.infeasible, demand.gpus, 0, f"no node has GPUs of type {wanted}")
        most = max(pool.gpus_free for pool in pools)
        if demand.gpus > most:
            return Refusal(Reason.infeasible, demand.gpus, most, "GPUs of one type in the cluster")
        whys = [place(Consolidated(), pool, demand) for pool in pools]
        if any(not isinstance(why, Reason) for why in whys):
            return None
        return Refusal(Reason.infeasible, demand.gpus, most, f"{EVEN_WHEN_EMPTY}{whys[0]}")

    def _empty_pools(self) -> list[Pool]:
        pools: dict[str, Pool] = {}
        for server in self._cluster.servers.values():
            where = server.configuration
            if server.health is Health.removed:
                continue
            name = where.gpu_type if where.gpus else CPU_POOL
            pool = pools.setdefault(name, Pool(name))
            pool.add(Server(server.name, where, len(pool.servers)))
        return list(pools.values())
