"""Most servers: every GPU of a gang goes where the most GPUs are still free."""

from shunter.core.cluster import Pool
from shunter.core.placement.consolidated import Consolidated
from shunter.core.placement.first_fit import FirstFit
from shunter.core.placement.fitting import (
    first_with,
    has_room,
    need_of,
    pick_nearest,
    regions,
)
from shunter.core.placement.shapes import shaped_spots
from shunter.core.placement.skew import Skew
from shunter.core.placement.strategy import Placement, Spot
from shunter.core.placement.topology import Topology
from shunter.events.values.job_spec import IN_SERVER, Demand


class Spread:
    """Worst fit, GPU by GPU; a job that must stay on one server takes the emptiest."""

    name = "spread"
    classing = None
    pick = staticmethod(pick_nearest)

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if demand.shapes:
            return shaped_spots(pool, demand)
        if demand.gpus < 2 or demand.max_level in IN_SERVER:
            return _emptiest(pool, demand)
        for area in regions(pool, demand):
            spots = _level(pool, demand, area)
            if spots is not None:
                return spots
        return None


def _emptiest(pool: Pool, demand: Demand) -> list[Spot] | None:
    for count in range(len(pool.buckets) - 1, demand.gpus - 1, -1):
        position = first_with(pool, pool.buckets[count], need_of(demand, demand.gpus))
        if position >= 0:
            return [(position, demand.gpus)]
    return None


def _level(pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
    """Give GPUs one at a time to the server with the most left, the first of equals."""
    buckets = [bits & area for bits in pool.buckets]
    counts: dict[int, int] = {}
    left = demand.gpus
    most = len(buckets) - 1
    while left:
        while most and not buckets[most]:
            most -= 1
        if not most:
            return None
        position = (buckets[most] & -buckets[most]).bit_length() - 1
        bit = 1 << position
        buckets[most] ^= bit
        if not has_room(pool, position, need_of(demand, counts.get(position, 0) + 1)):
            continue
        counts[position] = counts.get(position, 0) + 1
        buckets[most - 1] |= bit
        left -= 1
    return sorted(counts.items())


# The placements by the names that configurations give them.

PLACEMENTS: dict[str, type[Placement]] = {
    "consolidated": Consolidated,
    "spread": Spread,
    "first_fit": FirstFit,
    "skew": Skew,
    "topology": Topology,
}
