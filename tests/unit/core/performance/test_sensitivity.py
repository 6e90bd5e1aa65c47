"""Speed by CPUs and memory for each GPU: at points, between and beyond them, and at best."""

import pytest

from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.events import Allocation, JobSpec, Resources, Share
from tests.factories import node_name

MATRIX = Sensitivity((1000, 3000, 6000), (10, 20), ((0.4, 0.4), (1.0, 1.0), (1.6, 2.0)))
GANGS = Sensitivity((1000, 3000), (10, 20), ((0.5, 0.5), (1.0, 1.0)))
TABLE = SensitivityTable({"m": {1: MATRIX, 4: GANGS}}, Resources(0, 3000, 10))


def test_speed_is_that_of_a_point() -> None:
    assert MATRIX.speed(3000, 10) == 1.0
    assert MATRIX.speed(6000, 20) == 2.0


def test_speed_between_points_lies_on_a_straight_line() -> None:
    assert MATRIX.speed(2000, 10) == pytest.approx(0.7)  # half-way from 0.4 to 1
    assert MATRIX.speed(6000, 15) == pytest.approx(1.8)
    assert MATRIX.speed(4500, 15) == pytest.approx(1.4)  # between 1 and 1.8


def test_speed_falls_to_nothing_below_the_first_point_and_stays_beyond_the_last() -> None:
    assert MATRIX.speed(500, 10) == pytest.approx(0.2)
    assert MATRIX.speed(3000, 5) == pytest.approx(0.5)
    assert MATRIX.speed(0, 0) == 0.0
    assert MATRIX.speed(60_000, 200) == 2.0


def test_best_is_the_least_that_is_fastest() -> None:
    assert MATRIX.best == Resources(0, 6000, 20)
    assert GANGS.best == Resources(0, 3000, 10)


def test_best_within_bounds_may_lie_between_points() -> None:
    assert MATRIX.best_within(4500, 10) == Resources(0, 4500, 10)
    assert MATRIX.best_within(3000, 20) == Resources(0, 3000, 10)
    assert GANGS.best_within(9000, 90) == Resources(0, 3000, 10)


@pytest.mark.parametrize(
    ("gpus", "matrix"), [(1, MATRIX), (2, MATRIX), (3, MATRIX), (4, GANGS), (64, GANGS)]
)
def test_gang_is_as_the_next_smaller_one_that_was_measured(gpus: int, matrix: Sensitivity) -> None:
    assert TABLE.of(JobSpec(gpus, model="m")) is matrix


def test_models_nobody_knows_and_jobs_without_gpus_have_no_matrix() -> None:
    assert TABLE.of(JobSpec(1, model="other")) is None
    assert TABLE.of(JobSpec(0, model="m", cpus_milli=1000)) is None


def test_gang_goes_as_fast_as_its_slowest_part() -> None:
    quick = Share(node_name(0), 0b1, 6000, 20)
    slow = Share(node_name(1), 0b1, 2000, 20)
    assert TABLE.speed(JobSpec(2, model="m"), Allocation((quick, slow))) == pytest.approx(0.7)


def test_what_an_allocation_does_not_say_bounds_nobody() -> None:
    spec = JobSpec(1, model="m")
    assert TABLE.speed(spec, Allocation((Share(node_name(0), 0b1),))) == 1.0
    assert TABLE.speed(spec, Allocation((Share(node_name(0), 0b1, 1000),))) == 0.4
