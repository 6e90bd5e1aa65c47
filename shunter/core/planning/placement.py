"""Where a gang runs: searches over bitmaps of free GPUs.

A strategy (`Placement`) says on which servers a gang goes. First come the rules of every strategy:
which GPUs of a server, what fits, and `find`. Then the strategies, as `PLACEMENTS` names them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from shunter.core.cluster import Area, Pool, lowest_bits
from shunter.events import (
    BELOW_SERVER,
    IN_SERVER,
    LEVEL_ORDER,
    ConfigurationSet,
    Demand,
    JobSpec,
    Level,
    LevelGroups,
    Reason,
    Resources,
    Share,
)

Spot = tuple[int, int]  # a server's position in the pool, and how many of its GPUs

Messages = Mapping[str, tuple[int, int]]  # the largest message and all, in bytes, by model


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

    def pick(self, pool: Pool, position: int, count: int, demand: Demand) -> int:
        """Return the mask of the GPUs that a demand takes on a server that was found."""


# The levels of a configuration set are groups of GPUs, nearest first. A request is met on the first
# level where one group has enough free GPUs, from the group with the fewest; only then over several
# groups (Xiao, SOSP-SRC 2017; the choice of the fullest group is ours). A level that is not
# described takes the groups of the next one; only NVLink joins nothing then.

_NVLINK = Level.nvlink  # members are slow to look up


def pick_gpus(
    where: ConfigurationSet,
    free: int,
    count: int,
    max_level: Level | None = None,
    *,
    packs: bool = True,
) -> int:
    """Return the mask of the nearest `count` free GPUs, or 0 if none are near enough.

    If not `packs`, they are those with the fewest neighbours: of groups that have enough the freest
    is taken, and of those that are equally free one where the groups around it are.
    """
    if not where.levels or (max_level is _NVLINK and not where.joined):
        return 0 if max_level is _NVLINK and count > 1 else lowest_bits(free, count)
    return _pick(where.levels, free, count, max_level, packs)


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


def _pick_joined(
    levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None, packs: bool
) -> int:
    """Return GPUs of one joined group, else what is found around these.

    A gang is packed where the fewest of a group are left, and put apart where the fewest others are
    near; whichever comes first, the other one decides among equals.
    """
    joined, *rest = levels
    around = tuple(rest)
    found = []
    for group in joined.masks:
        left = (group & free).bit_count()
        if left >= count:
            mask = _pick(around, group & free, count, None, packs)
            others = [_taken_near(each.masks, mask, free) for each in around]
            packed = (left, *(-taken for taken in others), mask)
            found.append((packed if packs else (*others, left, mask), mask))
    if found:
        return min(found)[1]
    if max_level is _NVLINK:
        return 0
    if around:
        return _pick(around, free, count, max_level, packs)
    return _over_groups(joined.masks, free, count)


def _taken_near(masks: tuple[int, ...], mask: int, free: int) -> int:
    """Return how many GPUs are taken in the groups of a level that some GPUs are in."""
    return sum((group & ~free).bit_count() for group in masks if group & mask)


@lru_cache(maxsize=1 << 17)
def _pick(
    levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None, packs: bool
) -> int:
    if not levels:
        return lowest_bits(free, count)
    if levels[0].level is _NVLINK:
        return _pick_joined(levels, free, count, max_level, packs)
    bound = len(LEVEL_ORDER) if max_level is None else LEVEL_ORDER[max_level]
    for at, groups in enumerate(levels):
        fitting = [mask for mask in groups.masks if (mask & free).bit_count() >= count]
        if fitting:
            ranked = [(_crowding(mask, levels[at:], free, packs), mask) for mask in fitting]
            return lowest_bits(min(ranked)[1] & free, count)
        if LEVEL_ORDER[groups.level] >= bound:
            return 0
    return _over_groups(levels[0].masks, free, count)


def _crowding(
    mask: int, around: tuple[LevelGroups, ...], free: int, packs: bool
) -> tuple[int, ...]:
    """Return what orders groups: how many GPUs are free, there or around."""
    if packs:
        return ((mask & free).bit_count(),)
    return tuple(
        -(outer & free).bit_count() for each in around for outer in each.masks if mask & ~outer == 0
    )


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


class _Strategy:
    """What strategies share that place jobs of one server and gangs apart."""

    pick = staticmethod(pick_nearest)

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if demand.shapes:
            return shaped_spots(pool, demand)
        if demand.gpus < 2 or demand.max_level in IN_SERVER:
            return self.together(pool, demand)
        if demand.gpus > pool.gpus_free:
            return None
        found = (self.spread(pool, demand, area) for area in regions(pool, demand))
        return next((spots for spots in found if spots is not None), None)

    def together(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return where a job is on one server."""
        raise NotImplementedError

    def spread(self, pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
        """Return where a gang is that may be on several servers of an area."""
        raise NotImplementedError


class FirstFit(_Strategy):
    """Take whatever is free, from the first server on."""

    name = "first_fit"
    classing = None

    def together(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return the first server that has all the job needs."""
        servers, need = _any(pool.buckets[demand.gpus :]), need_of(demand, demand.gpus)
        for area in regions(pool, demand):
            position = first_with(pool, servers & area, need)
            if position >= 0:
                return [(position, demand.gpus)]
        return None

    def spread(self, pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
        """Return the first servers that have enough together."""
        return _filled(pool, demand, [_any(pool.buckets[1:]) & area])


def _filled(pool: Pool, demand: Demand, rows: Iterable[int]) -> list[Spot] | None:
    """Take what each server has for the gang, row after row, first servers first."""
    spots: list[Spot] = []
    left = demand.gpus
    for row in rows:
        bits = row
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


class Consolidated:
    """Best fit on one server, then largest pieces first (fewest servers).

    A preference, not a condition. Between equal choices the server that joined first wins; a gang
    over several servers stays within a rack where that takes no more of them.
    """

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


_CONSOLIDATED: Final = Consolidated()


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


# Among places on the nearest level that fits (Xiao, SOSP-SRC 2017): while few GPUs of the pool are
# in use, jobs are spread, to have few neighbours; while many are, they are packed, so that whole
# switches and servers remain for gangs. What a job itself says of neighbours comes first. The text
# names no threshold; 0.7 and 0.5 are ours.

PACK_ABOVE: Final = 0.7
SPREAD_BELOW: Final = 0.5
Packing = dict[str, bool]
"""By pool, whether jobs are packed in it since its load passed a threshold last."""


class Mode(StrEnum):
    """Which of equally near places a job gets."""

    adaptive = "adaptive"
    spread = "spread"
    pack = "pack"


_ADAPTIVE, _PACK = Mode.adaptive, Mode.pack  # members are slow to look up


@dataclass(frozen=True)
class Topology:
    """The nearest level that has room.

    `packed_pools` are the pools in which jobs are packed now, if that depends on the load: from a
    load above `pack_above` on, a part of the GPUs that are up, until one below `spread_below`.
    """

    mode: Mode = Mode.adaptive
    pack_above: float = PACK_ABOVE
    spread_below: float = SPREAD_BELOW
    packed_pools: frozenset[str] = frozenset()
    name: str = "topology"
    _packed: "dict[frozenset[str], Topology]" = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    classing = None

    def packed_in(self, pools: frozenset[str]) -> "Topology":
        """Return the placement as it places where jobs are packed in some pools."""
        found = self._packed.get(pools)
        if found is None:
            found = self._packed[pools] = replace(self, packed_pools=pools)
        return found

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if not demand.gpus:
            return _CONSOLIDATED.spots(pool, demand)
        if demand.gpus > pool.gpus_free:
            return None
        if demand.shapes:
            return self._shaped(pool, demand)
        spots = self._in_one_server(pool, demand)
        if spots is not None or demand.gpus < 2 or demand.max_level in IN_SERVER:
            return spots
        found = (largest_first(pool, demand, area) for area in _areas_for(pool, demand))
        return next((spots for spots in found if spots), None)

    def pick(self, pool: Pool, position: int, count: int, demand: Demand) -> int:
        """Return the mask of the GPUs that a demand takes on a server."""
        where, free = pool.servers[position].configuration, pool.free[position]
        return pick_gpus(where, free, count, demand.max_level, packs=self._packs(pool, demand))

    def _packs(self, pool: Pool, demand: Demand) -> bool:
        if demand.apart is not None:
            return not demand.apart
        return self.mode is _PACK or pool.gpu_type in self.packed_pools

    def _in_one_server(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return the server with the nearest room for the whole gang."""
        gpus, near = demand.gpus, pool.nearness
        if demand.max_level is Level.nvlink and Level.nvlink not in near.levels and gpus > 1:
            return None
        tables = [*near.tables, pool.buckets]
        packs, tried = self._packs(pool, demand), len(tables)
        if not packs and near.levels[:1] == (Level.nvlink,):
            # Neighbours are those below a switch: how free a joined group is says nothing of them.
            tables[0] = [0] * gpus + [_any(tables[0][gpus:])]
        if demand.max_level in BELOW_SERVER:
            bound = LEVEL_ORDER[demand.max_level]
            tried = 1 + sum(LEVEL_ORDER[level] < bound for level in near.levels)
        if not demand.cpus_milli and not demand.memory_mb:
            for at in range(tried):
                bits = _first(tables, at, gpus, packs=packs)
                if bits:
                    return [((bits & -bits).bit_length() - 1, gpus)]
            return None
        need = Need(demand.resources, None)
        for at in range(tried):
            for bits in _in_order(tables, at, gpus, -1, packs=packs):
                position = first_with(pool, bits, need)
                if position >= 0:
                    return [(position, gpus)]
        return None

    def _shaped(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return the first acceptable split that fits, as near together as it does."""
        for shape in demand.splits:
            if len(shape) == 1:
                spots = self._in_one_server(pool, demand)
            else:
                found = (
                    split_spots(pool, demand, shape, area) for area in _areas_for(pool, demand)
                )
                spots = next((spots for spots in found if spots), None)
            if spots is not None:
                return spots
        return None


def note_load(placement: Placement, packing: Packing, pools: Mapping[str, Pool]) -> None:
    """Note which pools have come to be loaded, or to be so no more.

    Args:
        placement: where gangs go; only one that adapts to the load asks for it.
        packing: what is remembered, and brought up to date.
        pools: the servers; their load is the part in use of the GPUs that are up.
    """
    if not isinstance(placement, Topology) or placement.mode is not _ADAPTIVE:
        return
    for name, pool in pools.items():
        used = pool.gpus_up - pool.gpus_free
        if used > placement.pack_above * pool.gpus_up:
            packing[name] = True
        elif used < placement.spread_below * pool.gpus_up:
            packing[name] = False


def at_load(placement: Placement, packing: Packing) -> Placement:
    """Return a placement as it places under the load that is remembered."""
    if not isinstance(placement, Topology) or placement.mode is not _ADAPTIVE:
        return placement
    return placement.packed_in(frozenset([name for name, packs in packing.items() if packs]))


def _first(tables: list[list[int]], at: int, gpus: int, *, packs: bool) -> int:
    """Return the first set of servers that `_in_order` yields; 0: none.

    Whoever has so many GPUs free in a group has them in the groups around it: so no choice is
    taken back. Joined groups alone may lie across those: then the next level decides.
    """
    bits = -1
    for table in tables[at:]:
        rows = table[gpus:]
        for row in rows if packs else reversed(rows):
            both = bits & row
            if both:
                bits = both
                break
        else:
            if bits < 0:
                return 0
    return bits


def _any(rows: list[int]) -> int:
    bits = 0
    for row in rows:
        bits |= row
    return bits


def _in_order(
    tables: list[list[int]], at: int, gpus: int, within: int, *, packs: bool
) -> Iterator[int]:
    """Yield servers with so many GPUs free in a group of a level, by how many it has.

    Among equals the levels around it count. The fewest come first, or if not `packs` the most.
    """
    is_last = at + 1 == len(tables)
    rows, across = tables[at][gpus:], within
    for row in rows if packs else reversed(rows):
        bits = row & within
        across &= ~row
        if bits and is_last:
            yield bits
        elif bits:
            yield from _in_order(tables, at + 1, gpus, bits, packs=packs)
    if across > 0:  # their joined group is across the groups of this level
        yield from _in_order(tables, at + 1, gpus, across, packs=packs)


def _areas_for(pool: Pool, demand: Demand) -> Iterator[int]:
    """Yield the sets of servers over which a gang may be spread, the nearest first."""
    level, gpus, near = demand.max_level, demand.gpus, pool.nearness
    widest = len(LEVEL_ORDER) if level is None else LEVEL_ORDER[level]
    if widest >= LEVEL_ORDER[Level.rack]:
        yield from _on_fewest(pool, near.racks, gpus)
    if widest >= LEVEL_ORDER[Level.domain]:
        yield from _on_fewest(pool, near.domains, gpus)
    if widest >= LEVEL_ORDER[Level.cluster]:
        yield -1


def _on_fewest(pool: Pool, areas: Mapping[str, Area], gpus: int) -> Iterator[int]:
    """Yield the areas with enough GPUs free, by on how few servers they are."""
    if not areas:
        return
    most = next(each for each in range(len(pool.buckets) - 1, -1, -1) if pool.buckets[each])
    bound = -(-gpus // most) if most else 0
    later: list[tuple[int, int, int]] = []
    for number, area in enumerate(areas.values()):
        servers = area.fewest(gpus)
        if servers == bound:
            yield area.bits
        elif servers:
            later.append((servers, number, area.bits))
    for _, _, bits in sorted(later):
        yield bits


# By skew: the size of a model's largest tensor over that of all of them. Skewed models suffer when
# their gang is spread; the others hardly notice (Gu et al., Tiresias, NSDI 2019). So a gang of a
# skewed model waits for the fewest servers that could hold it; others fill fragments first. A skew
# comes from the job itself, else from measured messages of its model, else from the table.

SKEW_THRESHOLD: Final = 0.375
"""The middle of the gap between the models that may spread and those that may not.

In the table of the Tiresias simulator the skews are up to 0.138 and from 0.611 on. Any threshold
between them makes the same two classes; the middle leaves most room for models not in the table.
"""


@dataclass(frozen=True)
class Skew(_Strategy):
    """Fewest servers for gangs of skewed models, best fit for all others.

    `skews` is the table, by model; a skew above `threshold` is skewed. `distrusts` says that a
    model of which nothing is known counts as skewed.
    """

    skews: Mapping[str, float] = field(default_factory=dict)
    threshold: float = SKEW_THRESHOLD
    distrusts: bool = False
    name: str = "skew"

    @property
    def classing(self) -> Classing:
        """It tells gangs apart itself."""
        return self

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""
        if not demand.tight:
            return super().spots(pool, demand)
        spots = _CONSOLIDATED.spots(pool, demand)
        if spots is None or len(spots) == 1 or demand.shapes:
            return spots
        return spots if len(spots) <= fewest_servers(pool, demand) else None

    def together(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return the server that it fits best."""
        return _CONSOLIDATED.spots(pool, demand)

    def spread(self, pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
        """Fill up servers, those with the fewest free GPUs first."""
        return _filled(pool, demand, [bucket & area for bucket in pool.buckets[1:]])

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


class Spread(_Strategy):
    """Worst fit, GPU by GPU; a job that must stay on one server takes the emptiest."""

    name = "spread"
    classing = None

    def together(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return the emptiest server that has all the job needs."""
        need = need_of(demand, demand.gpus)
        for bits in reversed(pool.buckets[demand.gpus :]):
            position = first_with(pool, bits, need)
            if position >= 0:
                return [(position, demand.gpus)]
        return None

    def spread(self, pool: Pool, demand: Demand, area: int) -> list[Spot] | None:
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


PLACEMENTS: dict[str, type[Placement]] = {
    "consolidated": Consolidated,
    "spread": Spread,
    "first_fit": FirstFit,
    "skew": Skew,
    "topology": Topology,
}
