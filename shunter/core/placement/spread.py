"""Most servers: every GPU of a gang goes where the most GPUs are still free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shunter.core.cluster import Pool
from shunter.core.placement.consolidated import Consolidated, FirstFit
from shunter.core.placement.fitting import (
    first_with,
    has_room,
    need_of,
    pick_nearest,
    regions,
    shaped_spots,
)
from shunter.core.placement.strategy import Classing, Messages, Placement, Spot
from shunter.core.placement.topology import Topology
from shunter.events.values import IN_SERVER, Demand, JobSpec

# Together only where it pays: gangs of skewed models on the fewest servers, all others anywhere.
#
# The skew of a model is the size of its largest tensor over that of all of them. A skewed model
# sends large messages to one server and suffers when its gang is spread; the others hardly notice
# (Gu et al., Tiresias, NSDI 2019). So a gang of a skewed model gets the fewest servers that could
# hold it, and waits while it cannot have them; any other takes what is free, fragments first.
#
# What is known of a model's skew counts in this order: what the job says, what was measured of the
# model's messages while jobs of it ran, the table.

SKEW_THRESHOLD: Final = 0.375
"""The middle of the gap between the models that may spread and those that may not.

In the table of the Tiresias simulator the skews are up to 0.138 and from 0.611 on. Any threshold
between them makes the same two classes; the middle leaves most room for models not in the table.
"""

_TOGETHER = Consolidated()


@dataclass(frozen=True)
class Skew:
    """Fewest servers for gangs of skewed models, best fit for all others.

    `skews` is the table, by model; a skew above `threshold` is skewed. `distrusts` says that a
    model of which nothing is known counts as skewed.
    """

    skews: Mapping[str, float] = field(default_factory=dict)
    threshold: float = SKEW_THRESHOLD
    distrusts: bool = False
    name: str = "skew"
    pick = staticmethod(pick_nearest)

    @property
    def classing(self) -> Classing:
        """It tells gangs apart itself."""
        return self

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if demand.shapes:
            return shaped_spots(pool, demand)
        if demand.gpus < 2 or demand.max_level in IN_SERVER:
            return _TOGETHER.spots(pool, demand)
        if demand.tight:
            spots = _TOGETHER.spots(pool, demand)
            if spots is None or len(spots) == 1 or len(spots) <= fewest_servers(pool, demand):
                return spots
            return None
        if demand.gpus > pool.gpus_free:
            return None
        for area in regions(pool, demand):
            spots = _fragments_first(pool, demand, area)
            if spots is not None:
                return spots
        return None

    def is_tight(self, spec: JobSpec, messages: Messages) -> bool:
        """Say whether a gang must be on the fewest servers.

        One GPU is on one server anyway, and a user who names shapes knows better.
        """
        if spec.gpus < 2 or spec.shapes:
            return False
        skew = spec.skew
        if skew is None:
            return self.is_skewed(spec.model, messages)
        return skew > self.threshold

    def is_skewed(self, model: str, messages: Messages) -> bool:
        """Say whether a model is skewed, by its messages, else by the table."""
        measured = messages.get(model)
        if measured is not None:
            largest, total = measured
            return largest > self.threshold * total
        skew = self.skews.get(model)
        return self.distrusts if skew is None else skew > self.threshold


def fewest_servers(pool: Pool, demand: Demand) -> int:
    """Return how many servers a gang needs at least, if nobody else were there.

    That is by what is up, free or not: a gang waits for others to leave, not for repairs.
    """
    limits = [_most_on(pool, position, demand) for position in range(len(pool.servers))]
    counts = []
    for area in regions(pool, demand):
        left, count = demand.gpus, 0
        for most in sorted(
            [most for position, most in enumerate(limits) if area >> position & 1], reverse=True
        ):
            if left <= 0 or not most:
                break
            left -= most
            count += 1
        if left <= 0:
            counts.append(count)
    return min(counts, default=0)


def _most_on(pool: Pool, position: int, demand: Demand) -> int:
    """Return how many of a gang's GPUs an empty server could take."""
    most = min(pool.up[position], demand.gpus)
    if demand.cpus_milli or demand.memory_mb:
        where = pool.servers[position].configuration
        while most:
            if need_of(demand, most).resources.fit_beside(where.beside):
                break
            most -= 1
    return most


def _fragments_first(pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
    """Fill up servers, those with the fewest free GPUs first."""
    spots: list[Spot] = []
    left = demand.gpus
    for bucket in pool.buckets[1:]:
        bits = bucket & area
        while bits:
            position = (bits & -bits).bit_length() - 1
            bits &= bits - 1
            count = min(left, pool.free[position].bit_count())
            while count and not has_room(pool, position, need_of(demand, count)):
                count -= 1
            if count:
                spots.append((position, count))
                left -= count
                if not left:
                    return spots
    return None


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
