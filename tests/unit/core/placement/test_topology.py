"""Placement `topology`: the nearest level there is, and jobs apart or packed by the load."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, strategies as st

from shunter.core import Nearness, Pool, Server
from shunter.core.planning import Mode, Packing, Topology, at_load, note_load, pick_gpus, place
from shunter.core.speeds import level_of
from shunter.events import Allocation, Demand, Level, LevelGroups, Reason, Share
from tests.factories import configuration, node_name
from tests.slices import searched
from tests.unit.core.placement.test_complete import (
    could_be_placed,
    demands,
    holds,
    near_groups,
    pools,
)

ORDER = list(Level)
WIRED = (
    LevelGroups(Level.switch, (0b0000_0011, 0b0000_1100, 0b0011_0000, 0b1100_0000)),
    LevelGroups(Level.socket, (0b0000_1111, 0b1111_0000)),
)
PACK, SPREAD = Topology(Mode.pack), Topology(Mode.spread)
both_modes = pytest.mark.parametrize("placement", [PACK, SPREAD], ids=["pack", "spread"])


def _pool(*free: int, **where: str) -> Pool:
    made = Pool("v100")
    for number, mask in enumerate(free):
        made.add(Server(node_name(number), configuration(8, levels=WIRED, **where), number))
        made.set_free(number, mask)
    return made


def _placed(placement: Topology, pool: Pool, demand: Demand) -> dict[str, int]:
    shares = place(placement, pool, demand)
    assert not isinstance(shares, Reason), shares
    return {str(share.node): share.gpu_mask for share in shares}


def _level(pool: Pool, taken: Allocation) -> Level:
    """Return how far apart GPUs are; a level that a server does not describe divides nothing."""
    nodes = {server.name: server.configuration for server in pool.servers}
    share, *others = taken.shares
    if others:
        return level_of(taken, nodes)
    where = nodes[share.node]
    return next(
        level
        for level in ORDER
        if any(not share.gpu_mask & ~group for group in near_groups(where.levels, level))
    )


def _nearest(pool: Pool, demand: Demand) -> Level | None:
    """Return the nearest level at which a gang has room, by trying every set of free GPUs."""
    found = []
    for masks in product(*([range(16)] * len(pool.servers))):
        shares = tuple(
            Share(server.name, mask)
            for server, mask in zip(pool.servers, masks, strict=True)
            if mask
        )
        taken = Allocation(shares)
        is_free = all(mask & ~free == 0 for mask, free in zip(masks, pool.free, strict=True))
        if shares and is_free and taken.gpus == demand.gpus:
            found.append(_level(pool, taken))
    return min(found, key=ORDER.index, default=None)


@both_modes
@searched(150)
@given(pool=pools().filter(lambda pool: len(pool.servers) < 4), gpus=st.integers(1, 8))
def test_gang_gets_the_nearest_level_that_has_room(
    placement: Topology, pool: Pool, gpus: int
) -> None:
    best = _nearest(pool, Demand(gpus))
    shares = place(placement, pool.copied(), Demand(gpus))

    if isinstance(shares, Reason):
        assert best is None
    else:
        assert _level(pool, Allocation(shares)) is best


@both_modes
@searched(400)
@given(pool=pools(), demand=demands(), apart=st.sampled_from([None, True, False]))
def test_gang_waits_only_if_no_placement_honours_its_contract(
    placement: Topology, pool: Pool, demand: Demand, apart: bool | None
) -> None:
    scratch, free = pool.copied(), [*pool.free]
    shares = place(placement, scratch, replace(demand, apart=apart))

    if isinstance(shares, Reason):
        assert not could_be_placed(pool, demand)
    else:
        assert holds(pool, free, shares, demand)


@searched(200)
@given(pool=pools(), data=st.data())
def test_index_of_nearness_follows_what_is_free(pool: Pool, data: st.DataObject) -> None:
    kept = pool.nearness
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(pool.servers) - 1))
        pool.set_free(position, data.draw(st.integers(0, 15)))
    fresh = Nearness(pool.servers, pool.free)

    assert pool.nearness is kept  # and brings it up to date
    assert (kept.levels, kept.tables) == (fresh.levels, fresh.tables)
    assert (kept.racks, kept.domains) == (fresh.racks, fresh.domains)


def test_server_that_joins_is_part_of_the_index() -> None:
    made = _pool(0b11, rack="a")
    assert made.nearness.racks["a"].free == 2
    made.add(Server(node_name(1), configuration(8, levels=WIRED, rack="b"), 1))
    made.set_free(1, 0xFF)

    assert _placed(PACK, made, Demand(8)) == {"n1": 0xFF}


def test_small_jobs_are_packed_where_a_switch_is_broken_already() -> None:
    """n0 has a whole switch free and is the fullest server; n1 has one GPU beside a job."""
    made = _pool(0b0000_0011, 0b0000_0100 | 0b0011_0000)

    assert _placed(PACK, made, Demand(1)) == {"n1": 0b100}


def test_small_jobs_are_spread_to_the_switch_socket_and_server_with_fewest_neighbours() -> None:
    assert _placed(SPREAD, _pool(0b0000_0111, 0b1110_0000), Demand(1)) == {"n0": 0b1}
    assert _placed(SPREAD, _pool(0b0011_0001, 0b0011_1111), Demand(1)) == {"n1": 0b1}
    made = _pool(0xFF)
    order = [_placed(SPREAD, made, Demand(1))["n0"] for _ in range(4)]
    assert order == [0b1, 0b1_0000, 0b100, 0b100_0000]


def test_gang_is_together_before_it_is_apart_from_others() -> None:
    """One switch of n0 is free whole; n1 has more GPUs free, but no switch has two."""
    assert _placed(SPREAD, _pool(0b0000_0011, 0b0101_0101), Demand(2)) == {"n0": 0b11}


def test_job_that_says_what_neighbours_do_is_placed_by_that() -> None:
    free = (0b0000_0111, 0b0000_0100)
    assert _placed(PACK, _pool(*free), Demand(1, apart=True)) == {"n0": 0b1}
    assert _placed(SPREAD, _pool(*free), Demand(1, apart=False)) == {"n1": 0b100}


def test_gang_over_servers_stays_in_a_rack_and_on_few_servers() -> None:
    made = Pool("v100")
    racks = ("a", "b", "b", "c", "c", "c")
    for number, (rack, free) in enumerate(
        zip(racks, (0x0F, 0x07, 0x07, 0x03, 0x03, 0x03), strict=True)
    ):
        made.add(Server(node_name(number), configuration(8, rack=rack), number))
        made.set_free(number, free)

    assert _placed(PACK, made.copied(), Demand(5)) == {"n1": 0b111, "n2": 0b11}
    assert set(_placed(PACK, made.copied(), Demand(7))) == {"n0", "n1"}
    assert place(PACK, made.copied(), Demand(7, max_level=Level.rack)) is Reason.locality_not_met


def test_splits_are_sought_within_a_rack_first() -> None:
    made = Pool("v100")
    for number, rack in enumerate(("a", "b", "b")):
        made.add(Server(node_name(number), configuration(8, rack=rack), number))
        made.set_free(number, 0b1111 if number == 1 else 0b11)

    assert set(_placed(PACK, made, Demand(4, shapes=((2, 2), (4,))))) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("free", "count", "max_level", "expected"),
    [
        (0xFF, 2, None, 0b11),
        (0b1111_0111, 1, None, 0b1_0000),
        (0b0000_1101, 1, None, 0b100),
        (0b1010_1010, 2, None, 0b1010),
        (0b1010, 2, Level.switch, 0),
        (0b0001_1010, 3, Level.socket, 0),
        (0b1110_1110, 6, None, 0b1110_1110),
    ],
)
def test_emptiest_group_is_picked(
    free: int, count: int, max_level: Level | None, expected: int
) -> None:
    assert (
        pick_gpus(configuration(8, levels=WIRED), free, count, max_level, packs=False) == expected
    )


ACROSS = (
    LevelGroups(Level.nvlink, (0b0101, 0b1010)),
    LevelGroups(Level.socket, (0b0011, 0b1100)),
)


def _joined(*levels: tuple[LevelGroups, ...]) -> Pool:
    made = Pool("v100")
    for number, each in enumerate(levels):
        made.add(Server(node_name(number), configuration(4, levels=each), number))
        made.set_free(number, 0b1111)
    return made


@both_modes
@pytest.mark.parametrize("levels", [ACROSS[:1], ACROSS], ids=["alone", "across sockets"])
def test_pairs_get_joined_gpus_on_whatever_sockets_they_are(
    placement: Topology, levels: tuple[LevelGroups, ...]
) -> None:
    made = _joined(levels)

    assert _placed(placement, made, Demand(2)) == {"n0": 0b0101}
    assert _placed(placement, made, Demand(2, max_level=Level.nvlink)) == {"n0": 0b1010}


@both_modes
def test_joined_gpus_are_nearer_than_those_of_a_switch_of_another_server(
    placement: Topology,
) -> None:
    made = _joined((LevelGroups(Level.switch, (0b0011, 0b1100)),), ACROSS)

    assert _placed(placement, made, Demand(2)) == {"n1": 0b0101}
    made.set_free(1, 0b0110)
    assert _placed(placement, made, Demand(2)) == {"n0": 0b0011}


@both_modes
def test_gpus_that_nobody_says_are_joined_are_not(placement: Topology) -> None:
    made = _joined((), (LevelGroups(Level.switch, (0b0011, 0b1100)),))
    demand = Demand(2, max_level=Level.nvlink)

    assert place(placement, made, demand) is Reason.locality_not_met
    assert place(placement, made, replace(demand, gpus=1)) is not Reason.locality_not_met


def test_single_gpus_leave_joined_pairs_whole() -> None:
    """GPUs 0 and 1 are one pair, 2 and 3 are alone on their sockets."""
    levels = (LevelGroups(Level.nvlink, (0b0011, 0b0100, 0b1000)), ACROSS[1])
    packed = [_placed(PACK, pool, Demand(1)) for pool in [_joined(levels)] for _ in range(3)]

    assert packed == [{"n0": 0b0100}, {"n0": 0b1000}, {"n0": 0b0001}]


def test_apart_counts_neighbours_below_a_switch_and_not_over_nvlink() -> None:
    made = _joined(ACROSS)
    found = [_placed(SPREAD, made, Demand(1))["n0"] for _ in range(2)]

    assert found == [0b0001, 0b0100]  # the two sockets, of one pair: the other one stays whole


def test_gpus_that_are_all_joined_are_chosen_by_switch() -> None:
    """A server with NVSwitch: NVLink tells nothing of who is near to whom in it."""
    joined = (LevelGroups(Level.nvlink, (0xFF,)), *WIRED)
    for free, count in product(range(1, 256), (1, 2, 3, 4)):
        if free.bit_count() >= count:
            for packs in (True, False):
                by_switch = pick_gpus(configuration(8, levels=WIRED), free, count, packs=packs)
                assert (
                    pick_gpus(configuration(8, levels=joined), free, count, packs=packs)
                    == by_switch
                )


def test_pool_is_packed_above_one_load_until_it_is_below_another() -> None:
    made = _pool(*[0] * 10)
    packing: Packing = {}
    seen = []
    for used in (0, 50, 70, 71, 60, 50, 49, 60, 71):
        made.gpus_up, made.gpus_free = 100, 100 - used
        note_load(Topology(), packing, {"v100": made})
        placement = at_load(Topology(), packing)
        assert isinstance(placement, Topology)
        seen.append("v100" in placement.packed_pools)

    assert seen == [False, False, False, True, True, True, False, False, True]


@both_modes
def test_fixed_mode_remembers_no_load(placement: Topology) -> None:
    packing: Packing = {}
    note_load(placement, packing, {"v100": _pool(0)})

    assert packing == {}
    assert at_load(placement, {"v100": True}) is placement
