"""Reactive placement by the affinity of servers (Gandiva, OSDI 2018, 3.2).

The affinity of a server is the gang size of its jobs: that of the first one that came while it was
empty. So equal gangs meet, and find GPUs that they can share in turns. The order of preference:

1. servers of the job's own affinity with room for it, the least loaded first;
2. servers without affinity that have its GPUs free: it sets theirs;
3. any servers with free GPUs, maybe several: the gang is then spread, and takes no turns;
4. the least loaded server of its affinity, on which it takes turns with others, up to a height;
5. otherwise it waits.

When GPUs become free on a server on which others have several owners, the job that came last to
those gets them for its own, without an interruption ("reduce the height": same server first).

The load of a server is M / N, the GPUs its jobs asked for over those it has; its height is that,
rounded up to a whole number (so a height above 1 means turns). "Room" is M + g <= N, since a test
of the height would accept empty servers only. Servers without GPUs, whose units are CPUs, get
nobody.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shunter.core.cluster import Server
from shunter.core.cluster.tenants import gpus_of
from shunter.core.placement.gpus import pick_gpus
from shunter.core.planning.approver import is_as_near
from shunter.core.planning.draft import Draft
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import NodeName
from shunter.events.values.reasons import Reason

__all__ = ["Choice", "Placer"]


@dataclass(frozen=True)
class Choice:
    """Where a job goes, by which of the five rules, and how high its server is then."""

    allocation: Allocation
    rule: int
    height: float


class Placer:
    """Finds places on a draft, one job after another.

    Args:
        view: the cluster and the jobs.
        draft: what is given away up to now.
        affinity: the gang size of each server that has one.
        height_most: how high a server may become; None: any height.
    """

    def __init__(
        self,
        view: View,
        draft: Draft,
        affinity: Mapping[NodeName, int],
        height_most: int | None,
    ) -> None:
        self._draft = draft
        self._affinity = dict(affinity)
        self._height_most = height_most
        self._short = Reason.no_capacity
        self._servers = {
            server.name: server
            for pool in view.pools.values()
            for server in pool.servers
            if server.gpus_up and not server.configuration.unit_cpus_milli
        }
        self._asked = dict.fromkeys(self._servers, 0)
        self._homes: dict[NodeName, list[int]] = {}
        for job in view.jobs.values():
            self._count(job.allocation)

    def place(self, job: Job) -> Choice | Reason:
        """Take a place for a job, or return why it has to wait."""
        self._short = Reason.no_capacity
        gang = job.spec.gpus
        fitting = [server for server in self._servers.values() if _accepts(job, server)]
        equal = [server for server in fitting if self._affinity.get(server.name) == gang]
        equal.sort(key=lambda server: (self._load(server), server.position))
        blank = (server for server in fitting if server.name not in self._affinity)
        if _may_be_split(job, (gang,)):
            for rule, servers in ((1, equal), (2, blank)):
                for server in servers:
                    share = self._nearest(job, server, self._free(server))
                    if share is not None:
                        return self._taken(job, (share,), rule)
        spread = self._spread(job, fitting)
        if spread:
            return self._taken(job, spread, 3)
        found = self._in_turns(job, equal) if _may_be_split(job, (gang,)) else None
        return self._short if found is None else found

    def free_for(self, job: Job) -> int:
        """Return how many GPUs are free that a job accepts."""
        return sum(
            self._free(server).bit_count()
            for server in self._servers.values()
            if _accepts(job, server)
        )

    def _nearest(self, job: Job, server: Server, free: int) -> Share | None:
        """Return a share of the GPUs that are nearest together, if near enough."""
        gang = job.spec.gpus
        if free.bit_count() < gang:
            return None
        mask = pick_gpus(server.configuration, free, gang, job.demand.max_level)
        if mask:
            return self._share(job, server, mask)
        self._short = Reason.locality_not_met
        return None

    def rehomed(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Allocation]]:
        """Yield which jobs get free GPUs of their servers for their own; the last first."""
        for job in sorted(jobs, key=lambda job: -job.ordinal):
            before = job.allocation
            if before.sharing is not Sharing.sliced or job.end_cause:
                continue
            (share,) = before.shares
            server = self._servers.get(share.node)
            owners = self._owners(share.node)
            if server is None or any(owners[gpu] < 2 for _, gpu in gpus_of(share)):
                continue
            free = self._free(server)
            if free.bit_count() < share.gpus:
                continue
            mask = pick_gpus(server.configuration, free, share.gpus)
            target = Share(share.node, mask, share.cpus_milli, share.memory_mb)
            allocation = Allocation((target,), Sharing.sliced)
            self._draft.free(job)
            self._draft.allocate(job, allocation)
            self._homes[share.node].remove(share.gpu_mask)
            self._homes[share.node].append(mask)
            yield job, allocation

    def _owners(self, node: NodeName) -> Counter[int]:
        """Return how many jobs take turns on each GPU of a server."""
        return Counter(gpu for mask in self._homes.get(node, ()) for gpu in _bits(mask))

    def _in_turns(self, job: Job, equal: list[Server]) -> Choice | None:
        """Put a job on top of others of its size, where its GPUs have the fewest owners."""
        gang = job.spec.gpus
        for server in equal:
            height = (self._asked[server.name] + gang) / server.gpus_up
            if self._height_most is not None and height > self._height_most:
                return None  # the others are as high
            owners = self._owners(server.name)
            chosen = sorted(owners, key=lambda gpu: (owners[gpu], gpu))[:gang]
            share = self._nearest(job, server, sum(1 << gpu for gpu in chosen))
            if share is not None:
                return self._taken(job, (share,), 4)
        return None

    def _spread(self, job: Job, fitting: list[Server]) -> tuple[Share, ...]:
        """Return free GPUs of any servers of one type, of as few as possible.

        Not of a job that takes no gang over several servers.
        """
        by_type: dict[str, list[Server]] = {}
        for server in fitting:
            by_type.setdefault(server.configuration.gpu_type, []).append(server)
        for servers in by_type.values():
            servers.sort(key=lambda server: (-self._free(server).bit_count(), server.position))
            for pieces in job.demand.shapes or (self._pieces(job.spec.gpus, servers),):
                shares = self._shares(job, servers, sorted(pieces, reverse=True))
                if shares and self._accepts_spread(job, shares):
                    return tuple(shares)
        return ()

    def _pieces(self, gang: int, servers: list[Server]) -> tuple[int, ...]:
        """Return how many GPUs of each server make a gang, in the order of servers."""
        pieces, left = [], gang
        for server in servers:
            part = min(left, self._free(server).bit_count())
            if part:
                pieces.append(part)
                left -= part
        return () if left else tuple(pieces)

    def _shares(self, job: Job, servers: list[Server], pieces: list[int]) -> list[Share]:
        """Return so many GPUs of as many servers, of those that have CPUs and memory too."""
        shares = list[Share]()
        for server in servers:
            if len(shares) == len(pieces):
                break
            free, part = self._free(server), pieces[len(shares)]
            if part <= free.bit_count():
                share = self._share(job, server, pick_gpus(server.configuration, free, part))
                if share is not None:
                    shares.append(share)
        return shares if len(shares) == len(pieces) else []

    def _accepts_spread(self, job: Job, shares: list[Share]) -> bool:
        most = job.demand.max_level
        nodes = {share.node: self._servers[share.node].configuration for share in shares}
        is_near = most is None or is_as_near(Allocation(tuple(shares)), nodes, most)
        if is_near and _may_be_split(job, sorted(share.gpus for share in shares)):
            return True
        is_kept = is_near and job.demand.keeps_split
        self._short = Reason.split_kept if is_kept else Reason.locality_not_met
        return False

    def _share(self, job: Job, server: Server, mask: int) -> Share | None:
        """Return a share with CPUs and memory for its GPUs, if the server has them."""
        part = mask.bit_count()
        spec = job.spec
        cpus_milli = -(-spec.cpus_milli * part // spec.gpus)
        memory_mb = -(-spec.memory_mb * part // spec.gpus)
        share = Share(server.name, mask, cpus_milli, memory_mb)
        if self._draft.has_beside(share):
            return share
        self._short = Reason.cpu_or_memory_short
        return None

    def _taken(self, job: Job, shares: tuple[Share, ...], rule: int) -> Choice:
        sharing = Sharing.sliced if len(shares) == 1 else Sharing.exclusive
        allocation = Allocation(shares, sharing)
        self._draft.allocate(job, allocation)
        for share in shares:
            self._affinity.setdefault(share.node, job.spec.gpus)
        self._count(allocation)
        height = max(self._load(self._servers[share.node]) for share in shares)
        return Choice(allocation, rule, height)

    def _count(self, allocation: Allocation) -> None:
        for share in allocation.shares:
            if share.node in self._asked and share.gpu_mask:
                self._asked[share.node] += share.gpus
                if allocation.sharing is Sharing.sliced:
                    self._homes.setdefault(share.node, []).append(share.gpu_mask)

    def _load(self, server: Server) -> float:
        return self._asked[server.name] / server.gpus_up

    def _free(self, server: Server) -> int:
        """Return the GPUs of a server that nobody was given."""
        pool = self._draft.pools[server.configuration.gpu_type]
        return pool.free[server.position]


def _may_be_split(job: Job, pieces: Sequence[int]) -> bool:
    """Say whether a job accepts so many GPUs on each server, in ascending order."""
    shapes = job.demand.shapes
    return not shapes or list(pieces) in [sorted(shape) for shape in shapes]


def _accepts(job: Job, server: Server) -> bool:
    types = job.spec.gpu_types
    return not types or server.configuration.gpu_type in types


def _bits(mask: int) -> Iterator[int]:
    return (gpu for _, gpu in gpus_of(Share(NodeName(""), mask)))
