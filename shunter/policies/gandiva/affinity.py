"""Reactive placement by the affinity of servers (Gandiva, OSDI 2018, 3.2).

The affinity of a server is the gang size of its jobs: that of the first one that came while it was
empty. So equal gangs meet, and find GPUs that they can share in turns. The order of preference:

1. servers of the job's own affinity with room for it, the least loaded first;
2. servers without affinity that have its GPUs free: it sets theirs;
3. any servers with free GPUs, maybe several: the gang is then spread;
4. the least loaded server of its affinity, on which it takes turns with others, up to a height;
5. otherwise it waits.

A gang that no server could hold takes turns with others of its size on several (rule 4 with as few
servers as it needs). Another one that is spread takes none: it is brought to one server first.

When GPUs become free on a server on which others have several owners, the job that came last to
those gets them for its own, without an interruption ("reduce the height": same server first); live,
the last that can work on others than it was launched with.

The load of a server is M / N, the GPUs its jobs asked for over those it has; its height is that,
rounded up to a whole number (so a height above 1 means turns). "Room" is M + g <= N, since a test
of the height would accept empty servers only. Servers without GPUs, whose units are CPUs, get
nobody.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shunter.core import Job, Server, View, gpus_of
from shunter.core.planning import Consolidated, Draft, accepts, groups_within, is_as_near, pick_gpus
from shunter.events import HEIGHT_MOST, Allocation, NodeName, Reason, Share, Sharing, gpu_numbers


class Owners:
    """The GPUs that jobs were given, by server.

    Args:
        servers: those that count.
    """

    def __init__(self, servers: Mapping[NodeName, Server]) -> None:
        self._asked = dict.fromkeys(servers, 0)
        self._homes: dict[NodeName, list[int]] = {}

    def count(self, allocation: Allocation, times: int = 1) -> None:
        """Count what a job was given, or, -1 times, what it gives up."""
        for share in allocation.shares:
            if share.node in self._asked and share.gpu_mask:
                self._asked[share.node] += share.gpus * times
                if allocation.sharing is Sharing.sliced:
                    homes = self._homes.setdefault(share.node, [])
                    (homes.append if times > 0 else homes.remove)(share.gpu_mask)

    def rehome(self, node: NodeName, before: int, mask: int) -> None:
        """Note that a job has other GPUs of a server, by mask."""
        self._homes[node].remove(before)
        self._homes[node].append(mask)

    def of(self, node: NodeName) -> Counter[int]:
        """Return how many jobs take turns on each GPU of a server."""
        return Counter(gpu for mask in self._homes.get(node, ()) for gpu in gpu_numbers(mask))

    def load(self, server: Server, more: int = 0) -> float:
        """Return the GPUs asked for of a server, and so many more, over its own."""
        return (self._asked[server.name] + more) / server.gpus_up

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""
        return sum(map(int.bit_count, self._homes.get(node, ()))) - len(self.of(node))

    @property
    def take_turns(self) -> bool:
        """Whether any GPU has several owners, who take turns on it."""
        return any(self.surplus_on(node) > 0 for node in self._homes)


_ANYWHERE = Consolidated()


@dataclass(frozen=True)
class FoundPlace:
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
        self._view = view
        self._draft = draft
        self._affinity = dict(affinity)
        self._height_most = height_most
        self._short = Reason.no_capacity
        self._is_too_high = False
        self._servers = {
            server.name: server
            for pool in view.pools.values()
            for server in pool.servers
            if server.gpus_up and not server.configuration.unit_cpus_milli
        }
        self._owners = Owners(self._servers)
        for job in view.jobs.values():
            self._owners.count(job.allocation)

    def place(self, job: Job) -> FoundPlace | Reason:
        """Take a place for a job, or return why it has to wait."""
        self._short, self._is_too_high = Reason.no_capacity, False
        fitting = self.fitting(job)
        choice = self._together(job, fitting)
        if choice is not None:
            return choice
        is_wide = all(server.configuration.gpus < job.spec.gpus for server in fitting)
        spread = self._spread(job, fitting) or self._anywhere(job, fitting)
        if spread:
            return self._taken(job, spread, 3, takes_turns=is_wide)
        if is_wide:
            found = self._wide_in_turns(job, fitting)
        elif job.demand.accepts_split((job.spec.gpus,)):
            found = self._in_turns(job, fitting)
        else:
            found = None
        return self._short if found is None else found

    @property
    def detail(self) -> str:
        """What the last job that was not placed waits for, if not for room alone."""
        return HEIGHT_MOST if self._is_too_high and self._short is Reason.no_capacity else ""

    def elsewhere(self, job: Job, is_wanted: Callable[[Server], bool]) -> Allocation | None:
        """Move a job to free GPUs of one other server, if there are such; return them."""
        here = {share.node for share in job.allocation.shares}
        fitting = [
            server
            for server in self._servers.values()
            if server.name not in here and accepts(job, server) and is_wanted(server)
        ]
        mark = self._draft.mark
        self._draft.free(job)
        choice = self._together(job, fitting)
        if choice is None:
            self._draft.rollback(mark)
            return None
        self._owners.count(job.allocation, -1)
        return choice.allocation

    def back(self, job: Job, origin: Allocation) -> bool:
        """Move a job back to where it was, if that is free; say whether it is."""
        mark = self._draft.mark
        self._draft.free(job)
        opened = self._draft.unopened(origin)
        if not all(self._draft.has(share) for share in opened if share.gpu_mask):
            self._draft.rollback(mark)
            return False
        self._draft.allocate(job, origin)
        self.moved(job, origin)
        return True

    @property
    def servers(self) -> Mapping[NodeName, Server]:
        """The servers with GPUs that take jobs."""
        return self._servers

    def free_on(self, node: NodeName) -> int:
        """Return how many GPUs of a server nobody was given."""
        return self._free(self._servers[node]).bit_count()

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""
        return self._owners.surplus_on(node)

    def place_on(self, job: Job, server: Server) -> FoundPlace | None:
        """Take a place for a whole gang on one server; None: it has none."""
        share = self._nearest(job, server, self._free(server))
        if share is None or not job.demand.accepts_split((job.spec.gpus,)):
            return None
        label = self._affinity.get(server.name)
        rule = 2 if label is None else 1 if label == job.submitted_spec.gpus else 3
        return self._taken(job, (share,), rule)

    def moved(self, job: Job, allocation: Allocation) -> None:
        """Note that a job has other GPUs of one server, which the draft has given it."""
        self._owners.count(job.allocation, -1)
        self._owners.count(allocation)
        for share in allocation.shares:
            self._affinity.setdefault(share.node, job.submitted_spec.gpus)

    def is_alone(self, job: Job) -> bool:
        """Say whether nobody takes turns with a job on its GPUs."""
        shares = job.allocation.shares
        if job.allocation.sharing is Sharing.exclusive:
            return True
        return all(self._owners.of(one.node)[gpu] < 2 for one in shares for _, gpu in gpus_of(one))

    @property
    def takes_turns(self) -> bool:
        """Whether any GPU has several owners, who take turns on it."""
        return self._owners.take_turns

    def fitting(self, job: Job) -> list[Server]:
        """Return those whose GPUs a job accepts."""
        return [server for server in self._servers.values() if accepts(job, server)]

    def free_for(self, job: Job) -> int:
        """Return how many GPUs are free that a job accepts."""
        return sum(
            self._free(server).bit_count()
            for server in self._servers.values()
            if accepts(job, server)
        )

    def rehomed(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Allocation]]:
        """Yield which jobs get free GPUs of their servers for their own; the last first."""
        for job in sorted(jobs, key=lambda job: -job.ordinal):
            before = job.allocation
            if before.sharing is not Sharing.sliced or job.end_cause:
                continue
            if before.is_spread or not self._view.can_rehome(job):
                continue
            (share,) = before.shares
            server = self._servers.get(share.node)
            owners = self._owners.of(share.node)
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
            self._owners.rehome(share.node, share.gpu_mask, mask)
            yield job, allocation

    def _together(self, job: Job, fitting: Sequence[Server]) -> FoundPlace | None:
        """Take free GPUs of one server: of the job's own affinity first, then of none."""
        if not job.demand.accepts_split((job.spec.gpus,)):
            return None
        blank = (server for server in fitting if server.name not in self._affinity)
        for rule, servers in ((1, self._equal(job, fitting)), (2, blank)):
            for server in servers:
                share = self._nearest(job, server, self._free(server))
                if share is not None:
                    return self._taken(job, (share,), rule)
        return None

    def _equal(self, job: Job, fitting: Sequence[Server]) -> list[Server]:
        """Return the servers of a job's own affinity, the least loaded first."""
        label = job.submitted_spec.gpus
        equal = [one for one in fitting if self._affinity.get(one.name) == label]
        return sorted(equal, key=lambda server: (self._owners.load(server), server.position))

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

    def _in_turns(self, job: Job, fitting: Sequence[Server]) -> FoundPlace | None:
        """Put a job on top of others of its size, where its GPUs have the fewest owners."""
        gang = job.spec.gpus
        for server in self._equal(job, fitting):
            if self._is_beyond(server, gang):
                continue  # one with more GPUs may be higher, and no higher then
            share = self._in_turns_on(job, server)
            if share is not None:
                return self._taken(job, (share,), 4)
        return None

    def _wide_in_turns(self, job: Job, fitting: Sequence[Server]) -> FoundPlace | None:
        """Put a gang that no server could hold on top of others of its size, on several."""
        by_type: dict[str, list[Server]] = {}
        for server in self._equal(job, fitting):
            by_type.setdefault(server.configuration.gpu_type, []).append(server)
        for servers in by_type.values():
            shares, left = list[Share](), job.spec.gpus
            for server in servers:
                owners = self._owners.of(server.name)
                owned = {gpu: owners[gpu] for gpu in (*owners, *gpu_numbers(self._free(server)))}
                chosen = sorted(owned, key=lambda gpu: (owned[gpu], gpu))[:left]
                if not chosen or self._is_beyond(server, len(chosen)):
                    continue
                share = self._share(job, server, sum(1 << gpu for gpu in chosen))
                if share is not None:
                    shares.append(share)
                    left -= share.gpus
            if not left and self._accepts_spread(job, shares):
                return self._taken(job, tuple(shares), 4, takes_turns=True)
        return None

    def _is_beyond(self, server: Server, gpus: int) -> bool:
        """Say whether a server would become too high by so many GPUs more, and note it."""
        height = self._owners.load(server, gpus)
        is_beyond = self._height_most is not None and height > self._height_most
        self._is_too_high = self._is_too_high or is_beyond
        return is_beyond

    def _in_turns_on(self, job: Job, server: Server) -> Share | None:
        """Return a share of the GPUs of a server that have the fewest owners.

        If those are not near enough together, then of one of the groups that are.
        """
        owners, gang = self._owners.of(server.name), job.spec.gpus
        chosen = sorted(owners, key=lambda gpu: (owners[gpu], gpu))[:gang]
        share = self._nearest(job, server, sum(1 << gpu for gpu in chosen))
        if share is not None:
            return share
        open_to_turns = self._free(server) | sum(1 << gpu for gpu in owners)
        found: list[tuple[int, int]] = []
        for group in groups_within(server.configuration, job.demand.max_level):
            within = gpu_numbers(group & open_to_turns)
            gpus = sorted(within, key=lambda gpu: (owners[gpu], gpu))[:gang]
            if len(gpus) == gang:
                found.append((sum(owners[gpu] for gpu in gpus), sum(1 << gpu for gpu in gpus)))
        return self._share(job, server, min(found)[1]) if found else None

    def _spread(self, job: Job, fitting: list[Server]) -> tuple[Share, ...]:
        """Return free GPUs of any servers of one type, of as few as possible.

        Not of a job that takes no gang over several servers.
        """
        by_type: dict[str, list[Server]] = {}
        for server in fitting:
            by_type.setdefault(server.configuration.gpu_type, []).append(server)
        for servers in by_type.values():
            servers.sort(key=lambda server: (-self._free(server).bit_count(), server.position))
            any_split = () if job.demand.shapes else (self._pieces(job.spec.gpus, servers),)
            for pieces in job.demand.splits or any_split:
                shares = self._shares(job, servers, sorted(pieces, reverse=True))
                if shares and self._accepts_spread(job, shares):
                    return tuple(shares)
        return ()

    def _anywhere(self, job: Job, fitting: Sequence[Server]) -> tuple[Share, ...]:
        """Return free GPUs wherever a gang's contract, CPUs and memory leave it any.

        Every split is tried, which is only needed where taking the emptiest servers was no use.
        """
        demand = job.demand
        if demand.max_level is None and not (
            demand.shapes or demand.cpus_milli or demand.memory_mb
        ):
            return ()
        for gpu_type in dict.fromkeys(server.configuration.gpu_type for server in fitting):
            mark = self._draft.mark
            shares = self._draft.place(_ANYWHERE, gpu_type, demand)
            self._draft.rollback(mark)
            if isinstance(shares, tuple):
                return shares
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
        if is_near and job.demand.accepts_split([share.gpus for share in shares]):
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

    def _taken(
        self, job: Job, shares: tuple[Share, ...], rule: int, *, takes_turns: bool = False
    ) -> FoundPlace:
        is_sliced = takes_turns or len(shares) == 1
        allocation = Allocation(shares, Sharing.sliced if is_sliced else Sharing.exclusive)
        self._draft.allocate(job, allocation)
        for share in shares:
            self._affinity.setdefault(share.node, job.submitted_spec.gpus)
        self._owners.count(allocation)
        height = max(self._owners.load(self._servers[share.node]) for share in shares)
        return FoundPlace(allocation, rule, height)

    def _free(self, server: Server) -> int:
        """Return the GPUs of a server that nobody was given."""
        return self._draft.pools[server.configuration.gpu_type].free[server.position]
