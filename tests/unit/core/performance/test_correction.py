"""A table corrected at a cell or two, by hand."""

from shunter.core.speeds import MeasuredCell, Sensitivity, SensitivityTable, corrected
from shunter.events import JobSpec, Resources

CPUS = (1000, 2000, 3000, 4000, 6000, 9000)
ROW = (0.25, 0.5, 1.0, 1.25, 2.0, 2.5)
TABLE = SensitivityTable(
    {
        "m": {
            1: Sensitivity(CPUS, (10,), tuple([(speed,) for speed in ROW])),
            2: Sensitivity((3000,), (10,), ((1.0,),)),
        },
        "other": {1: Sensitivity((3000,), (10,), ((1.0,),))},
    },
    Resources(0, 3000, 10),
)


def row(*cells: tuple[int, float]) -> list[tuple[int, float]]:
    """Return CPUs and speeds of the matrix that cells with 10 MB make."""
    measured = [MeasuredCell(1, cpus, 10, speed) for cpus, speed in cells]
    matrix = corrected(TABLE, {"m": measured}).models["m"][1]
    return [(cpus, speed) for cpus, (speed,) in zip(matrix.cpus_milli, matrix.speeds, strict=True)]


def test_what_is_slower_than_was_said_slows_what_is_below_and_what_is_above_in_proportion() -> None:
    assert row((6000, 1.2)) == [
        *zip(CPUS[:3], ROW[:3], strict=True),
        *((4000, 1.2), (6000, 1.2), (9000, 1.5)),
    ]


def test_what_is_faster_than_was_said_speeds_up_what_is_above_alone() -> None:
    assert row((4000, 2.0)) == [
        *zip(CPUS[:3], ROW[:3], strict=True),
        *((4000, 2.0), (6000, 3.2), (9000, 4.0)),
    ]


def test_cell_between_the_points_becomes_a_point() -> None:
    assert (5000, 1.5) in row((5000, 1.5))


def test_the_share_stays_1_and_measurements_that_fall_meet_in_the_middle() -> None:
    assert dict(row((2000, 1.5)))[2000] == 1.0
    assert dict(row((4000, 0.5)))[4000] == 1.0
    both = dict(row((4000, 2.0), (6000, 1.0)))
    assert (both[3000], both[4000], both[6000]) == (1.0, 1.5, 1.5)


def test_only_the_matrix_of_the_gang_size_is_corrected() -> None:
    found = corrected(TABLE, {"m": [MeasuredCell(1, 6000, 10, 1.2)], "gone": []})
    assert found.of(JobSpec(2, model="m")) is TABLE.of(JobSpec(2, model="m"))
    assert found.of(JobSpec(model="other")) is TABLE.of(JobSpec(model="other"))
    assert corrected(TABLE, {}) is TABLE
