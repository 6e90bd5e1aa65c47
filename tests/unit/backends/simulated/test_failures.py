"""The chance behind failures: who dies when, as seen from outside."""

from collections.abc import Mapping
from itertools import islice, pairwise
from math import fsum

import pytest

from shunter.backends.simulated import Failures, NodeChange
from shunter.events import NodeName

ROOMS = {NodeName("n0"): "r1", NodeName("n1"): "r1", NodeName("n2"): "r2", NodeName("n3"): ""}


def drawn(count: int, racks: Mapping[NodeName, str] = ROOMS, **means_us: int) -> list[NodeChange]:
    return list(islice(Failures(racks=racks, **means_us).changes(), count))


def of(node: str, changes: list[NodeChange]) -> list[NodeChange]:
    return [change for change in changes if change.node == node]


def test_nothing_fails_without_means() -> None:
    assert drawn(5, mttr_us=10) == []


def test_changes_come_in_order_of_time() -> None:
    instants = [change.at_us for change in drawn(500, mtbf_us=900, mttr_us=80, rack_mtbf_us=700)]
    assert instants == sorted(instants)
    assert instants[0] > 0


@pytest.mark.parametrize("node", sorted(ROOMS))
def test_server_is_lost_and_comes_back_in_turn(node: str) -> None:
    changes = of(node, drawn(2000, mtbf_us=90, mttr_us=80, rack_mtbf_us=70))
    assert len(changes) > 100
    assert [change.is_loss for change in changes] == [n % 2 == 0 for n in range(len(changes))]


def test_times_to_failure_and_to_repair_have_the_given_means() -> None:
    changes = drawn(10_000, {NodeName("n0"): ""}, mtbf_us=1_000_000, mttr_us=50_000)
    gaps = [(later.at_us - change.at_us, change.is_loss) for change, later in pairwise(changes)]
    up = [gap for gap, was_loss in gaps if not was_loss]
    down = [gap for gap, was_loss in gaps if was_loss]
    # The mean of 5,000 exponential times has a standard error of 1.4 %: 5 % are 3.5 of those.
    assert fsum(up) / len(up) == pytest.approx(1_000_000, rel=0.05)
    assert fsum(down) / len(down) == pytest.approx(50_000, rel=0.05)


def test_exponential_times_are_often_short() -> None:
    changes = drawn(10_000, {NodeName("n0"): ""}, mtbf_us=1_000_000, mttr_us=1)
    up = [later.at_us - now.at_us for now, later in pairwise(changes) if not now.is_loss]
    # 1 - 1/e = 63.2 % of them are below the mean, with a standard error of 0.7 %.
    assert sum(gap < 1_000_000 for gap in up) / len(up) == pytest.approx(0.632, abs=0.025)


def test_rack_takes_all_its_servers_at_one_instant_and_gives_them_back() -> None:
    changes = drawn(12, rack_mtbf_us=1000, mttr_us=10)
    first = of("n0", changes)
    second = of("n1", changes)
    assert [(c.at_us, c.is_loss) for c in first] == [(c.at_us, c.is_loss) for c in second]
    assert {change.cause for change in changes} == {"rack"}


def test_server_in_no_rack_is_in_no_rack_failure() -> None:
    assert of("n3", drawn(200, rack_mtbf_us=1000, mttr_us=10)) == []


def test_server_that_is_down_with_its_rack_and_by_itself_waits_for_both_repairs() -> None:
    one = {NodeName("n0"): "r1"}
    alone = drawn(2000, one, mtbf_us=50, mttr_us=40)
    rack = drawn(2000, one, rack_mtbf_us=60, mttr_us=40)
    both = drawn(2000, one, mtbf_us=50, mttr_us=40, rack_mtbf_us=60)
    horizon_us = min(alone[-1].at_us, rack[-1].at_us, both[-1].at_us)
    downs = down_instants(alone, horizon_us) | down_instants(rack, horizon_us)
    assert down_instants(both, horizon_us) == downs


def down_instants(changes: list[NodeChange], horizon_us: int) -> set[int]:
    """Return the instants below a horizon at which the only server is down."""
    found: set[int] = set()
    for change, later in pairwise(changes):
        if change.is_loss:
            found.update(range(change.at_us, min(later.at_us, horizon_us)))
    return found


def test_another_server_changes_nothing_for_those_there_are() -> None:
    fewer = drawn(300, {NodeName("n0"): "", NodeName("n1"): ""}, mtbf_us=900, mttr_us=80)
    more = drawn(600, {NodeName(f"n{n}"): "" for n in range(4)}, mtbf_us=900, mttr_us=80)
    count = min(len(of("n1", fewer)), len(of("n1", more)))
    assert count > 50
    assert of("n1", fewer)[:count] == of("n1", more)[:count]


def test_other_seed_other_failures() -> None:
    assert drawn(20, seed=1, mtbf_us=900) != drawn(20, seed=2, mtbf_us=900)
    assert drawn(20, seed=1, mtbf_us=900) == drawn(20, seed=1, mtbf_us=900)
