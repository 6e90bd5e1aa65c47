"""Servers, their GPUs, and the index that placement searches.

    Cluster ──▶ Pool (the servers of one GPU type) ──▶ Server
       │          └──▶ Nearness: where GPUs are free near together
       └──▶ Tenants: who shares which GPUs

Read `Server`, then `Pool`, then `Cluster`, which applies allocations and keeps all of them in step.
"""

from bisect import insort
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from shunter.errors import IllegalEventError
from shunter.events import (
    BELOW_SERVER,
    DERIVED,
    Allocation,
    ConfigurationSet,
    GpuType,
    JobId,
    Level,
    NodeName,
    Resources,
    Share,
    Sharing,
)


class Health(StrEnum):
    """Whether a server takes new jobs."""

    up = "up"
    unreachable = "unreachable"
    lost = "lost"
    removed = "removed"


_UP = Health.up  # members are slow to look up


@dataclass(slots=True)
class Server:
    """A server of the cluster.

    Bit i of a mask is GPU i. `decided` are the GPUs given to somebody by the last decisions,
    `held` those on which somebody still runs; the two differ while a job is being suspended.
    `quarantined` are the GPUs that misbehaved (why: `quarantine_causes`), `taken` those that others
    than this scheduler hold, with so many CPUs and so much memory. `beside_free` are the CPUs and
    memory that neither they hold nor anybody was given; below 0 where they have taken what was
    given away.
    """

    name: NodeName
    configuration: ConfigurationSet
    position: int
    health: Health = Health.up
    drained: bool = False
    quarantined: int = 0
    taken: int = 0
    taken_cpus_milli: int = 0
    taken_memory_mb: int = 0
    decided: int = field(default=0, metadata=DERIVED)
    held: int = field(default=0, metadata=DERIVED)
    beside_free: Resources = field(default_factory=Resources, metadata=DERIVED)
    quarantine_causes: dict[int, str] = field(default_factory=dict, compare=False, metadata=DERIVED)

    def __post_init__(self) -> None:
        self.beside_free = self.configuration.beside - self.taken_beside

    @property
    def is_up(self) -> bool:
        """Whether new jobs may be placed here."""
        return self.health is _UP and not self.drained

    @property
    def gpus_up(self) -> int:
        """How many of its GPUs work and take jobs, free or not."""
        return (self.all_gpus & ~self.unavailable).bit_count() if self.is_up else 0

    @property
    def unavailable(self) -> int:
        """The mask of the GPUs that no job is given: quarantined or taken."""
        return self.quarantined | self.taken

    @property
    def taken_beside(self) -> Resources:
        """The CPUs and memory that others than this scheduler hold."""
        return Resources(0, self.taken_cpus_milli, self.taken_memory_mb)

    @property
    def is_partly_taken(self) -> bool:
        """Whether others than this scheduler hold anything of it."""
        return bool(self.taken or self.taken_cpus_milli or self.taken_memory_mb)

    def take(self, gpu_mask: int, beside: Resources) -> None:
        """Set what others than this scheduler hold: GPUs, CPUs and memory."""
        self.beside_free = self.beside_free + self.taken_beside - beside
        self.taken = gpu_mask
        self.taken_cpus_milli, self.taken_memory_mb = beside.cpus_milli, beside.memory_mb

    @property
    def all_gpus(self) -> int:
        """The mask of all its GPUs."""
        return (1 << self.configuration.gpus) - 1

    @property
    def working_gpus(self) -> int:
        """The mask of the GPUs that take jobs, given away or not; 0: it is not up."""
        return self.all_gpus & ~self.unavailable if self.health is _UP else 0

    def lacks(self, share: Share) -> bool:
        """Say whether it has not all the GPUs of a share, or may not give them away."""
        return bool(share.gpu_mask >> self.configuration.gpus or share.gpu_mask & self.unavailable)

    def working(self, share: Share) -> Share:
        """Return a share without the GPUs that take no jobs any more."""
        mask = share.gpu_mask & ~self.unavailable
        return Share(share.node, mask, share.cpus_milli, share.memory_mb)

    @property
    def offered(self) -> int:
        """The mask of the GPUs that are free for new jobs."""
        if self.health is not _UP or self.drained:
            return 0
        return (1 << self.configuration.gpus) - 1 & ~(self.decided | self.quarantined | self.taken)


# Where GPUs are free near together. As in a pool, each count has one integer with one bit a server
# (Xiao, SOSP-SRC 2017). It is built once a placement asks for it.

CHANGES_MOST: Final = 1 << 16
"""Of servers of 8 GPUs all changes are remembered; of larger ones the memory begins anew."""


@dataclass(slots=True)
class Area:
    """The servers of a rack or domain: as bits, and how many have how many free."""

    bits: int = 0
    counts: list[int] = field(default_factory=list)
    free: int = 0

    def fewest(self, gpus: int) -> int:
        """Return on how few of its servers so many GPUs are free; 0: it has not so many."""
        if gpus > self.free:
            return 0
        servers = 0
        for each in range(len(self.counts) - 1, 0, -1):
            count = self.counts[each]
            if count * each >= gpus:
                return servers - -gpus // each
            servers += count
            gpus -= count * each
        return 0


class Nearness:
    """Where the free GPUs of a pool's servers are.

    `levels` are those below the server that any of them describes, the nearest first; `tables` has
    for each one, by a number of GPUs, the servers of which some group has just so many free. On a
    server that does not describe a level its groups are those of the next one that it does; one
    that describes no NVLink has no two GPUs joined. Servers whose GPUs changed are `stale`, and
    indexed anew at the next question.
    """

    def __init__(self, servers: Sequence[Server], free: Sequence[int]) -> None:
        sets = dict.fromkeys(server.configuration for server in servers)
        described = {groups.level for where in sets for groups in where.levels}
        most = max((where.gpus for where in sets), default=0)
        self.levels = tuple(level for level in BELOW_SERVER if level in described)
        self.tables = [[0] * (most + 1) for _ in self.levels]
        self._racks: dict[str, Area] = {}
        self._domains: dict[str, Area] = {}
        flips = {where: _Flips(where, self.levels) for where in sets}
        self.stale: dict[int, None] = {}
        self._stale_areas: dict[int, None] = {}
        self._known = [*free]
        self._counted = [mask.bit_count() for mask in free]
        self._flips = [flips[server.configuration] for server in servers]
        self._areas: list[tuple[Area, ...]] = []
        for position, server in enumerate(servers):
            self._add(position, server.configuration, free[position], most)

    def _add(self, position: int, where: ConfigurationSet, free: int, most: int) -> None:
        bit = 1 << position
        for level, count in self._flips[position][-1, free]:
            self.tables[level][count] |= bit
        mine = []
        for areas, name in ((self._racks, where.rack), (self._domains, where.domain)):
            if name:
                area = areas.setdefault(name, Area(counts=[0] * (most + 1)))
                area.bits |= bit
                area.counts[free.bit_count()] += 1
                area.free += free.bit_count()
                mine.append(area)
        self._areas.append(tuple(mine))

    def refresh(self, free: Sequence[int]) -> None:
        """Bring the tables up to date with what servers have free."""
        known, all_flips, tables = self._known, self._flips, self.tables
        for position in self.stale:
            before, after = known[position], free[position]
            if before != after:
                known[position] = after
                bit = 1 << position
                for level, count in all_flips[position][before, after]:
                    tables[level][count] ^= bit
        if self._racks or self._domains:
            self._stale_areas.update(self.stale)
        self.stale.clear()

    @property
    def racks(self) -> dict[str, Area]:
        """The racks that are named, in the order in which servers of them joined."""
        self._refresh_areas()
        return self._racks

    @property
    def domains(self) -> dict[str, Area]:
        """The network domains, in the same way."""
        self._refresh_areas()
        return self._domains

    def _refresh_areas(self) -> None:
        """Bring racks and domains up to date; only gangs over servers ask for them."""
        for position in self._stale_areas:
            had, has = self._counted[position], self._known[position].bit_count()
            if had != has:
                self._counted[position] = has
                for area in self._areas[position]:
                    area.counts[had] -= 1
                    area.counts[has] += 1
                    area.free += has - had
        self._stale_areas.clear()


class _Flips(dict[tuple[int, int], tuple[tuple[int, int], ...]]):
    """Where a server's bit flips, by what it had free and has: tables and counts.

    None of its tables has a server that had -1 free: it is new.
    """

    def __init__(self, where: ConfigurationSet, levels: Sequence[Level]) -> None:
        super().__init__()
        self._groups = [_groups(where, level) for level in levels]

    def __missing__(self, change: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        if len(self) > CHANGES_MOST:
            self.clear()
        before, after = change
        found = tuple(
            (level, count)
            for level, masks in enumerate(self._groups)
            for count in sorted(_counts(masks, before) ^ _counts(masks, after))
        )
        self[change] = found
        return found


def _counts(masks: tuple[int, ...], free: int) -> set[int]:
    """Return how many GPUs groups have free, each number once."""
    return set() if free < 0 else {(mask & free).bit_count() for mask in masks}


def _groups(where: ConfigurationSet, level: Level) -> tuple[int, ...]:
    """Return a server's groups of GPUs at a level, or the next that it describes."""
    if level is Level.nvlink:
        return where.joined or tuple(1 << gpu for gpu in range(where.gpus))
    at = BELOW_SERVER.index(level)
    masks = (groups.masks for groups in where.levels if groups.level in BELOW_SERVER[at:])
    return next(masks, ((1 << where.gpus) - 1,))


# A bucket is an integer with one bit a server, so "the first server with at least three free GPUs"
# is a few operations on integers, whatever the size of the cluster (Xiao, SOSP-SRC 2017).

Before: TypeAlias = "tuple[Pool, int, int, int, int]"
"""A server of a pool by its position, and the GPUs, CPUs and memory that were free there."""


@dataclass(slots=True)
class Pool:
    """Free GPUs of one type, as bitmaps.

    `free[i]` is the mask of server i, `buckets[n]` the servers with n free. `racks` and `domains`
    give the servers of each as bits, like the buckets. `unit_cpus_milli` are the CPUs that go with
    each unit where its servers have units of CPU in place of GPUs, else 0.
    """

    gpu_type: str
    servers: list[Server] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    buckets: list[int] = field(default_factory=lambda: [0])
    gpus_free: int = 0
    gpus_up: int = 0
    up: list[int] = field(default_factory=list)
    cpus_free: list[int] = field(default_factory=list)
    memory_free: list[int] = field(default_factory=list)
    racks: dict[str, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    unit_cpus_milli: int = 0
    _near: Nearness | None = field(default=None, compare=False, repr=False)

    def add(self, server: Server) -> None:
        """Append a server; its position in the pool is its index here."""
        self.servers.append(server)
        self._near = None
        self.free.append(0)
        self.up.append(0)
        self.cpus_free.append(server.beside_free.cpus_milli)
        self.memory_free.append(server.beside_free.memory_mb)
        missing = server.configuration.gpus + 1 - len(self.buckets)
        self.buckets.extend([0] * max(0, missing))
        bit = 1 << (len(self.servers) - 1)
        self.buckets[0] |= bit
        where = server.configuration
        if where.gpus:  # the size of units may be another once all servers that had them left
            self.unit_cpus_milli = where.unit_cpus_milli
        self.racks[where.rack] = self.racks.get(where.rack, 0) | bit
        self.domains[where.domain] = self.domains.get(where.domain, 0) | bit
        self.refresh(server)

    def refresh(self, server: Server) -> None:
        """Bring the index up to date after a server changed."""
        self.index(server)
        self.gpus_up += server.gpus_up - self.up[server.position]
        self.up[server.position] = server.gpus_up

    def index(self, server: Server) -> None:
        """Bring the index up to date after what a server has free changed."""
        position, offered = server.position, server.offered
        if self.free[position] != offered:
            self.set_free(position, offered)
        self.cpus_free[position] = server.beside_free.cpus_milli
        self.memory_free[position] = server.beside_free.memory_mb

    def set_free(self, position: int, mask: int) -> None:
        """Set which GPUs of one server are free."""
        if self._near is not None:
            self._near.stale[position] = None
        before, after = self.free[position].bit_count(), mask.bit_count()
        self.free[position] = mask
        if before != after:
            bit, buckets = 1 << position, self.buckets
            buckets[before] ^= bit
            buckets[after] ^= bit
            self.gpus_free += after - before

    def take(self, position: int, share: Share) -> Before:
        """Take what a share needs, free or not; return what was before."""
        free = self.free[position]
        before = self, position, free, self.cpus_free[position], self.memory_free[position]
        self.set_free(position, free & ~share.gpu_mask)
        if share.cpus_milli or share.memory_mb:
            self.cpus_free[position] -= share.cpus_milli
            self.memory_free[position] -= share.memory_mb
        return before

    def give(self, server: Server, share: Share) -> Before:
        """Free what a share holds; return what was before."""
        position = server.position
        free = self.free[position]
        before = self, position, free, self.cpus_free[position], self.memory_free[position]
        self.set_free(position, free | share.gpu_mask & ~server.unavailable)
        if share.cpus_milli or share.memory_mb:
            self.cpus_free[position] += share.cpus_milli
            self.memory_free[position] += share.memory_mb
        return before

    def restore(self, before: Before) -> None:
        """Set what one server has free to what it was before."""
        _, position, free, cpus_milli, memory_mb = before
        self.set_free(position, free)
        self.cpus_free[position] = cpus_milli
        self.memory_free[position] = memory_mb

    def beside(self, position: int) -> Resources:
        """Return the free CPUs and memory of one server."""
        return Resources(0, self.cpus_free[position], self.memory_free[position])

    def has_gpus(self, position: int, mask: int) -> bool:
        """Say whether some GPUs of one server are free."""
        return not mask & ~self.free[position]

    def copied(self) -> "Pool":
        """Return a scratch whose GPUs can be given away without touching the original."""
        return Pool(
            self.gpu_type,
            self.servers,
            self.free.copy(),
            self.buckets.copy(),
            self.gpus_free,
            self.gpus_up,
            self.up,
            self.cpus_free.copy(),
            self.memory_free.copy(),
            self.racks,
            self.domains,
            self.unit_cpus_milli,
        )

    @property
    def nearness(self) -> Nearness:
        """Where the free GPUs are near together; it is made at the first question."""
        near = self._near
        if near is None:
            near = self._near = Nearness(self.servers, self.free)
        elif near.stale:
            near.refresh(self.free)
        return near

    @property
    def gpus_most(self) -> int:
        """The most GPUs one server can have free."""
        return len(self.buckets) - 1


# Who shares which GPUs. Only shared GPUs are in these lists, with tenants in order of submission,
# so the lists follow from the jobs alone. A GPU with one tenant left stays open to others.

Gpu = tuple[NodeName, int]

_EXCLUSIVE, _, _SLICED = Sharing  # members are slow to look up


def gpus_of(share: Share) -> list[Gpu]:
    """Return the GPUs of a share, lowest first."""
    mask, found = share.gpu_mask, []
    assert mask >= 0, "a mask has no bits before the first"
    while mask:
        found.append((share.node, (mask & -mask).bit_length() - 1))
        mask &= mask - 1
    return found


def lowest_bits(mask: int, count: int) -> int:
    """Return the `count` lowest bits set in a mask that has at least so many."""
    if count == 1:
        return mask & -mask
    if mask.bit_count() == count:
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


@dataclass(slots=True)
class Tenants:
    """The tenants of each shared GPU, and how many are beyond one a GPU at once.

    Of those that take turns one at most has a GPU at once.
    """

    by_gpu: dict[Gpu, list[tuple[int, JobId]]] = field(default_factory=dict)
    overcommit: int = 0

    def join(self, ordinal: int, job_id: JobId, what: Allocation) -> tuple[Share, ...]:
        """Enter a job; return its shares, with only the GPUs on which it is the first.

        One that shares no GPUs is in no list.

        Raises:
            IllegalEventError: it is there already.
        """
        if what.sharing is _EXCLUSIVE:
            return what.shares
        first = []
        for share in what.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self.by_gpu.setdefault(gpu, [])
                if (ordinal, job_id) in tenants:
                    raise IllegalEventError(f"job {job_id} was put on GPU {gpu} twice")
                if tenants:
                    self.overcommit += what.sharing is not _SLICED
                else:
                    mask |= 1 << gpu[1]
                insort(tenants, (ordinal, job_id))
            first.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(first)

    def leave(self, ordinal: int, job_id: JobId, what: Allocation) -> tuple[Share, ...]:
        """Take a job out; return its shares, with only the GPUs on which it was the last.

        Raises:
            IllegalEventError: it is not there.
        """
        if what.sharing is _EXCLUSIVE:
            return what.shares
        last = []
        for share in what.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self.by_gpu.get(gpu, [])
                if (ordinal, job_id) not in tenants:
                    raise IllegalEventError(f"job {job_id} left GPU {gpu}, where it is not")
                tenants.remove((ordinal, job_id))
                if tenants:
                    self.overcommit -= what.sharing is not _SLICED
                else:
                    del self.by_gpu[gpu]
                    mask |= 1 << gpu[1]
            last.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(last)

    def of(self, gpu: Gpu) -> tuple[JobId, ...]:
        """Return the tenants of a GPU in order of submission; nobody if it is not shared."""
        return tuple([job_id for _, job_id in self.by_gpu.get(gpu, ())])

    def emptied(self, shares: Iterable[Share], leaving: Container[JobId]) -> tuple[Share, ...]:
        """Return some shares of a packed job, with only the GPUs whose tenants all leave."""
        return tuple(
            [
                _only(share, lambda gpu: all(who in leaving for who in self.of(gpu)))
                for share in shares
            ]
        )

    def beside(self, job_id: JobId, shares: Iterable[Share]) -> tuple[JobId, ...]:
        """Return who shares GPUs with a job, in order of submission."""
        found = {
            tenant
            for share in shares
            for gpu in gpus_of(share)
            for tenant in self.by_gpu.get(gpu, ())
            if tenant[1] != job_id
        }
        return tuple([tenant[1] for tenant in sorted(found)])


class PlannedTenants:
    """The tenants of shared GPUs in a draft: those of today, and its changes."""

    __slots__ = ("_changed", "_today")

    def __init__(self, today: Tenants) -> None:
        self._today = today
        self._changed: dict[Gpu, frozenset[JobId]] = {}

    def of(self, gpu: Gpu) -> frozenset[JobId]:
        """Return the tenants of a GPU; nobody if it is not shared."""
        found = self._changed.get(gpu)
        return frozenset(self._today.of(gpu)) if found is None else found

    def unopened(self, share: Share, usable: int) -> Share:
        """Return a share without the usable GPUs that have tenants already."""
        known = Share(share.node, share.gpu_mask & usable)
        opened = _only(known, lambda gpu: bool(self.of(gpu))).gpu_mask
        return Share(share.node, share.gpu_mask ^ opened, share.cpus_milli, share.memory_mb)

    def join(self, job_id: JobId, shares: Sequence[Share]) -> Callable[[], None]:
        """Enter a job; return what undoes that."""
        return self._change(shares, lambda tenants: tenants | {job_id})

    def leave(self, job_id: JobId, shares: Sequence[Share]) -> Callable[[], None]:
        """Take a job out; return what undoes that."""
        return self._change(shares, lambda tenants: tenants - {job_id})

    def abandoned(self, share: Share) -> Share:
        """Return a share with only the GPUs on which nobody is left."""
        return _only(share, lambda gpu: not self.of(gpu))

    def _change(
        self, shares: Sequence[Share], change: Callable[[frozenset[JobId]], frozenset[JobId]]
    ) -> Callable[[], None]:
        before = {gpu: self.of(gpu) for share in shares for gpu in gpus_of(share)}
        self._changed.update({gpu: change(tenants) for gpu, tenants in before.items()})
        return lambda: self._changed.update(before)


def _only(share: Share, belongs: Callable[[Gpu], bool]) -> Share:
    """Return a share with only some of its GPUs, and all of its CPUs and memory."""
    mask = sum(1 << gpu[1] for gpu in gpus_of(share) if belongs(gpu))
    return Share(share.node, mask, share.cpus_milli, share.memory_mb)


_REMOVED = Health.removed

CPU_POOL = ""  # servers without GPUs, for CPU jobs


@dataclass(slots=True)
class Cluster:
    """The servers in the order in which they joined; pools are derived from them.

    `deciding` and `holding` are the tenants of the GPUs that jobs share: by the last decisions, and
    physically. `freed` are the servers where GPUs were let go, or are decided for others, since who
    can be launched there was looked at last. `version` counts the servers that joined or left since
    this process began to fold.

    Facts change servers only. A pool learns of it when somebody looks at the pools next, so a
    server that changes often between two looks is indexed once, and replay alone indexes nothing.
    """

    servers: dict[NodeName, Server] = field(default_factory=dict)
    _pools: dict[str, Pool] = field(default_factory=dict, compare=False, metadata=DERIVED)
    _stale: dict[NodeName, Server] = field(default_factory=dict, compare=False, metadata=DERIVED)
    deciding: Tenants = field(default_factory=Tenants, metadata=DERIVED)
    holding: Tenants = field(default_factory=Tenants, metadata=DERIVED)
    freed: dict[NodeName, None] = field(default_factory=dict, compare=False, metadata=DERIVED)
    version: int = field(default=0, compare=False, metadata=DERIVED)

    @property
    def pools(self) -> dict[str, Pool]:
        """The servers by GPU type, indexed by what they have free."""
        if self._stale:
            self._index()
        return self._pools

    @property
    def has_types(self) -> bool:
        """Whether there are servers of more than one type, or some without GPUs."""
        return len(self._pools) > 1

    @property
    def is_beside_taken(self) -> bool:
        """Whether others hold CPUs or memory of any server."""
        return any(not server.taken_beside.are_gpus_alone for server in self.servers.values())

    def changed(self, server: Server) -> None:
        """Bring the pool up to date after the health of a server changed."""
        self._pools[server.configuration.gpu_type].refresh(server)

    def look_again(self, servers: Iterable[Server]) -> None:
        """Index what servers have free anew, before the pools are looked at next."""
        for server in servers:
            self._stale[server.name] = server

    def restored(self) -> None:
        """Rebuild the pools after decoding; allocations are taken again by the state."""
        for server in self.servers.values():
            self._pool_of(server.configuration.gpu_type)  # in the order in which they were made
        for server in sorted(self.servers.values(), key=lambda server: server.position):
            pool = self._pool_of(server.configuration.gpu_type)
            while len(pool.servers) < server.position:
                pool.add(_gap(len(pool.servers)))
            pool.add(server)

    def add(self, name: NodeName, configuration: ConfigurationSet) -> None:
        """Add a server with all its GPUs free.

        Raises:
            IllegalEventError: a server of that name is there already.
        """
        before = self.servers.get(name)
        if before is not None and before.health is not Health.removed:
            raise IllegalEventError(f"node {name} was added twice")
        self._index()  # of a server that left under this name
        pool = self._pool_of(configuration.gpu_type)
        server = Server(name, configuration, len(pool.servers))
        self.servers[name] = server
        self.version += 1
        pool.add(server)

    def remove(self, name: NodeName) -> None:
        """Take a server out; its place in the pool stays empty.

        Raises:
            IllegalEventError: something still runs there, or it is not there.
        """
        server = self.server(name)
        if server.decided or server.held:
            raise IllegalEventError(f"node {name} was removed while jobs held GPUs of it")
        server.health = Health.removed
        self.version += 1
        self.changed(server)

    def server(self, name: NodeName) -> Server:
        """Return a server.

        Raises:
            IllegalEventError: the cluster has no such server.
        """
        server = self.servers.get(name)
        if server is None or server.health is _REMOVED:
            raise IllegalEventError(f"node {name} is not in the cluster")
        return server

    def decide(self, shares: Iterable[Share]) -> None:
        """Mark GPUs, CPUs and memory as given away.

        Raises:
            IllegalEventError: one of the GPUs belongs to somebody already, or does not exist.
        """
        for share in shares:
            server = self.server(share.node)
            if share.gpu_mask >> server.configuration.gpus:
                raise _no_such_gpus(server, share)
            if server.decided & share.gpu_mask:
                raise IllegalEventError(
                    f"GPUs {server.decided & share.gpu_mask:#x} of node {share.node} "
                    "were given away twice"
                )
            server.decided |= share.gpu_mask
            self._stale[share.node] = server
            if share.cpus_milli or share.memory_mb:
                self._spend(server, share, -1)

    def undecide(self, shares: Iterable[Share]) -> None:
        """Mark GPUs, CPUs and memory as free for other jobs.

        Raises:
            IllegalEventError: one of the GPUs was free already.
        """
        for share in shares:
            server = self.server(share.node)
            if server.decided & share.gpu_mask != share.gpu_mask:
                raise IllegalEventError(f"GPUs of node {share.node} were freed twice")
            server.decided ^= share.gpu_mask
            self._stale[share.node] = server
            self.freed[share.node] = None
            if share.cpus_milli or share.memory_mb:
                self._spend(server, share, 1)

    def reshape(self, before: Iterable[Share], after: Iterable[Share]) -> None:
        """Take other CPUs and memory than before beside the same GPUs."""
        for old, new in zip(before, after, strict=True):
            server = self.server(new.node)
            self._spend(server, old, 1)
            self._spend(server, new, -1)
            self._stale[new.node] = server

    def occupy(self, shares: Iterable[Share]) -> None:
        """Decide and hold in one step, for an outcome that takes no time.

        Raises:
            IllegalEventError: one of the GPUs belongs to somebody, is in use, or does not exist.
        """
        servers = self.servers
        for share in shares:
            server, mask = servers.get(share.node), share.gpu_mask
            if server is None or server.health is not _UP:
                server = self.server(share.node)
            if mask >> server.configuration.gpus:
                raise _no_such_gpus(server, share)
            if (server.decided | server.held) & mask:
                raise IllegalEventError(f"GPUs of node {share.node} were given away twice")
            server.decided |= mask
            server.held |= mask
            self._stale[share.node] = server
            if share.cpus_milli or share.memory_mb:
                self._spend(server, share, -1)

    def vacate(self, shares: Iterable[Share]) -> None:
        """Undecide and release in one step, for an outcome that takes no time.

        Raises:
            IllegalEventError: one of the GPUs was free already.
        """
        servers = self.servers
        for share in shares:
            server, mask = servers.get(share.node), share.gpu_mask
            if server is None or server.health is not _UP:
                server = self.server(share.node)
            if server.decided & server.held & mask != mask:
                raise IllegalEventError(f"GPUs of node {share.node} were freed twice")
            server.decided ^= mask
            server.held ^= mask
            self._stale[share.node] = server
            if share.cpus_milli or share.memory_mb:
                self._spend(server, share, 1)

    def hold(self, shares: Iterable[Share]) -> None:
        """Mark GPUs as physically in use."""
        for share in shares:
            self.servers[share.node].held |= share.gpu_mask

    def release(self, shares: Iterable[Share]) -> None:
        """Mark GPUs as physically free."""
        for share in shares:
            server = self.servers.get(share.node)
            if server is not None:
                server.held &= ~share.gpu_mask
                self.freed[share.node] = None

    def is_released(self, shares: Iterable[Share]) -> bool:
        """Say whether nobody is left on the GPUs of an allocation."""
        return not any(self.servers[share.node].held & share.gpu_mask for share in shares)

    def is_joinable(self, shares: Iterable[Share]) -> bool:
        """Say whether nobody is left on these GPUs but those they are shared with."""
        deciding, holding = self.deciding, self.holding
        return all(
            not self.servers[share.node].held >> gpu[1] & 1
            or (bool(there := holding.of(gpu)) and set(there) <= set(deciding.of(gpu)))
            for share in shares
            for gpu in gpus_of(share)
        )

    def _spend(self, server: Server, share: Share, sign: int) -> None:
        """Take CPUs and memory from a server (-1), or give them back (1)."""
        if share.cpus_milli < 0 or share.memory_mb < 0:
            raise IllegalEventError(f"less than nothing of node {share.node} was given away")
        before, part = server.beside_free, share.beside
        server.beside_free = before + part if sign > 0 else before - part

    def _index(self) -> None:
        """Bring the pools up to date with the servers that changed."""
        pools = self._pools
        for server in self._stale.values():
            pools[server.configuration.gpu_type].index(server)
        self._stale.clear()

    def _pool_of(self, gpu_type: str) -> Pool:
        pool = self._pools.get(gpu_type)
        if pool is None:
            pool = self._pools[gpu_type] = Pool(gpu_type)
        return pool


def _no_such_gpus(server: Server, share: Share) -> IllegalEventError:
    missing = share.gpu_mask & ~server.all_gpus
    return IllegalEventError(f"node {share.node} has no GPUs {missing:#x}")


def _gap(position: int) -> Server:
    """Return a stand-in for a server that left and was replaced under its name."""
    nothing = ConfigurationSet("", GpuType(""), 0)
    return Server(NodeName(""), nothing, position, Health.removed)


# Jobs run on where a server is drained or lost. GPUs held there count as long as they are held, so
# that never more GPUs are in use than there are.


@dataclass(slots=True)
class UsableGpus:
    """Counts the GPUs that are up or held: `count`, when told last.

    `_up` are the GPUs up, and `_partly` the servers that have others as well: looked at again with
    each change of who holds what, and mostly none. Then who holds what changes nothing.
    """

    count: int = 0
    _up: int = 0
    _partly: list[Server] = field(default_factory=list)

    @property
    def hangs_on_holders(self) -> bool:
        """Whether the count may be another one once others hold GPUs."""
        return bool(self._partly)

    def servers_changed(self, cluster: Cluster) -> None:
        """Count anew after other GPUs may be up than before."""
        self._up = sum(pool.gpus_up for pool in cluster.pools.values())
        self._partly = [
            server
            for server in cluster.servers.values()
            if server.gpus_up < server.all_gpus.bit_count()
        ]
        self.count = self._up
        self.holders_changed()

    def holders_changed(self) -> None:
        """Count anew after other GPUs may be held than before."""
        if self._partly:
            self.count = self._up + sum(map(_held_beside, self._partly))


def _held_beside(server: Server) -> int:
    """Return how many GPUs of a server are held that are not up."""
    up = server.all_gpus & ~server.unavailable if server.is_up else 0
    return (server.held & ~up).bit_count()
