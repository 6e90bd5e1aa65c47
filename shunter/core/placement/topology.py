"""Nearest first: the nearest level that a gang's contract accepts; jobs apart or packed by load.

A gang is on GPUs joined by NVLink if these have room for it, else on one switch, one socket, one
server, one rack, one domain, or anywhere; beyond a server on as few servers as can be there. It
waits only where no level that its contract accepts has room (Xiao, SOSP-SRC 2017).

Which of equally near places it gets depends on the load. While few GPUs of the pool are in use,
jobs are spread: on the switch, socket and server with the most GPUs free, so with the fewest
neighbours. While many are, they are packed: on the switch and the server with the fewest that
suffice, so that whole switches and servers remain for gangs. Between the two thresholds the pool
stays as it was: the text names no threshold, and 0.7 and 0.5 are ours. A job that says whether
neighbours slow it down is put apart, or packed, whatever the load.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from shunter.core.cluster import Pool
from shunter.core.cluster.nearness import Area
from shunter.core.placement.consolidated import Consolidated, largest_first
from shunter.core.placement.fitting import Need, first_with, pick_emptiest, pick_gpus, split_spots
from shunter.core.placement.strategy import Placement, Spot
from shunter.events.values import BELOW_SERVER, IN_SERVER, LEVEL_ORDER, Demand, Level

PACK_ABOVE: Final = 0.7
SPREAD_BELOW: Final = 0.5
Packing = dict[str, bool]
"""By pool, whether jobs are packed in it since its load passed a threshold last."""

_WITHOUT_GPUS: Final = Consolidated()


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
            return _WITHOUT_GPUS.spots(pool, demand)
        if demand.gpus > pool.gpus_free:
            return None
        if demand.shapes:
            return self._shaped(pool, demand)
        spots = self._in_one_server(pool, demand)
        if spots is not None or demand.gpus < 2 or demand.max_level in IN_SERVER:
            return spots
        found = (largest_first(pool, demand, area) for area in _areas(pool, demand))
        return next((spots for spots in found if spots), None)

    def pick(self, pool: Pool, position: int, count: int, demand: Demand) -> int:
        """Return the mask of the GPUs that a demand takes on a server."""
        where, free = pool.servers[position].configuration, pool.free[position]
        pick = pick_gpus if self._packs(pool, demand) else pick_emptiest
        return pick(where, free, count, demand.max_level)

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
                found = (split_spots(pool, demand, shape, area) for area in _areas(pool, demand))
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


def _areas(pool: Pool, demand: Demand) -> Iterator[int]:
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
