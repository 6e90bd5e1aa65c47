"""What makes a job fit: whether a server has what some of its GPUs need, and which GPUs these are.

A strategy says on which servers a gang goes; these rules hold whichever strategy it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from shunter.core.cluster import Pool
from shunter.core.placement.gpus import pick_gpus
from shunter.core.placement.strategy import Placement, Spot
from shunter.events.values.allocation import Share
from shunter.events.values.job_spec import BELOW_SERVER, Demand, Level
from shunter.events.values.reasons import Reason
from shunter.events.values.resources import Resources


class Need(NamedTuple):
    """What some of a gang's GPUs ask of one server.

    `max_level` is the outermost level below the server within which they must be; None: any.
    """

    resources: Resources
    max_level: Level | None

    @property
    def is_plain(self) -> bool:
        """Whether any server with so many free GPUs will do."""
        return self.max_level is None and self.resources.are_gpus_alone


def place(placement: Placement, pool: Pool, demand: Demand) -> tuple[Share, ...] | Reason:
    """Take GPUs for a demand from a scratch pool; return the shares, or why not."""
    found = find(placement, pool, demand)
    if isinstance(found, Reason):
        return found
    for position, share in found:
        pool.take(position, share)
    return tuple([share for _, share in found])


def find(placement: Placement, pool: Pool, demand: Demand) -> list[tuple[int, Share]] | Reason:
    """Return positions of servers and shares that meet a demand, or why not.

    Units of CPU go with their CPUs, or with more if the job asks for more.
    """
    if pool.unit_cpus_milli and demand.cpus_milli < demand.gpus * pool.unit_cpus_milli:
        demand = replace(demand, cpus_milli=demand.gpus * pool.unit_cpus_milli)
    spots = placement.spots(pool, demand)
    if spots is None:
        return _why_not(placement, pool, demand)
    if demand.cpus_milli or demand.memory_mb:
        return list(_with_parts(placement, pool, spots, demand))
    found = []
    for position, count in spots:
        mask = placement.pick(pool, position, count, demand)
        found.append((position, Share(pool.servers[position].name, mask)))
    return found


def pick_nearest(pool: Pool, position: int, count: int, demand: Demand) -> int:
    """Return the nearest free GPUs of a server that leave the best rest, as a mask."""
    where = pool.servers[position].configuration
    return pick_gpus(where, pool.free[position], count, demand.max_level)


def _with_parts(
    placement: Placement, pool: Pool, spots: list[Spot], demand: Demand
) -> Iterator[tuple[int, Share]]:
    """Yield positions and shares with CPUs and memory, by the GPUs on each server."""
    parts = demand.resources.divided([count for _, count in spots])
    for (position, count), part in zip(spots, parts, strict=True):
        mask = placement.pick(pool, position, count, demand) if count else 0
        yield (
            position,
            Share(pool.servers[position].name, mask, part.cpus_milli, part.memory_mb),
        )


def need_of(demand: Demand, count: int) -> Need:
    """Return what `count` of a demand's GPUs need at most of a server."""
    level = demand.max_level if demand.max_level in BELOW_SERVER else None
    return Need(demand.resources.at_most_with(count), level)


def is_plain(demand: Demand) -> bool:
    """Say whether only numbers of GPUs count on a server, as usual."""
    return not demand.cpus_milli and not demand.memory_mb and demand.max_level not in BELOW_SERVER


def has_room(pool: Pool, position: int, need: Need) -> bool:
    """Say whether a server that has so many free GPUs has all that they need.

    That is CPUs, memory, and the GPUs near enough together. One that takes no jobs offers no GPUs,
    but its CPUs are listed as before.
    """
    if need.is_plain:
        return True
    server, gpus = pool.servers[position], need.resources.gpus
    if not need.resources.fit_beside(pool.beside(position)):
        return False
    if need.max_level is not None and gpus:
        where, free = server.configuration, pool.free[position]
        return bool(pick_gpus(where, free, gpus, need.max_level))
    return server.is_up


def first_with(pool: Pool, bits: int, need: Need) -> int:
    """Return the first server of a set of bits that has what some GPUs need, or -1."""
    if need.is_plain:
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


def _why_not(placement: Placement, pool: Pool, demand: Demand) -> Reason:
    if demand.gpus > pool.gpus_free:
        return Reason.no_capacity
    if demand.cpus_milli or demand.memory_mb:
        bare = replace(demand, cpus_milli=0, memory_mb=0)
        if placement.spots(pool, bare) is not None:
            return Reason.cpu_or_memory_short
    if demand.keeps_split:
        return Reason.split_kept
    if demand.max_level is not None or demand.tight:
        return Reason.locality_not_met
    return Reason.fragmented
