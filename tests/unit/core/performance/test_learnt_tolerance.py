"""Curves of tolerance that are learnt from what gangs measure, and the floors under them."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import (
    PLACEMENTS_MOST,
    SPLITS_MOST,
    LearntPoint,
    MeasuredPlacement,
    bounded,
    learnt_bounds,
    learnt_points,
    with_placement,
)
from shunter.events import GpuType, JobSpec, Level, ToleranceLearnt
from tests.factories import job_id

ORDER = list(Level)
V100, K80 = GpuType("v100"), GpuType("k80")
SPEC = JobSpec(4, model="m", min_speed=0.7)
SPLITS = ((4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))


def told(
    level: Level,
    split: tuple[int, ...],
    batch_us: int,
    gpu_type: GpuType = V100,
    batch_size: int | None = None,
) -> ToleranceLearnt:
    return ToleranceLearnt(0, job_id(), "m", gpu_type, level, split, batch_us, 4, batch_size)


def known(*facts: ToleranceLearnt) -> tuple[MeasuredPlacement, ...]:
    found: tuple[MeasuredPlacement, ...] = ()
    for each in facts:
        found = with_placement(found, each)
    return found


def points(*facts: ToleranceLearnt, spec: JobSpec = SPEC) -> dict[tuple[str, int], float]:
    """Return the speeds of a learnt curve by level and number of servers."""
    return {
        (str(one.level), len(one.split)): one.speed for one in learnt_points(spec, known(*facts))
    }


def test_speeds_are_those_of_the_fastest_near_one() -> None:
    text = (  # ResNet-50 of the text: 1, 0.72 and 0.41
        told(Level.switch, (4,), 100_000),
        told(Level.rack, (2, 2), 138_889),
        told(Level.rack, (1, 1, 1, 1), 243_902),
    )
    assert points(*text) == {("switch", 1): 1.0, ("rack", 2): 0.72, ("rack", 4): 0.41}


def test_the_fastest_measurement_of_a_placement_counts_and_samples_add_up() -> None:
    found = known(
        told(Level.server, (4,), 120), told(Level.server, (4,), 100), told(Level.server, (4,), 150)
    )
    (one,) = found
    assert (one.batch_us, one.samples, one.last_us) == (100, 12, 150)


def test_what_is_as_fast_farther_away_is_as_fast_near() -> None:
    """The near one was measured beside busy neighbours."""
    assert points(told(Level.server, (4,), 100), told(Level.rack, (2, 2), 90)) == {
        ("server", 1): 1.0,
        ("rack", 2): 1.0,
    }


def test_without_a_gang_in_one_server_there_is_no_curve() -> None:
    assert points(told(Level.rack, (2, 2), 90), told(Level.cluster, (2, 2), 900)) == {}


def test_gangs_of_another_size_batch_or_type_tell_nothing() -> None:
    near = told(Level.server, (4,), 100)
    assert points(near, told(Level.rack, (4, 4), 900)) == {("server", 1): 1.0}
    assert points(near, told(Level.rack, (2, 2), 900, batch_size=8)) == {("server", 1): 1.0}
    far = told(Level.rack, (2, 2), 900, K80)
    assert points(near, far) == {("server", 1): 1.0}
    both = (near, far, told(Level.server, (4,), 300, K80), told(Level.rack, (2, 2), 110))
    assert points(*both) == {("server", 1): 1.0, ("rack", 2): 0.333}  # the lower of 0.909 and that
    only = replace(SPEC, gpu_types=(V100,))
    assert points(*both, spec=only) == {("server", 1): 1.0, ("rack", 2): 0.909}


def test_floor_refuses_what_was_measured_too_slow_and_all_that_is_farther() -> None:
    slow = known(told(Level.server, (4,), 100), told(Level.rack, (2, 2), 200))
    assert bounded(SPEC.demand(), SPEC, slow).max_level is Level.server
    assert bounded(SPEC.demand(), replace(SPEC, min_speed=0.5), slow) == SPEC.demand()
    assert bounded(SPEC.demand(), replace(SPEC, min_speed=None), slow) == SPEC.demand()
    assert bounded(SPEC.demand(), SPEC, known(told(Level.server, (4,), 100))) == SPEC.demand()


def test_a_curve_of_its_own_or_a_nearer_level_of_its_own_stays() -> None:
    slow = known(told(Level.switch, (4,), 100), told(Level.rack, (2, 2), 200))
    near = replace(SPEC, max_level=Level.socket)
    assert bounded(near.demand(), near, slow).max_level is Level.socket
    curve = replace(SPEC, tolerance=((Level.cluster, 0.9),))
    assert bounded(curve.demand(), curve, slow) == curve.demand()


def test_what_is_slow_over_many_servers_is_put_down_to_their_number() -> None:
    text = known(
        told(Level.switch, (4,), 100),
        told(Level.rack, (2, 2), 120),
        told(Level.rack, (1,) * 4, 250),
    )
    demand = bounded(SPEC.demand(), SPEC, text)
    assert demand.max_level is None
    assert demand.shapes == ((4,), (3, 1), (2, 2), (2, 1, 1))
    nearby = known(
        told(Level.switch, (4,), 100),
        told(Level.rack, (1, 1, 1, 1), 110),
        told(Level.domain, (1, 1, 1, 1), 250),
    )
    demand = bounded(SPEC.demand(), SPEC, nearby)
    assert (demand.max_level, demand.shapes) == (Level.rack, ())


def test_large_gangs_are_bounded_by_levels_only() -> None:
    large = replace(SPEC, gpus=64)
    found = known(told(Level.server, (64,), 100), told(Level.rack, (8,) * 8, 250))
    assert bounded(large.demand(), large, found) == large.demand()
    shapes = bounded(
        replace(SPEC, gpus=16).demand(),
        replace(SPEC, gpus=16),
        known(told(Level.server, (16,), 100), told(Level.rack, (4,) * 4, 250)),
    ).shapes
    assert 0 < len(shapes) <= SPLITS_MOST
    assert max(map(len, shapes)) == 3
    assert {sum(shape) for shape in shapes} == {16}


def test_what_is_known_of_a_model_is_bounded() -> None:
    facts = [told(Level.server, (4,), 100, batch_size=size) for size in range(PLACEMENTS_MOST + 9)]
    found = known(*facts)
    assert len(found) == PLACEMENTS_MOST
    assert found[-1].batch_size == PLACEMENTS_MOST + 8


measurements = st.lists(
    st.tuples(
        st.sampled_from(ORDER), st.sampled_from(SPLITS), st.integers(1, 40), st.sampled_from([V100])
    ).filter(lambda one: (len(one[1]) > 1) == (ORDER.index(one[0]) > 2)),
    max_size=8,
)


def _is_as_far(one: LearntPoint, other: LearntPoint) -> bool:
    is_wide = len(one.split) >= len(other.split)
    return is_wide and ORDER.index(one.level) >= ORDER.index(other.level)


@given(measured=measurements)
def test_learnt_curves_fall_with_distance(
    measured: list[tuple[Level, tuple[int, ...], int, GpuType]],
) -> None:
    found = learnt_points(SPEC, known(*(told(*one) for one in measured)))
    for one in found:
        assert 0 <= one.speed <= 1
        assert all(one.speed <= other.speed for other in found if _is_as_far(one, other))
    if found:
        assert found[0].speed == 1


@given(measured=measurements, floor=st.sampled_from([0.1, 0.4, 0.7, 1.0]))
def test_floors_accept_nothing_that_was_measured_too_slow(
    measured: list[tuple[Level, tuple[int, ...], int, GpuType]], floor: float
) -> None:
    found = learnt_points(SPEC, known(*(told(*one) for one in measured)))
    level, servers = learnt_bounds(floor, found)
    for one in found:
        within = level is None or ORDER.index(one.level) <= ORDER.index(level)
        few = servers is None or len(one.split) <= servers
        assert not (within and few and one.speed < floor)
    if found:  # and the nearest of all stays
        assert level is None or ORDER.index(found[0].level) <= ORDER.index(level)
        assert servers is None or servers >= 1


@pytest.mark.parametrize("gpus", [0, 1])
def test_single_gpus_have_no_floor(gpus: int) -> None:
    one = replace(SPEC, gpus=gpus, cpus_milli=1000)
    assert bounded(one.demand(), one, known(told(Level.server, (4,), 100))) == one.demand()
