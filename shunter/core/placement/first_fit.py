"""First free GPUs: servers in the order in which they joined; a gang may span them freely."""

from shunter.core.cluster import Pool
from shunter.core.placement.fitting import has_room, need_of, pick_nearest, regions
from shunter.core.placement.shapes import shaped_spots
from shunter.core.placement.strategy import Spot
from shunter.events.values.job_spec import IN_SERVER, Demand


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
