"""A draft is the cluster after some changes, and is undone whole when it is closed."""

import pytest
from hypothesis import given, strategies as st

from shunter.core import NO_GUARDS, View
from shunter.core.fold import replay
from shunter.core.planning import PLACEMENTS, Draft
from shunter.events import Demand, Reason, Share
from tests.factories import node_name, scheduler_started, servers

GPUS = 4
DEMANDS = st.builds(
    Demand,
    st.integers(0, 2 * GPUS),
    cpus_milli=st.sampled_from([0, 1000, 3000]),
    memory_mb=st.sampled_from([0, 10]),
)


def cluster(count: int = 3) -> View:
    nodes = servers(*[GPUS] * count, cpus_milli=4000, memory_mb=40)
    state = replay([scheduler_started(), *nodes])
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    return view


def pool_name(view: View) -> str:
    (name,) = view.pools
    return name


def share(number: int, mask: int, cpus_milli: int = 0) -> Share:
    return Share(node_name(number), mask, cpus_milli)


@given(st.lists(DEMANDS, max_size=6), st.sampled_from(sorted(PLACEMENTS)), st.data())
def test_closing_puts_back_whatever_was_taken_and_given(
    demands: list[Demand], name: str, data: st.DataObject
) -> None:
    view = cluster()
    before = {name: pool.copied() for name, pool in view.pools.items()}
    with Draft(view) as draft:
        for demand in demands:
            if demand.gpus:
                shares = draft.place(PLACEMENTS[name](), pool_name(view), demand)
            else:
                shares = draft.place_without_gpus(PLACEMENTS[name](), demand)
            if not isinstance(shares, Reason) and shares and data.draw(st.booleans()):
                draft.give(shares[0])
    assert dict(view.pools) == before


def test_exception_closes_it_too() -> None:
    view = cluster(1)
    draft = Draft(view)
    with pytest.raises(ZeroDivisionError), draft:
        _take_and_fail(draft)
    with Draft(view) as draft:
        assert draft.has(share(0, 0b1111))


def _take_and_fail(draft: Draft) -> None:
    draft.take(share(0, 0b0011))
    assert not draft.has(share(0, 0b0001))
    raise ZeroDivisionError


def test_what_was_taken_is_free_for_nobody_and_what_was_given_is() -> None:
    view = cluster(1)
    with Draft(view) as draft:
        placed = draft.place(PLACEMENTS["consolidated"](), pool_name(view), Demand(3))
        assert placed == (share(0, 0b0111),)
        refused = draft.place(PLACEMENTS["consolidated"](), pool_name(view), Demand(2))
        assert refused is Reason.no_capacity
        draft.give(share(0, 0b0001))
        placed = draft.place(PLACEMENTS["consolidated"](), pool_name(view), Demand(2))
        assert placed == (share(0, 0b1001),)


def test_shares_of_the_same_gpus_need_their_cpus_together() -> None:
    with Draft(cluster(1)) as draft:
        assert draft.has(share(0, 0b1, 2000), share(0, 0b1, 2000))
        assert not draft.has(share(0, 0b1, 2000), share(0, 0b1, 2001))


def test_lost_server_has_nothing_to_give() -> None:
    view = cluster(1)
    view.cluster.servers[node_name(0)].drained = True
    view.cluster.changed(view.cluster.servers[node_name(0)])
    with Draft(view) as draft:
        draft.give(share(0, 0b1111))
        assert not draft.has(share(0, 0b0001))
        assert draft.pools[pool_name(view)].gpus_free == 0


@given(st.lists(DEMANDS, min_size=1, max_size=6), st.data())
def test_going_back_undoes_what_came_after_a_mark(
    demands: list[Demand], data: st.DataObject
) -> None:
    view = cluster()
    placement = PLACEMENTS["first_fit"]()
    with Draft(view) as draft:
        for demand in demands[: data.draw(st.integers(0, len(demands)))]:
            draft.place(placement, pool_name(view), demand)
        mark, before = draft.mark, draft.pools[pool_name(view)].copied()
        for demand in demands:
            shares = draft.place(placement, pool_name(view), demand)
            if not isinstance(shares, Reason) and data.draw(st.booleans()):
                for one in shares:
                    draft.give(one)
        draft.rollback(mark)
        assert draft.pools[pool_name(view)] == before


def test_what_was_given_is_taken_back_only_if_all_of_it_is_free() -> None:
    view = cluster(2)
    mine = (share(0, 0b0011, 1000), share(1, 0b0001))
    with Draft(view) as draft:
        for one in mine:
            draft.take(one)
        for one in mine:
            draft.give(one)
        draft.take(share(1, 0b0001))
        before = draft.pools[pool_name(view)].copied()
        assert not draft.take_back(mine), "another has a GPU of it"
        assert draft.pools[pool_name(view)] == before, "nothing was taken"
        draft.give(share(1, 0b0001))
        assert draft.take_back(mine)
        assert not draft.has(share(0, 0b0001))
        assert draft.has(share(0, 0b0100))


def test_nothing_is_taken_back_on_a_server_that_takes_no_jobs() -> None:
    view = cluster(1)
    view.cluster.servers[node_name(0)].drained = True
    view.cluster.changed(view.cluster.servers[node_name(0)])
    with Draft(view) as draft:
        assert draft.take_back([share(0, 0b0011)])
        assert draft.pools[pool_name(view)].gpus_free == 0
