"""All servers, by name and by GPU type, and the two ways in which an allocation touches them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.core.cluster.pool import Pool
from shunter.core.cluster.server import Health, Server
from shunter.core.cluster.tenants import Tenants, gpus_of
from shunter.errors import IllegalEventError
from shunter.events.records import DERIVED
from shunter.events.values import ConfigurationSet, GpuType, NodeName, Share

_UP, _REMOVED = Health.up, Health.removed  # enum members are slow to look up in a hot path

CPU_POOL = ""  # servers without GPUs, for CPU jobs


@dataclass(slots=True)
class Cluster:
    """The servers in the order in which they joined; pools are derived from them.

    `deciding` and `holding` are the tenants of the GPUs that jobs share: by the last decisions, and
    physically. `version` counts the servers that joined or left since this process began to fold.

    Facts change servers only. A pool learns of it when somebody looks at the pools next, so a
    server that changes often between two looks is indexed once, and replay alone indexes nothing.
    """

    servers: dict[NodeName, Server] = field(default_factory=dict)
    _pools: dict[str, Pool] = field(default_factory=dict, compare=False, metadata=DERIVED)
    _stale: dict[NodeName, Server] = field(default_factory=dict, compare=False, metadata=DERIVED)
    deciding: Tenants = field(default_factory=Tenants, metadata=DERIVED)
    holding: Tenants = field(default_factory=Tenants, metadata=DERIVED)
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
