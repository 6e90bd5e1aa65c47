"""A placement is refused only if there is none: every strategy against all that can be tried."""

from collections.abc import Iterator
from itertools import permutations, product

import pytest
from hypothesis import example, given, strategies as st

from shunter.core import Pool, Server
from shunter.core.planning import PLACEMENTS, place
from shunter.events import Demand, Level, LevelGroups, Reason, Share
from tests.factories import configuration, node_name
from tests.slices import searched

SWITCHES = (0b0011, 0b1100)
BY_SWITCH, BY_SOCKET = LevelGroups(Level.switch, SWITCHES), LevelGroups(Level.socket, (3, 12))
PAIRS = LevelGroups(Level.switch, (0b0101, 0b1010))
JOINED = tuple(
    LevelGroups(Level.nvlink, masks)
    for masks in ((0b0101, 0b1010), (0b0001, 0b0110, 0b1000), (0b0111, 0b1000), (0b1111,))
)
WIRINGS = (
    *((), (BY_SWITCH,), (BY_SOCKET,), (PAIRS, LevelGroups(Level.socket, (0b1111,)))),
    *((JOINED[0],), (JOINED[0], BY_SOCKET), (JOINED[1], BY_SWITCH), (JOINED[2], BY_SWITCH)),
    *((JOINED[3], BY_SWITCH, BY_SOCKET), (JOINED[1], PAIRS)),
)
NEAR = (Level.nvlink, Level.switch, Level.socket)
GPUS = 4


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Return up to four servers of four GPUs, some of them taken, with CPUs, memory and racks."""
    made = Pool("v100")
    for number in range(draw(st.integers(1, 4))):
        where = configuration(
            GPUS,
            rack=draw(st.sampled_from(["", "a", "b"])),
            levels=draw(st.sampled_from(WIRINGS)),
            cpus_milli=4000,
            memory_mb=40,
        )
        made.add(Server(node_name(number), where, number))
        made.set_free(number, draw(st.integers(0, 15)))
        made.cpus_free[number] = draw(st.integers(0, 4)) * 1000
        made.memory_free[number] = draw(st.integers(0, 4)) * 10
    return made


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    gpus = draw(st.integers(0, 8))
    splits = [split for split in _splits(gpus) if len(split) <= 4] if gpus else []
    shapes = draw(st.lists(st.sampled_from(splits), max_size=2)) if splits else []
    return Demand(
        gpus,
        cpus_milli=draw(st.sampled_from([0, 1000, 3000, 7000])),
        memory_mb=draw(st.sampled_from([0, 10, 50])),
        max_level=draw(st.sampled_from([None, *NEAR, Level.server, Level.rack])),
        shapes=tuple(shapes),
    )


def _splits(gpus: int, most: int = GPUS) -> Iterator[tuple[int, ...]]:
    """Return all ways to cut some GPUs into pieces, the largest first."""
    if not gpus:
        yield ()
    for piece in range(min(gpus, most), 0, -1):
        for rest in _splits(gpus - piece, piece):
            yield (piece, *rest)


def fits(pool: Pool, position: int, count: int, demand: Demand) -> bool:
    """Say whether a server could take so many of a gang's GPUs, by trying every mask."""
    gpus = demand.gpus
    cpus = -(-demand.cpus_milli * count // gpus) if gpus else demand.cpus_milli
    memory = -(-demand.memory_mb * count // gpus) if gpus else demand.memory_mb
    if pool.cpus_free[position] < cpus or pool.memory_free[position] < memory:
        return False
    groups = near_groups(pool.servers[position].configuration.levels, demand.max_level)
    return any((group & pool.free[position]).bit_count() >= count for group in groups)


def near_groups(levels: tuple[LevelGroups, ...], level: Level | None) -> tuple[int, ...]:
    """Return the groups within one of which GPUs must be: of the level, or the next described.

    Those that are joined are near enough for each level, on whatever switches they are.
    """
    masks = {groups.level: groups.masks for groups in levels}
    joined = masks.get(Level.nvlink, (1, 2, 4, 8))
    if level is Level.nvlink:
        return joined
    if level is Level.switch and Level.switch in masks:
        return (*masks[Level.switch], *joined)
    if level in NEAR and Level.socket in masks:
        return (*masks[Level.socket], *joined)
    return (15,)


def could_be_placed(pool: Pool, demand: Demand) -> bool:
    """Say whether there is any placement, by trying each."""
    servers = range(len(pool.servers))
    if not demand.gpus:
        return any(fits(pool, position, 0, demand) for position in servers)
    return any(
        all(not count or fits(pool, position, count, demand) for position, count in spots)
        for area in _areas(pool, demand)
        for spots in _candidates(demand, [one for one in servers if one in area])
    )


def _areas(pool: Pool, demand: Demand) -> list[set[int]]:
    racks = [server.configuration.rack for server in pool.servers]
    if demand.max_level is not Level.rack:
        return [set(range(len(racks)))]
    named = [
        {n for n, rack in enumerate(racks) if rack == name} for name in sorted({*racks} - {""})
    ]
    return [*named, *({n} for n, rack in enumerate(racks) if not rack)]


def _candidates(demand: Demand, servers: list[int]) -> Iterator[list[tuple[int, int]]]:
    in_one = demand.max_level in (*NEAR, Level.server)
    if demand.shapes:
        for shape in demand.shapes:
            if in_one and len(shape) > 1:
                continue
            for chosen in permutations(servers, len(shape)):
                yield list(zip(chosen, shape, strict=True))
    elif in_one:
        for one in servers:
            yield [(one, demand.gpus)]
    else:
        for counts in product(range(GPUS + 1), repeat=len(servers)):
            if sum(counts) == demand.gpus:
                yield list(zip(servers, counts, strict=True))


def holds(pool: Pool, free: list[int], shares: tuple[Share, ...], demand: Demand) -> bool:
    """Say whether what was placed was free, and is what was asked for."""
    names = {server.name: position for position, server in enumerate(pool.servers)}
    counts = [share.gpu_mask.bit_count() for share in shares]
    for share in shares:
        levels = pool.servers[names[share.node]].configuration.levels
        groups = near_groups(levels, demand.max_level)
        if all(share.gpu_mask & ~group for group in groups):
            return False
    if demand.max_level in (*NEAR, Level.server) and len(shares) > 1:
        return False
    wanted = {tuple(sorted(shape)) for shape in demand.shapes} or {tuple(sorted(counts))}
    return (
        sum(counts) == demand.gpus
        and tuple(sorted(counts)) in wanted
        and len({share.node for share in shares}) == len(shares)
        and all(share.gpu_mask & ~free[names[share.node]] == 0 for share in shares)
        and sum(share.cpus_milli for share in shares) == demand.cpus_milli
        and sum(share.memory_mb for share in shares) == demand.memory_mb
    )


def _two_over_two_switches() -> Pool:
    made = Pool("v100")
    for number, free in enumerate((0b0101, 0b1111)):
        where = configuration(GPUS, levels=WIRINGS[1], cpus_milli=4000, memory_mb=40)
        made.add(Server(node_name(number), where, number))
        made.set_free(number, free)
    return made


@pytest.mark.parametrize("strategy", sorted(PLACEMENTS))
@searched(400)
@given(pool=pools(), demand=demands())
@example(pool=_two_over_two_switches(), demand=Demand(2, max_level=Level.switch))
def test_placement_is_refused_only_if_there_is_none(
    strategy: str, pool: Pool, demand: Demand
) -> None:
    scratch, free = pool.copied(), [*pool.free]
    placed = place(PLACEMENTS[strategy](), scratch, demand)
    if isinstance(placed, Reason):
        assert not could_be_placed(pool, demand)
        if placed is Reason.cpu_or_memory_short:
            bare = Demand(demand.gpus, max_level=demand.max_level, shapes=demand.shapes)
            assert could_be_placed(pool, bare)
        assert scratch.free == free
    else:
        assert holds(pool, free, placed, demand)
        assert all(cpus >= 0 for cpus in scratch.cpus_free)
        assert all(memory >= 0 for memory in scratch.memory_free)
