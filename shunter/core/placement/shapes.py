"""Gangs whose user named the acceptable splits over servers, best first."""

from dataclasses import dataclass, field

from shunter.core.cluster import Pool
from shunter.core.placement.fitting import Need, first_with, has_room, need_of, regions
from shunter.core.placement.strategy import Spot
from shunter.events.values.job_spec import Demand


def shaped_spots(pool: Pool, demand: Demand) -> list[Spot] | None:
    """Return the first acceptable split that fits, on the fullest servers it fits."""
    for shape in demand.splits:
        for area in regions(pool, demand):
            spots = split_spots(pool, demand, shape, area)
            if spots is not None:
                return spots
    return None


def split_spots(pool: Pool, demand: Demand, shape: tuple[int, ...], area: int) -> list[Spot] | None:
    """Return where one split fits in an area, on the fullest servers, or None."""
    spots = _fit(pool, demand, shape, area)
    return _by_rank(spots, shape) if spots is not None and demand.keeps_split else spots


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
    """Return a server for each piece of a split, the largest first, or None.

    Each takes the fullest server that has all it needs. Where it finds those taken, an earlier
    piece moves over that has another choice (an augmenting path, H. W. Kuhn 1955): so there is a
    place for each whenever there is a way to seat them all.
    """
    split = _Split(pool, demand, sorted(shape, reverse=True), area)
    for number in range(len(shape)):
        if not split.seat(number, set()):
            return None
    return [(position, split.pieces[number]) for number, position in sorted(split.seats.items())]


@dataclass(slots=True)
class _Split:
    """Pieces of a gang; `seats` is the server of each, by number."""

    pool: Pool
    demand: Demand
    pieces: list[int]
    area: int
    seats: dict[int, int] = field(default_factory=dict)

    def seat(self, number: int, tried: set[int]) -> bool:
        """Seat a piece, though earlier ones move over; say whether there was a way to."""
        taken = {position: other for other, position in self.seats.items()}
        need = need_of(self.demand, self.pieces[number])
        free = self.area & ~sum(1 << position for position in taken)
        for bits in self.pool.buckets[need.resources.gpus :]:
            position = first_with(self.pool, bits & free, need)
            if position >= 0:
                self.seats[number] = position
                return True
        if need.is_plain:
            return False  # who fits in a smaller choice of servers has chosen before
        for position, other in taken.items():
            if position not in tried and self._fits(position, need):
                tried.add(position)
                if self.seat(other, tried):
                    self.seats[number] = position
                    return True
        return False

    def _fits(self, position: int, need: Need) -> bool:
        free = self.pool.free[position].bit_count()
        return free >= need.resources.gpus and has_room(self.pool, position, need)
