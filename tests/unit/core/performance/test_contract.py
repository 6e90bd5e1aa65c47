"""A job's own curve of tolerance: what it says of a placement, and which curves there can be."""

from collections.abc import Sequence
from typing import Any

import pytest

from shunter.core import Admission, Queue, State
from shunter.core.speeds import SpeedModel, neighbours_leave, tolerated_speed, unfit_contract
from shunter.events import (
    Allocation,
    JobSpec,
    Level,
    LevelGroups,
    QueueName,
    Reason,
    Share,
    UserName,
)
from tests.factories import configuration, node_name

RESNET50 = (((4,), 1.0), ((2, 2), 0.72), ((1, 1, 1, 1), 0.41))
BY_SWITCH = (LevelGroups(Level.switch, (0b0011, 0b1100)),)
NO_QUEUE = Queue(QueueName("default"))


def _spec(**values: Any) -> JobSpec:
    return JobSpec(**{"gpus": 4, **values})


@pytest.mark.parametrize(
    ("split", "speed"),
    [
        ((4,), 1.0),
        ((2, 2), 0.72),
        ((3, 1), 0.72),  # it is on as many servers
        ((2, 1, 1), (0.72 * 0.41) ** 0.5),
        ((1, 1, 1, 1), 0.41),
    ],
)
def test_split_has_its_own_speed_or_that_of_its_number_of_servers(
    split: Sequence[int], speed: float
) -> None:
    found = tolerated_speed(_spec(shape_tolerance=RESNET50), Level.cluster, split)

    assert found == pytest.approx(speed)


def test_lower_speed_of_level_and_split_counts() -> None:
    spec = _spec(shape_tolerance=RESNET50, tolerance=((Level.rack, 0.9), (Level.cluster, 0.5)))

    assert tolerated_speed(spec, Level.rack, (2, 2)) == 0.72
    assert tolerated_speed(spec, Level.cluster, (2, 2)) == 0.5


def test_curve_decides_how_fast_a_simulated_job_is() -> None:
    nodes = {node_name(n): configuration(4, levels=BY_SWITCH) for n in (0, 1)}
    speeds = SpeedModel(nodes, are_sensitive=True)
    apart = Allocation((Share(node_name(0), 3), Share(node_name(1), 3)))

    assert speeds.speed(_spec(shape_tolerance=RESNET50), apart) == 0.72


def test_neighbours_take_less_the_farther_they_are() -> None:
    assert neighbours_leave(0.36, [Level.switch]) == pytest.approx(0.64)
    assert neighbours_leave(0.36, [Level.switch, Level.switch]) == pytest.approx(0.64**2)
    left = [neighbours_leave(0.36, [level]) for level in (Level.switch, Level.socket, Level.server)]
    assert left == sorted(left)
    assert left[-1] < 1
    assert neighbours_leave(0.36, [None]) == 1


def test_what_a_job_says_of_neighbours_slows_it_in_a_simulation() -> None:
    nodes = {node_name(0): configuration(4, levels=BY_SWITCH)}
    speeds = SpeedModel(nodes, are_sensitive=True)
    mine, near, far = (Allocation((Share(node_name(0), mask),)) for mask in (1, 2, 8))
    spec = JobSpec(1, interference=0.36)

    assert speeds.speed(spec, mine, neighbours=[near]) == pytest.approx(0.64)
    assert 0.64 < speeds.speed(spec, mine, neighbours=[far]) < 1
    assert speeds.speed(JobSpec(1), mine, neighbours=[near]) == 1


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"tolerance": ((Level.rack, 0.5), (Level.cluster, 0.6))}, "tolerance", "cluster has 0.6"),
        ({"tolerance": ((Level.switch, 1.1),)}, "tolerance", "at most the 1 of the nearest"),
        ({"tolerance": ((Level.rack, 0.5), (Level.rack, 0.4))}, "tolerance", "stands twice"),
        ({"shape_tolerance": RESNET50[1:]}, "shape_tolerance", "the packed shape .* 4:1"),
        (
            {"shape_tolerance": (((4,), 1.0), ((2, 2), 0.4), ((1, 1, 1, 1), 0.5))},
            "shape_tolerance",
            r"1\+1\+1\+1 has 0.5: expected above 0 and at most 0.4",
        ),
        ({"shape_tolerance": (((4,), 1.0), ((2, 1), 0.4))}, "shape_tolerance", "make up the 4"),
        (
            {"shape_tolerance": (((4,), 1.0), ((3, 1), 0.4), ((1, 3), 0.3))},
            "shape_tolerance",
            "stands twice",
        ),
        ({"shape_tolerance": RESNET50, "shapes": ((4,),)}, "shape_tolerance", "no shapes beside"),
        (
            {"tolerance": ((Level.switch, 0.8), (Level.rack, 0.5)), "min_speed": 0.9},
            "min_speed",
            "expected 0.8 at most",
        ),
        ({"min_speed": 1.5}, "min_speed", "up to 1"),
        ({"interference": 1.0}, "interference", "from 0 to below 1"),
    ],
)
def test_contract_that_cannot_be_is_told(values: dict[str, Any], field: str, message: str) -> None:
    found = unfit_contract(_spec(**values))

    assert found is not None
    assert found[0] == field
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found[1])


def test_sound_contract_contradicts_nothing() -> None:
    curve = ((Level.server, 1.0), (Level.rack, 0.9), (Level.cluster, 0.9))

    assert unfit_contract(_spec(tolerance=curve, shape_tolerance=RESNET50, min_speed=0.7)) is None


def test_floor_under_splits_names_those_that_will_do_best_first() -> None:
    curve = (((2, 2), 0.72), ((4,), 1.0), ((3, 1), 0.7), ((1, 1, 1, 1), 0.41))

    assert _spec(shape_tolerance=curve).demand().shapes == ()
    bounded = _spec(shape_tolerance=curve, min_speed=0.7)
    assert bounded.demand().shapes == ((4,), (2, 2), (3, 1))
    assert bounded.demand().max_level is None


def test_resized_gang_is_under_no_floor_of_another_size() -> None:
    bounded = _spec(shape_tolerance=RESNET50, min_speed=0.7)

    assert bounded.resized(2).demand().shapes == ()
    assert bounded.resized(2).demand().max_level is None
    assert bounded.resized(4) == bounded


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        ({"shape_tolerance": RESNET50, "min_speed": 0.9}, "even when empty: fragmented"),
        (
            {"tolerance": ((Level.switch, 1.0), (Level.rack, 0.5)), "min_speed": 0.9},
            "even when empty: locality_not_met",
        ),
        ({"max_level": Level.server}, "even when empty: locality_not_met"),
    ],
)
def test_floor_that_no_empty_cluster_meets_is_refused_at_submission(
    values: dict[str, Any], detail: str
) -> None:
    state = State()
    for number in range(2):
        state.cluster.add(node_name(number), configuration(2, rack="a"))

    def refusal(spec: JobSpec) -> Any:
        return Admission(state.cluster).refusal(spec.demand(), UserName(""), NO_QUEUE)

    refused = refusal(_spec(**values))

    assert refused is not None
    assert (refused.reason, refused.detail) == (Reason.infeasible, detail)
    if "min_speed" in values:
        assert refusal(_spec(**{**values, "min_speed": 0.45})) is None
