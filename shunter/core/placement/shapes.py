"""Gangs whose user named the acceptable splits over servers, best first."""

from shunter.core.cluster import Pool
from shunter.core.placement.strategy import Spot, first_with, need_of, regions
from shunter.events.values.job_spec import Demand


def shaped_spots(pool: Pool, demand: Demand) -> list[Spot] | None:
    """Return the first acceptable split that fits, on the fullest servers it fits."""
    for shape in demand.shapes:
        for area in regions(pool, demand):
            spots = _fit(pool, demand, shape, area)
            if spots is not None:
                return _by_rank(spots, shape) if demand.keeps_split else spots
    return None


def _by_rank(spots: list[Spot], shape: tuple[int, ...]) -> list[Spot]:
    """Return spots in the order of a shape: each rank gets as many GPUs as it had."""
    left = [*spots]
    found: list[Spot] = []
    for piece in shape:
        spot = next(spot for spot in left if spot[1] == piece)
        left.remove(spot)
        found.append(spot)
    return found


def _fit(pool: Pool, demand: Demand, shape: tuple[int, ...], area: int) -> list[Spot] | None:
    taken = 0
    spots: list[Spot] = []
    for piece in sorted(shape, reverse=True):
        need = need_of(demand, piece)
        for count in range(piece, len(pool.buckets)):
            position = first_with(pool, pool.buckets[count] & area & ~taken, need)
            if position >= 0:
                break
        else:
            return None
        taken |= 1 << position
        spots.append((position, piece))
    return spots
