"""The servers of one GPU type, indexed by how many of their GPUs are free.

A bucket is an integer with one bit a server, so "the first server with at least three free GPUs"
is a few operations on integers, whatever the size of the cluster (Xiao, SOSP-SRC 2017: usage and
requests as bitmaps). `copied` makes a scratch for planning in microseconds.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from shunter.core.cluster.nearness import Nearness
from shunter.core.cluster.server import Server
from shunter.events.values import Resources, Share

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
