"""What a placement strategy is: a search over the free GPUs of one pool."""

from collections.abc import Mapping
from typing import Protocol

from shunter.core.cluster import Pool
from shunter.core.placement.gpus import pick_gpus
from shunter.events.values.allocation import Share
from shunter.events.values.job_spec import Demand, JobSpec, Level
from shunter.events.values.reasons import Reason

Spot = tuple[int, int]  # a server's position in the pool, and how many of its GPUs

Messages = Mapping[str, tuple[int, int]]  # the largest message and all, in bytes, by model

IN_SERVER = (Level.switch, Level.socket, Level.server)


class Classing(Protocol):
    """Tells gangs that must be on the fewest servers from those that may spread."""

    def is_tight(self, spec: JobSpec, messages: Messages) -> bool:
        """Say whether a job is one of the former, by what was measured up to now."""

    def is_skewed(self, model: str, messages: Messages) -> bool:
        """Say whether jobs of a model are, if they do not say otherwise themselves."""


class Placement(Protocol):
    """Decides on which servers a gang runs.

    `classing` is None where that depends on nothing but a job's demand.
    """

    @property
    def name(self) -> str:
        """Its name in configurations."""

    @property
    def classing(self) -> Classing | None:
        """What tells tight demands from others."""

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""


def place(placement: Placement, pool: Pool, demand: Demand) -> tuple[Share, ...] | Reason:
    """Take GPUs for a demand from a scratch pool; return the shares, or why not."""
    spots = placement.spots(pool, demand)
    if spots is None:
        return _why_not(pool, demand)
    if not demand.cpus_milli and not demand.memory_mb:
        return _place_gpus(pool, spots, demand.max_level)
    shares = []
    done = cpus_done = memory_done = 0
    for position, count in spots:
        server = pool.servers[position]
        free = pool.free[position]
        mask = pick_gpus(server.configuration, free, count, demand.max_level) if count else 0
        if mask.bit_count() != count:
            return Reason.locality_not_met
        # By the GPUs so far, so that no part is more than its own need rounded up.
        done += count
        cpus, memory = _part(demand.cpus_milli, done, demand), _part(demand.memory_mb, done, demand)
        shares.append(Share(server.name, mask, cpus - cpus_done, memory - memory_done))
        cpus_done, memory_done = cpus, memory
    for share, (position, _) in zip(shares, spots, strict=True):
        pool.set_free(position, pool.free[position] ^ share.gpu_mask)
        if share.cpus_milli or share.memory_mb:
            pool.cpus_free[position] -= share.cpus_milli
            pool.memory_free[position] -= share.memory_mb
    return tuple(shares)


def _place_gpus(
    pool: Pool, spots: list[Spot], max_level: Level | None
) -> tuple[Share, ...] | Reason:
    """Take GPUs alone: the usual case, kept short."""
    taken = []
    for position, count in spots:
        mask = pick_gpus(
            pool.servers[position].configuration, pool.free[position], count, max_level
        )
        if not mask:
            return Reason.locality_not_met
        taken.append(mask)
    shares = []
    for (position, _), mask in zip(spots, taken, strict=True):
        pool.set_free(position, pool.free[position] ^ mask)
        shares.append(Share(pool.servers[position].name, mask))
    return tuple(shares)


def _part(whole: int, gpus: int, demand: Demand) -> int:
    """Return what the first so many GPUs of a demand get of its CPUs or memory."""
    return whole * gpus // demand.gpus if demand.gpus else whole


def need_of(demand: Demand, count: int) -> tuple[int, int]:
    """Return the CPUs and memory `count` of a demand's GPUs need at most on a server."""
    if not demand.gpus:
        return demand.cpus_milli, demand.memory_mb
    return -(-demand.cpus_milli * count // demand.gpus), -(-demand.memory_mb * count // demand.gpus)


def has_room(pool: Pool, position: int, need: tuple[int, int]) -> bool:
    """Say whether a server has that many CPUs and that much memory to give.

    One that takes no jobs offers no GPUs, but its CPUs are listed as before.
    """
    if need == (0, 0):
        return True
    enough = pool.cpus_free[position] >= need[0] and pool.memory_free[position] >= need[1]
    return enough and pool.servers[position].is_up


def first_with(pool: Pool, bits: int, need: tuple[int, int]) -> int:
    """Return the first server of a set of bits that has the CPUs and memory, or -1."""
    if need == (0, 0):
        return (bits & -bits).bit_length() - 1
    while bits:
        position = (bits & -bits).bit_length() - 1
        if has_room(pool, position, need):
            return position
        bits &= bits - 1
    return -1


def regions(pool: Pool, demand: Demand) -> list[int]:
    """Return the sets of servers within each of which the gang must stay together.

    A server of which no rack is named shares its rack with no other one.
    """
    if demand.max_level is Level.rack:
        return _areas(pool.racks)
    if demand.max_level is Level.domain:
        return _areas(pool.domains)
    return [-1]


def _areas(groups: Mapping[str, int]) -> list[int]:
    found = [bits for name, bits in groups.items() if name]
    unnamed = groups.get("", 0)
    while unnamed:
        found.append(unnamed & -unnamed)
        unnamed &= unnamed - 1
    return found


def _why_not(pool: Pool, demand: Demand) -> Reason:
    if demand.gpus > pool.gpus_free:
        return Reason.no_capacity
    if demand.cpus_milli or demand.memory_mb:
        bare = Demand(demand.gpus, demand.queue, gpu_types=demand.gpu_types)
        apart = demand.max_level is None and not demand.tight
        if bare.gpus == 0 or (apart and not demand.shapes):
            return Reason.cpu_or_memory_short
    if demand.keeps_split:
        return Reason.split_kept
    if demand.max_level is not None or demand.tight:
        return Reason.locality_not_met
    return Reason.fragmented
