"""What makes a job fit: whether a server has what some of its GPUs need, and which GPUs these are.

A strategy says on which servers a gang goes; these rules hold whichever strategy it is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from shunter.core.cluster import Pool
from shunter.core.placement.strategy import Placement, Spot
from shunter.events.values import (
    BELOW_SERVER,
    LEVEL_ORDER,
    ConfigurationSet,
    Demand,
    Level,
    LevelGroups,
    Reason,
    Resources,
    Share,
)

# Which GPUs of one server: the nearest ones, and those that leave the best rest.
#
# The levels of a configuration set are groups of GPUs, nearest first (NVLink, switch, socket). A
# request is met on the first level where one group has enough free GPUs, from the group with the
# fewest free ones; only then over several groups (Xiao, SOSP-SRC 2017; the choice of the fullest
# group is ours). A level that is not described divides nothing: its groups are those of the next
# one that is, and beyond the last one there is one group, the server. NVLink alone is not so:
# GPUs that are not said to be joined are not. Its groups may lie across switches and sockets, so
# these decide among them and within each.

_NVLINK = Level.nvlink  # members are slow to look up


def pick_gpus(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of `count` free GPUs, or 0 if none are near enough together."""
    if not where.levels or (max_level is _NVLINK and not where.joined):
        return _unjoined(free, count, max_level)
    return _pick(where.levels, free, count, max_level)


def pick_emptiest(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of the nearest `count` free GPUs, with the fewest neighbours.

    Of groups that have enough the freest is taken, and of those that are equally free one where
    the groups around it are; else it is as with `pick_gpus`.
    """
    if not where.levels or (max_level is _NVLINK and not where.joined):
        return _unjoined(free, count, max_level)
    return _pick_emptiest(where.levels, free, count, max_level)


def is_within(where: ConfigurationSet, mask: int, max_level: Level) -> bool:
    """Say whether some GPUs of a server are as near together as a level of it."""
    return any(mask & ~group == 0 for group in groups_within(where, max_level))


def groups_within(where: ConfigurationSet, max_level: Level | None) -> tuple[int, ...]:
    """Return the groups within one of which GPUs of a server must be."""
    found: tuple[int, ...] = ((1 << where.gpus) - 1,)
    if max_level is None:
        return found
    if max_level is _NVLINK:
        return where.joined or tuple(1 << gpu for gpu in range(where.gpus))
    for groups in where.bus_levels:
        if LEVEL_ORDER[groups.level] >= LEVEL_ORDER[max_level]:
            found = groups.masks
            break
    across = [mask for mask in where.joined if all(mask & ~group for group in found)]
    return (*found, *across)


def lowest_bits(mask: int, count: int) -> int:
    """Return the `count` lowest bits set in a mask that has at least so many."""
    if count == 1:
        return mask & -mask
    if mask.bit_count() == count:
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


_Pick = Callable[[tuple[LevelGroups, ...], int, int, Level | None], int]


def _unjoined(free: int, count: int, max_level: Level | None) -> int:
    """Return the lowest GPUs of a server where none are joined, or not said to be."""
    return 0 if max_level is _NVLINK and count > 1 else lowest_bits(free, count)


def _pick_joined(
    pick: _Pick, levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None
) -> int:
    """Return GPUs of one joined group, else what `pick` finds around these.

    A gang is packed where the fewest of a group are left, and put apart where the fewest others are
    near; whichever comes first, the other one decides among equals.
    """
    joined, *rest = levels
    around = tuple(rest)
    found = []
    for group in joined.masks:
        left = (group & free).bit_count()
        if left >= count:
            mask = pick(around, group & free, count, None)
            others = [_taken_near(each.masks, mask, free) for each in around]
            packed = (left, *(-taken for taken in others), mask)
            found.append((packed if pick is _pick else (*others, left, mask), mask))
    if found:
        return min(found)[1]
    if max_level is _NVLINK:
        return 0
    if around:
        return pick(around, free, count, max_level)
    return _over_groups(joined.masks, free, count)


def _taken_near(masks: tuple[int, ...], mask: int, free: int) -> int:
    """Return how many GPUs are taken in the groups of a level that some GPUs are in."""
    return sum((group & ~free).bit_count() for group in masks if group & mask)


@lru_cache(maxsize=1 << 16)
def _pick_emptiest(
    levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None
) -> int:
    if not levels:
        return lowest_bits(free, count)
    if levels[0].level is _NVLINK:
        return _pick_joined(_pick_emptiest, levels, free, count, max_level)
    bound = len(LEVEL_ORDER) if max_level is None else LEVEL_ORDER[max_level]
    for at, groups in enumerate(levels):
        fitting = [mask for mask in groups.masks if (mask & free).bit_count() >= count]
        if fitting:
            around = levels[at:]

            def emptiness(mask: int, around: tuple[LevelGroups, ...] = around) -> tuple[int, ...]:
                return tuple(
                    -(outer & free).bit_count()
                    for each in around
                    for outer in each.masks
                    if mask & ~outer == 0
                )

            chosen = min(fitting, key=lambda mask: (emptiness(mask), mask))
            return lowest_bits(chosen & free, count)
        if LEVEL_ORDER[groups.level] >= bound:
            return 0
    return _over_groups(levels[0].masks, free, count)


@lru_cache(maxsize=1 << 16)
def _pick(levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None) -> int:
    if not levels:
        return lowest_bits(free, count)
    if levels[0].level is _NVLINK:
        return _pick_joined(_pick, levels, free, count, max_level)
    bound = len(LEVEL_ORDER) if max_level is None else LEVEL_ORDER[max_level]
    for groups in levels:
        fitting = [m for m in groups.masks if (m & free).bit_count() >= count]
        if fitting:
            chosen = min(fitting, key=lambda mask: ((mask & free).bit_count(), mask))
            return lowest_bits(chosen & free, count)
        if LEVEL_ORDER[groups.level] >= bound:
            return 0
    return _over_groups(levels[0].masks, free, count)


def _over_groups(masks: tuple[int, ...], free: int, count: int) -> int:
    """Take whole groups, the freest first, and fill up with the lowest GPUs left."""
    chosen = 0
    ordered = sorted(masks, key=lambda mask: (-(mask & free).bit_count(), mask))
    for mask in ordered:
        wanted = count - chosen.bit_count()
        here = mask & free
        chosen |= lowest_bits(here, min(wanted, here.bit_count()))
    loose = free & ~chosen
    return chosen | lowest_bits(loose, count - chosen.bit_count())


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


# Gangs whose user named the acceptable splits over servers, best first.


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
