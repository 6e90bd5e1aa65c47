"""The cluster as it would be after the changes drafted so far: what is free, and who finds a place.

A draft changes the pools themselves and, once it is closed, has what it touched indexed anew. So
opening one, and going back in it, cost what was touched, however large the cluster is; and nothing
of it outlives the planning.
"""

from collections.abc import Iterable

from shunter.core.cluster import CPU_POOL
from shunter.core.cluster.pool import Before
from shunter.core.placement import Placement, find
from shunter.core.view import View
from shunter.events.values.allocation import Share
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason

__all__ = ["Draft"]


class Draft:
    """A context in which GPUs, CPUs and memory can be given back and taken at will.

    Only one may be open at a time, and nothing else may be folded or planned meanwhile.
    """

    __slots__ = ("_cluster", "_journal", "pools")

    def __init__(self, view: View) -> None:
        self.pools = view.pools
        self._cluster = view.cluster
        self._journal: list[Before] = []

    def __enter__(self) -> "Draft":
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.look_again([touched[0].servers[touched[1]] for touched in self._journal])
        self._journal.clear()

    @property
    def mark(self) -> int:
        """How much was changed up to now: a point to go back to."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo all that was changed since a mark."""
        while len(self._journal) > mark:
            pool, position, free, cpus_milli, memory_mb = self._journal.pop()
            pool.set_free(position, free)
            pool.cpus_free[position] = cpus_milli
            pool.memory_free[position] = memory_mb

    def place(self, placement: Placement, name: str, demand: Demand) -> tuple[Share, ...] | Reason:
        """Take what a demand needs of one pool; return the shares, or why not."""
        pool = self.pools[name]
        found = find(placement, pool, demand)
        if isinstance(found, Reason):
            return found
        shares: tuple[Share, ...] = ()
        for position, share in found:
            self._journal.append(pool.take(position, share))
            shares += (share,)
        return shares

    def place_without_gpus(
        self, placement: Placement, demand: Demand
    ) -> tuple[Share, ...] | Reason:
        """Do the same for a CPU job, on a server without GPUs if there is room."""
        shares: tuple[Share, ...] | Reason = Reason.cpu_or_memory_short
        for name in (CPU_POOL, *(name for name in self.pools if name != CPU_POOL)):
            if name in self.pools:
                shares = self.place(placement, name, demand)
                if not isinstance(shares, Reason):
                    return shares
        return shares

    def give(self, share: Share) -> None:
        """Free what a share holds, as far as its server takes jobs."""
        server = self._cluster.servers[share.node]
        if server.is_up:
            pool = self.pools[server.configuration.gpu_type]
            self._journal.append(pool.give(server, share))

    def take(self, share: Share) -> None:
        """Take what a share needs, whether it is free or not, if its server takes jobs."""
        server = self._cluster.servers[share.node]
        if server.is_up:
            pool = self.pools[server.configuration.gpu_type]
            self._journal.append(pool.take(server.position, share))

    def take_back(self, shares: Iterable[Share]) -> bool:
        """Take again what was given, if all of it is free; say whether it was."""
        servers = self._cluster.servers
        given = [
            Share(
                share.node,
                share.gpu_mask & ~servers[share.node].quarantined,
                share.cpus_milli,
                share.memory_mb,
            )
            for share in shares
            if servers[share.node].is_up
        ]
        if not all(self.has(share) for share in given):
            return False
        for share in given:
            self.take(share)
        return True

    def has(self, *shares: Share) -> bool:
        """Say whether some shares of the same GPUs of one server are free."""
        server, mask = self._cluster.servers[shares[0].node], shares[0].gpu_mask
        pool, position = self.pools[server.configuration.gpu_type], server.position
        return (
            server.is_up
            and not mask & ~pool.free[position]
            and sum(share.cpus_milli for share in shares) <= pool.cpus_free[position]
            and sum(share.memory_mb for share in shares) <= pool.memory_free[position]
        )
