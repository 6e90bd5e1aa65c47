"""Gandiva fair: parts by tickets, and trades that serve both sides."""

from collections import defaultdict

import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, Fractions, GandivaFair, Holding, JobRequest, trade

FAST, SLOW = GpuType("fast"), GpuType("slow")
TABLE = ThroughputTable({})


def request(number: int, user: str, fast: float, slow: float = 1.0, gpus: int = 1) -> JobRequest:
    kind = JobKind("m", gpus)
    rates = {FAST: fast, SLOW: slow}
    return JobRequest(JobId(f"j{number}"), kind, 100, entity=user, rates=rates)


def users(*speeds: float, jobs: int = 8) -> list[JobRequest]:
    """Return users u0, u1, … with so many jobs each, and how much faster each is."""
    return [
        request(jobs * number + place, f"u{number}", speed)
        for number, speed in enumerate(speeds)
        for place in range(jobs)
    ]


def parts(
    requests: list[JobRequest], fast: int = 4, slow: int = 4, objective: GandivaFair | None = None
) -> dict[str, dict[GpuType, float]]:
    """Return the GPUs that each user has of each type, having checked every limit."""
    demands = Demands(tuple(requests), {FAST: fast, SLOW: slow}, TABLE)
    found = (objective or GandivaFair()).fractions(demands)
    return checked(found, demands)


def checked(found: Fractions, demands: Demands) -> dict[str, dict[GpuType, float]]:
    has: dict[str, dict[GpuType, float]] = defaultdict(lambda: dict.fromkeys((FAST, SLOW), 0.0))
    for one in demands.requests:
        row = found[(one.job_id,)]
        assert sum(row.values()) <= 1 + 1e-9
        for name, part in row.items():
            assert part == 0 or demands.rate(one, name) > 0
            has[one.entity][name] += part * one.kind.gpus
    for name, gpus in demands.gpus.items():
        assert sum(row[name] for row in has.values()) <= gpus + 1e-9
    return dict(has)


def done(row: dict[GpuType, float], worth: float) -> float:
    """Return what GPUs do, in slow ones."""
    return row[FAST] * worth + row[SLOW]


def test_users_have_equal_parts_of_each_type_where_nobody_trades() -> None:
    found = parts(users(3.0, 3.0))

    assert found["u0"] == found["u1"] == {FAST: 2.0, SLOW: 2.0}


def test_tickets_weigh() -> None:
    found = parts(users(3.0, 3.0), objective=GandivaFair({"u0": 3.0}))

    assert found == {"u0": {FAST: 3.0, SLOW: 3.0}, "u1": {FAST: 1.0, SLOW: 1.0}}


def test_types_are_given_in_the_order_of_what_jobs_gain_and_not_of_their_rates() -> None:
    """Three of four are faster on slow GPUs: these are parted first, though one has high rates."""
    few = [request(0, "a", 100.0, 50.0), *(request(n, "b", 1.0, 2.0) for n in range(1, 4))]
    found = parts(few, fast=2, slow=1, objective=GandivaFair(agnostic=True))

    assert found == {"a": {FAST: 0.5, SLOW: 0.5}, "b": {FAST: 1.5, SLOW: 0.5}}


def test_user_takes_no_more_of_a_type_than_its_jobs_can_use_still() -> None:
    assert Holding({FAST: 1.0, SLOW: 0.0}, {FAST: 3.0, SLOW: 9.0}, 5.0).takes(FAST) == 2.0


def test_who_gains_most_buys_at_the_price_of_the_second() -> None:
    """Users gain 4, 2 and 1 times: u0 pays its 2 slow GPUs for one fast one of u2.

    Then u1 is the only bidder for what u2 has left, and they meet at the root of 2.
    """
    found = parts(users(4.0, 2.0, 1.0), fast=6, slow=6)

    assert found["u0"] == pytest.approx({FAST: 3.0, SLOW: 0.0})
    assert found["u1"] == pytest.approx({FAST: 3.0, SLOW: 2.0 - 2.0**0.5})
    assert found["u2"] == pytest.approx({FAST: 0.0, SLOW: 4.0 + 2.0**0.5})


def test_two_alone_meet_in_the_middle() -> None:
    """Worth 4 and 1: two slow GPUs for a fast one."""
    found = parts(users(4.0, 1.0))

    assert found["u0"] == pytest.approx({FAST: 3.0, SLOW: 0.0})
    assert found["u1"] == pytest.approx({FAST: 1.0, SLOW: 4.0})


def test_agnostic_users_do_not_trade() -> None:
    found = parts(users(4.0, 1.0), objective=GandivaFair(agnostic=True))

    assert found["u0"] == found["u1"] == {FAST: 2.0, SLOW: 2.0}


def test_user_with_few_jobs_leaves_the_rest_to_others() -> None:
    requests = [*users(2.0), request(99, "one", 2.0)]
    found = parts(requests)

    assert sum(found["one"].values()) == pytest.approx(1.0)
    assert sum(found["u0"].values()) == pytest.approx(7.0)


def test_seller_who_cannot_use_more_gpus_does_not_sell() -> None:
    few = [request(50 + number, "full", 1.0) for number in range(4)]
    found = parts([*users(4.0), *few])

    assert sum(found["full"].values()) == pytest.approx(4.0)
    assert found["full"][FAST] == pytest.approx(2.0)


def test_job_gets_nothing_of_a_type_on_which_it_cannot_run() -> None:
    requests = [request(0, "a", 2.0, 0.0), request(1, "a", 0.0, 1.0), request(2, "b", 2.0)]

    assert parts(requests, fast=1, slow=1)["a"][SLOW] > 0


SPEEDS = st.lists(st.floats(0.5, 8.0), min_size=1, max_size=6)


@given(speeds=SPEEDS, room=st.tuples(st.integers(1, 9), st.integers(1, 9)), jobs=st.integers(1, 9))
def test_trade_makes_nobody_worse_off(
    speeds: list[float], room: tuple[int, int], jobs: int
) -> None:
    requests = users(*speeds, jobs=jobs)
    before = parts(requests, *room, objective=GandivaFair(agnostic=True))
    after = parts(requests, *room)

    for number, speed in enumerate(speeds):
        name = f"u{number}"
        assert done(after[name], speed) >= done(before[name], speed) * (1 - 1e-9)


@given(
    worth=st.lists(st.floats(0.25, 9.0), min_size=2, max_size=7),
    gpus=st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.floats(0, 4)), min_size=7, max_size=7
    ),
)
def test_trade_moves_gpus_and_makes_none(
    worth: list[float], gpus: list[tuple[float, float, float]]
) -> None:
    holdings = {
        f"u{number}": Holding({FAST: fast, SLOW: slow}, {FAST: 9.0, SLOW: 9.0}, fast + slow + spare)
        for number, (fast, slow, spare) in enumerate(gpus[: len(worth)])
    }
    before = {name: dict(holding.gpus) for name, holding in holdings.items()}

    trade(holdings, {f"u{number}": one for number, one in enumerate(worth)}, FAST, SLOW)

    for gpu_type in (FAST, SLOW):
        total = sum(holding.gpus[gpu_type] for holding in holdings.values())
        assert total == pytest.approx(sum(row[gpu_type] for row in before.values()))
    for number, one in enumerate(worth):
        holding = holdings[f"u{number}"]
        assert min(holding.gpus.values()) >= -1e-9
        assert holding.room >= -1e-9
        assert done(holding.gpus, one) >= done(before[f"u{number}"], one) - 1e-9
