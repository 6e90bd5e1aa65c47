"""Placement: which servers and GPUs a gang gets, and that it is never given what is not free."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import Pool, Server, lowest_bits
from shunter.core.planning import PLACEMENTS, Placement, pick_gpus, place
from shunter.events import Demand, Level, LevelGroups, Reason, Share
from tests.factories import configuration, node_name

WIRED = (
    LevelGroups(Level.switch, (0x03, 0x0C, 0x30, 0xC0)),
    LevelGroups(Level.socket, (0xF, 0xF0)),
)


def pool(*free: int, gpus: int = 4, racks: str = "", **fields: Any) -> Pool:
    """Return equal servers with so many GPUs free, the lowest; `racks` names one rack each."""
    made = Pool("v100")
    for number, count in enumerate(free):
        where = configuration(gpus, rack=racks[number : number + 1], **fields)
        made.add(Server(node_name(number), where, number))
        made.set_free(number, (1 << count) - 1)
    return made


def counts(strategy: str, made: Pool, demand: Demand) -> dict[str, int] | Reason:
    """Place a demand and return how many GPUs it has on each server, or why not."""
    shares = place(PLACEMENTS[strategy](), made, demand)
    if isinstance(shares, Reason):
        return shares
    return {str(share.node): share.gpu_mask.bit_count() for share in shares}


@pytest.mark.parametrize(
    ("strategy", "free", "gpus", "expected"),
    [
        ("consolidated", (4, 2, 3), 2, {"n1": 2}),
        ("consolidated", (4, 4, 4), 2, {"n0": 2}),
        ("consolidated", (4, 2, 3), 6, {"n0": 4, "n1": 2}),
        ("consolidated", (1, 3, 4), 5, {"n2": 4, "n0": 1}),
        ("consolidated", (2, 2, 2), 5, {"n0": 2, "n1": 2, "n2": 1}),
        ("consolidated", (2, 2), 5, Reason.no_capacity),
        ("spread", (4, 2, 3), 1, {"n0": 1}),
        ("spread", (4, 2, 3), 2, {"n0": 2}),
        ("spread", (4, 4, 4), 3, {"n0": 1, "n1": 1, "n2": 1}),
        ("spread", (4, 2, 3), 6, {"n0": 3, "n1": 1, "n2": 2}),
        ("spread", (2, 2), 5, Reason.no_capacity),
        ("first_fit", (1, 2, 4), 2, {"n0": 1, "n1": 1}),
        ("first_fit", (0, 2, 4), 1, {"n1": 1}),
        ("first_fit", (1, 2, 4), 7, {"n0": 1, "n1": 2, "n2": 4}),
        ("first_fit", (2, 2), 5, Reason.no_capacity),
    ],
)
def test_strategy_chooses_these_servers(
    strategy: str, free: tuple[int, ...], gpus: int, expected: dict[str, int] | Reason
) -> None:
    assert counts(strategy, pool(*free), Demand(gpus)) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("consolidated", {"n1": 3}), ("spread", {"n0": 3}), ("first_fit", {"n0": 3})],
)
def test_gang_that_must_stay_on_one_server_does(strategy: str, expected: dict[str, int]) -> None:
    demand = Demand(3, max_level=Level.server)
    assert counts(strategy, pool(4, 3, 2), demand) == expected
    assert counts(strategy, pool(2, 2, 2), demand) is Reason.locality_not_met


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_gang_that_must_stay_in_a_rack_does(strategy: str) -> None:
    demand = Demand(6, max_level=Level.rack)
    found = counts(strategy, pool(4, 2, 3, 3, racks="abba"), demand)
    assert isinstance(found, dict)
    assert found.keys() == {"n0", "n3"}
    assert counts(strategy, pool(4, 2, 3, racks="abc"), demand) is Reason.locality_not_met


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_gang_that_must_stay_in_a_domain_does(strategy: str) -> None:
    made = Pool("v100")
    for number, domain in enumerate("xyy"):
        made.add(Server(node_name(number), configuration(4, domain=domain), number))
    found = counts(strategy, made, Demand(8, max_level=Level.domain))
    assert found == {"n1": 4, "n2": 4}


def test_consolidated_prefers_one_rack_where_it_takes_no_more_servers() -> None:
    assert counts("consolidated", pool(4, 4, 3, 4, racks="abcb"), Demand(8)) == {"n1": 4, "n3": 4}
    assert counts("consolidated", pool(4, 2, 2, 4, racks="abbb"), Demand(8)) == {"n0": 4, "n3": 4}


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_servers_without_a_rack_share_none(strategy: str) -> None:
    demand = Demand(4, max_level=Level.rack)
    assert counts(strategy, pool(3, 4, 3), demand) == {"n1": 4}
    assert counts(strategy, pool(3, 3, 3), demand) is Reason.locality_not_met


def test_consolidated_takes_the_first_of_equal_racks() -> None:
    found = counts("consolidated", pool(4, 4, 4, 4, racks="aabb"), Demand(8))
    assert found == {"n0": 4, "n1": 4}


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_servers_without_enough_cpus_or_memory_are_passed_over(strategy: str) -> None:
    for what in ("cpus_milli", "memory_mb"):
        made = pool(4, 4, 4, cpus_milli=8, memory_mb=8)
        short = made.cpus_free if what == "cpus_milli" else made.memory_free
        short[0], short[2] = 3, 2
        demand = Demand(2, max_level=Level.server, **{what: 4})  # type: ignore[arg-type]  # by name
        assert counts(strategy, made, demand) == {"n1": 2}
        assert counts(strategy, made, demand) == {"n1": 2}
        assert isinstance(counts(strategy, made, demand), Reason)


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_gang_spans_servers_for_its_cpus_where_one_has_gpus_enough(strategy: str) -> None:
    made = pool(4, 4, cpus_milli=2000)
    assert counts(strategy, made, Demand(4, cpus_milli=4000)) == {"n0": 2, "n1": 2}


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_cpus_that_no_split_can_give_are_short(strategy: str) -> None:
    made = pool(4, 4, cpus_milli=2000)
    assert counts(strategy, made, Demand(2, cpus_milli=6000)) is Reason.cpu_or_memory_short


def test_cpus_and_memory_of_a_gang_follow_its_gpus() -> None:
    made = pool(4, 4, cpus_milli=64, memory_mb=64)
    shares = place(PLACEMENTS["consolidated"](), made, Demand(6, cpus_milli=9, memory_mb=6))
    assert shares == (Share(node_name(0), 0xF, 6, 4), Share(node_name(1), 3, 3, 2))
    assert (made.cpus_free, made.memory_free) == ([58, 61], [60, 62])


def test_no_part_of_a_gang_gets_more_cpus_than_its_gpus_need() -> None:
    """Two CPUs over GPUs 1 + 1 + 2: rounding must not push both onto the last server."""
    made = pool(1, 1, 2, cpus_milli=1)
    shares = place(PLACEMENTS["first_fit"](), made, Demand(4, cpus_milli=2))
    assert not isinstance(shares, Reason)
    assert [share.cpus_milli for share in shares] == [0, 1, 1]


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_cpu_job_takes_no_gpu(strategy: str) -> None:
    made = pool(4, 4, cpus_milli=8)
    made.cpus_free[0] = made.cpus_free[1] = 5
    shares = place(PLACEMENTS[strategy](), made, Demand(0, cpus_milli=5))
    assert shares == (Share(node_name(0), 0, 5, 0),)
    assert made.gpus_free == 8


@pytest.mark.parametrize("strategy", PLACEMENTS)
def test_shapes_are_tried_in_their_order(strategy: str) -> None:
    demand = Demand(4, shapes=((4,), (2, 2), (1, 3)))
    assert counts(strategy, pool(3, 4), demand) == {"n1": 4}
    assert counts(strategy, pool(3, 2, 3), demand) == {"n1": 2, "n0": 2}
    assert counts(strategy, pool(1, 1, 3), demand) == {"n2": 3, "n0": 1}
    assert counts(strategy, pool(1, 1, 1, 1), demand) is Reason.fragmented


@pytest.mark.parametrize(
    ("free", "count", "max_level", "expected"),
    [
        (0xFF, 2, None, 0b11),
        (0b1110, 2, None, 0b1100),
        (0b0111_1111, 1, None, 0b0100_0000),
        (0b1010, 2, None, 0b1010),
        (0b1010, 2, Level.switch, 0),
        (0b0001_1010, 3, Level.socket, 0),
        (0b0001_1010, 3, Level.server, 0b0001_1010),
        (0b0111_1011, 3, Level.socket, 0b0000_1011),
        (0b1110_1110, 6, None, 0b1110_1110),
        (0b1011_1111, 6, None, 0b0011_1111),
    ],
)
def test_nearest_gpus_that_leave_the_best_rest_are_picked(
    free: int, count: int, max_level: Level | None, expected: int
) -> None:
    assert pick_gpus(configuration(8, levels=WIRED), free, count, max_level) == expected


def test_gang_finds_no_place_where_no_switch_has_enough_free() -> None:
    made = pool(8, gpus=8, levels=WIRED)
    made.set_free(0, 0b0101_0101)
    demand = Demand(2, max_level=Level.switch)
    assert counts("consolidated", made, demand) is Reason.locality_not_met
    assert made.free == [0b0101_0101]


@given(mask=st.integers(1, 0xFFFF), data=st.data())
def test_lowest_bits_are_the_lowest(mask: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, mask.bit_count()))
    ones = [bit for bit in range(16) if mask >> bit & 1]
    assert lowest_bits(mask, count) == sum(1 << bit for bit in ones[:count])


@st.composite
def pools(draw: st.DrawFn, *, tight: bool = False) -> Pool:
    """Return a small pool with any GPUs free, its servers perhaps wired, racked, short of CPUs."""
    made = Pool("v100")
    wired = draw(st.booleans())
    for number in range(draw(st.integers(1, 6))):
        where = configuration(
            draw(st.integers(1, 8)),
            rack=draw(st.sampled_from(["", "a", "b"])),
            cpus_milli=draw(st.integers(0, 9)) if tight else 0,
            memory_mb=draw(st.integers(0, 9)) if tight else 0,
            levels=WIRED if wired else (),
        )
        made.add(Server(node_name(number), where, number))
        made.set_free(number, draw(st.integers(0, (1 << where.gpus) - 1)))
    return made


strategies = st.sampled_from([strategy() for strategy in PLACEMENTS.values()])


@given(made=pools(), gpus=st.integers(1, 24))
def test_consolidated_uses_the_fewest_servers(made: Pool, gpus: int) -> None:
    """Against every subset of the servers, smallest first."""
    free = [mask.bit_count() for mask in made.free]
    sizes = (
        size
        for size in range(1, len(free) + 1)
        if any(sum(some) >= gpus for some in combinations(free, size))
    )
    found = counts("consolidated", made, Demand(gpus))
    expected = next(sizes, None)
    assert (len(found) if isinstance(found, dict) else None) == expected


@given(made=pools(), gpus=st.integers(1, 24), strategy=strategies)
def test_plain_gang_finds_a_place_whenever_enough_gpus_are_free(
    made: Pool, gpus: int, strategy: Placement
) -> None:
    enough = made.gpus_free >= gpus
    assert isinstance(place(strategy, made, Demand(gpus)), tuple) == enough


def room(made: Pool, demand: Demand) -> int:
    """Return how many of a gang's GPUs the servers have CPUs and memory for, all together."""
    return sum(
        max(
            count
            for count in range(made.free[i].bit_count() + 1)
            if made.cpus_free[i] >= -(-demand.cpus_milli * count // demand.gpus)
            and made.memory_free[i] >= -(-demand.memory_mb * count // demand.gpus)
        )
        for i in range(len(made.servers))
    )


@given(
    made=pools(tight=True),
    demand=st.builds(
        Demand, st.integers(2, 12), cpus_milli=st.integers(0, 12), memory_mb=st.integers(0, 12)
    ),
    strategy=strategies,
)
def test_gang_with_cpus_finds_a_place_whenever_the_servers_have_room_for_it(
    made: Pool, demand: Demand, strategy: Placement
) -> None:
    enough = room(made, demand) >= demand.gpus
    assert isinstance(place(strategy, made, demand), tuple) == enough


demands = st.builds(
    Demand,
    st.integers(1, 12),
    cpus_milli=st.integers(0, 12),
    memory_mb=st.integers(0, 12),
    max_level=st.sampled_from([None, *Level]),
    shapes=st.just(()),
) | st.builds(
    lambda shape, cpus: Demand(sum(shape), cpus_milli=cpus, shapes=(tuple(shape),)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 12),
)


@given(made=pools(tight=True), wanted=st.lists(demands, max_size=5), strategy=strategies)
def test_nothing_is_given_away_that_is_not_free(
    made: Pool, wanted: list[Demand], strategy: Placement
) -> None:
    """The index of the pool stays that of its masks, and a refusal takes nothing."""
    by_name = {server.name: server.position for server in made.servers}
    for demand in wanted:
        before = made.copied()
        shares = place(strategy, made, demand)
        taken: tuple[Share, ...] = () if isinstance(shares, Reason) else shares
        for share in taken:
            position = by_name[share.node]
            assert share.gpu_mask & before.free[position] == share.gpu_mask
            before.set_free(position, before.free[position] ^ share.gpu_mask)
            before.cpus_free[position] -= share.cpus_milli
            before.memory_free[position] -= share.memory_mb
        assert made == before
        assert min(made.cpus_free + made.memory_free) >= 0
        given_away = [sum(share.gpu_mask.bit_count() for share in taken), len(taken)]
        given_away += [sum(s.cpus_milli for s in taken), sum(s.memory_mb for s in taken)]
        whole = [demand.gpus, len({share.node for share in taken})]
        whole += [demand.cpus_milli, demand.memory_mb]
        assert given_away == (whole if taken else [0, 0, 0, 0])


@pytest.mark.parametrize("name", ["consolidated", "spread", "first_fit", "topology"])
def test_a_split_over_servers_is_not_accepted_within_one(name: str) -> None:
    """Of a level and of splits the narrower counts (decision 0060)."""
    made = pool(2, 2)
    apart = Demand(2, max_level=Level.server, shapes=((1, 1),))
    assert place(PLACEMENTS[name](), made, apart) is Reason.locality_not_met
    both = replace(apart, shapes=((1, 1), (2,)))
    found = place(PLACEMENTS[name](), made, both)
    assert isinstance(found, tuple)
    assert len(found) == 1
