"""When gangs over several servers have their turns: parts, order and periods."""

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node import Timetable
from shunter.backends.turn_timetables import timetables
from shunter.core import LEAST_PART, Tenant, gang_slots, gpus_of
from shunter.events import JobId, NodeName, Share
from tests.factories import allocation

EPSILON = 1e-9


def tenants(**given: tuple[dict[str, int], float]) -> dict[JobId, Tenant]:
    return {
        JobId(name): Tenant(allocation(**masks).shares, weight)
        for name, (masks, weight) in given.items()
    }


def test_two_gangs_on_the_same_servers_have_half_of_the_time_each() -> None:
    both = {"n0": 0b1111, "n1": 0b1111}
    found = gang_slots(tenants(a=(both, 1.0), b=(both, 1.0)))
    assert [(slot.begins, slot.ends) for slot in found.values()] == [(0.0, 0.5), (0.5, 1.0)]
    times = timetables(tenants(a=(both, 1.0), b=(both, 1.0)), 60)
    assert [tuple(times[JobId(name)]) for name in "ab"] == [(120, 0, 60), (120, 60, 60)]


def test_part_is_the_least_of_its_gpus_and_weights_count() -> None:
    gang = {"n0": 0b1, "n1": 0b1}
    found = gang_slots(tenants(a=(gang, 1.0), b=({"n0": 0b1}, 1.0), c=({"n0": 0b1}, 2.0)))
    assert {job: slot.part for job, slot in found.items()} == {"a": 0.25}
    assert gang_slots(tenants(b=({"n0": 0b1}, 1.0), c=({"n0": 0b1}, 2.0))) == {}


def test_gang_alone_has_all_of_the_time() -> None:
    (time,) = timetables(tenants(a=({"n0": 0b1, "n1": 0b1}, 3.0)), 60).values()
    assert all(time.covers(at_us) for at_us in range(200))
    assert time.changes_us(17) is None


def test_three_that_meet_in_a_ring_have_a_third_each() -> None:
    found = gang_slots(
        tenants(
            a=({"n0": 1, "n1": 1}, 1.0), b=({"n1": 1, "n2": 1}, 1.0), c=({"n2": 1, "n0": 1}, 1.0)
        )
    )
    assert [slot.part for slot in found.values()] == pytest.approx([1 / 3] * 3)


@st.composite
def crowds(draw: st.DrawFn) -> dict[JobId, Tenant]:
    found = {}
    for number in range(draw(st.integers(1, 7))):
        masks = draw(st.dictionaries(st.integers(0, 3), st.integers(1, 7), min_size=1, max_size=3))
        shares = tuple(Share(NodeName(f"n{node}"), mask) for node, mask in sorted(masks.items()))
        found[JobId(f"j{number}")] = Tenant(shares, draw(st.sampled_from([0.25, 1.0, 1.0, 3.0])))
    return found


@given(crowds(), st.sampled_from([1, 10, 60_000_000]))
def test_turns_of_gangs_that_share_a_gpu_never_overlap(
    crowd: dict[JobId, Tenant], quantum_us: int
) -> None:
    slots, times = gang_slots(crowd), timetables(crowd, quantum_us)
    assert slots.keys() == {name for name, each in crowd.items() if len(each.shares) > 1}
    gpus = {name: {gpu for share in crowd[name].shares for gpu in gpus_of(share)} for name in crowd}
    for name, slot in slots.items():
        fair = min(
            crowd[name].weight / sum(crowd[other].weight for other in crowd if gpu in gpus[other])
            for gpu in gpus[name]
        )
        assert 0 < slot.part <= max(fair, LEAST_PART) + EPSILON
        assert times[name].length_us >= min(quantum_us, times[name].period_us) - 1
        for other in slots:
            if other != name and gpus[name] & gpus[other]:
                assert times[name].period_us == times[other].period_us
                first, second = sorted((times[name], times[other]), key=lambda one: one.first_us)
                assert first.first_us + first.length_us <= second.first_us
                assert second.first_us + second.length_us <= second.period_us


@given(st.integers(1, 50), st.integers(0, 49), st.integers(1, 50), st.integers(0, 500))
def test_timetable_names_each_change_of_its_turns(
    period_us: int, first_us: int, length_us: int, at_us: int
) -> None:
    time = Timetable(period_us, first_us % period_us, min(length_us, period_us))
    later = [at for at in range(at_us + 1, at_us + 101) if time.covers(at) != time.covers(at_us)]
    assert time.changes_us(at_us) == (min(later) if later else None)
    began = [at for at in range(at_us - 100, at_us + 1) if (at - time.first_us) % period_us == 0]
    assert time.began_us(at_us) == max(began)
    ended = [at + time.length_us for at in began if at + time.length_us <= at_us]
    assert time.ended_us(at_us) == max(ended)
