"""Fewest servers: one if possible, the one that is left fullest; else as few as there must be.

A preference, not a condition: a gang that fits nowhere together spreads. Between equal choices the
server that joined first wins. Of gangs over several servers, one within a rack is preferred where
it takes no more servers than one across racks.
"""

from shunter.core.cluster import Pool
from shunter.core.placement.fitting import (
    first_with,
    has_room,
    is_plain,
    need_of,
    pick_nearest,
    regions,
    shaped_spots,
)
from shunter.core.placement.strategy import Spot
from shunter.events.values import IN_SERVER, Demand

# First free GPUs: servers in the order in which they joined; a gang may span them freely.


class FirstFit:
    """Take whatever is free, from the first server on."""

    name = "first_fit"
    classing = None
    pick = staticmethod(pick_nearest)

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if demand.shapes:
            return shaped_spots(pool, demand)
        together = demand.gpus < 2 or demand.max_level in IN_SERVER
        for area in regions(pool, demand):
            spots = _whole(pool, demand, area) if together else _pieces(pool, demand, area)
            if spots is not None:
                return spots
        return None


def _whole(pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
    bits = 0
    for count in range(demand.gpus, len(pool.buckets)):
        bits |= pool.buckets[count]
    bits &= area
    need = need_of(demand, demand.gpus)
    while bits:
        position = (bits & -bits).bit_length() - 1
        if has_room(pool, position, need):
            return [(position, demand.gpus)]
        bits &= bits - 1
    return None


def _pieces(pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
    if demand.gpus > pool.gpus_free:
        return None
    bits = 0
    for count in range(1, len(pool.buckets)):
        bits |= pool.buckets[count]
    bits &= area
    spots: list[Spot] = []
    left = demand.gpus
    while bits and left:
        position = (bits & -bits).bit_length() - 1
        bits &= bits - 1
        count = min(left, pool.free[position].bit_count())
        while count and not has_room(pool, position, need_of(demand, count)):
            count -= 1
        if count:
            spots.append((position, count))
            left -= count
    return None if left else spots


class Consolidated:
    """Best fit on one server, then largest pieces first (fewest servers)."""

    name = "consolidated"
    classing = None
    pick = staticmethod(pick_nearest)

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if demand.shapes:
            return shaped_spots(pool, demand)
        gpus, counts_only = demand.gpus, is_plain(demand)
        for bits in pool.buckets[gpus:]:
            if bits:
                if counts_only:
                    return [((bits & -bits).bit_length() - 1, gpus)]
                position = first_with(pool, bits, need_of(demand, gpus))
                if position >= 0:
                    return [(position, gpus)]
        if demand.gpus < 2 or demand.max_level in IN_SERVER or demand.gpus > pool.gpus_free:
            return None
        areas = regions(pool, demand)
        if areas == [-1] and len(pool.racks) > 1:
            areas = [*(bits for name, bits in pool.racks.items() if name), -1]
        found = [spots for area in areas if (spots := largest_first(pool, demand, area))]
        if not found:
            return None
        fewest = min(len(spots) for spots in found)
        return next(spots for spots in found if len(spots) == fewest)


def largest_first(pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
    """Take whole servers, emptiest first; the last piece goes where it fits best."""
    buckets = _buckets(pool, demand, area)
    spots: list[Spot] = []
    left = demand.gpus
    most = len(buckets) - 1
    while left:
        for bits in buckets[left:]:
            if bits:
                spots.append(((bits & -bits).bit_length() - 1, left))
                return spots
        while most and not buckets[most]:
            most -= 1
        if not most:
            return None
        bit = buckets[most] & -buckets[most]
        spots.append((bit.bit_length() - 1, most))
        buckets[most] ^= bit
        left -= most
    return spots


def _buckets(pool: Pool, demand: Demand, area: int) -> list[int]:
    """Return the servers by how many of the gang's GPUs each could take."""
    buckets = [bits & area for bits in pool.buckets]
    if not demand.cpus_milli and not demand.memory_mb:
        return buckets
    for count in range(len(buckets) - 1, 0, -1):
        need, bits = need_of(demand, count), buckets[count]
        while bits:
            bit = bits & -bits
            bits ^= bit
            if not has_room(pool, bit.bit_length() - 1, need):
                buckets[count] ^= bit
                buckets[count - 1] |= bit
    return buckets
