"""Which differences of a job's completion time are told as such."""

import pytest

from shunter.ask.forks.scenario import _is_told
from shunter.core import JobResult
from tests.factories import job_id


@pytest.mark.parametrize(
    ("jct_s", "delta_s", "is_told"),
    [
        (1_000, 0.9, False),
        (1_000, -0.9, False),
        (1_000, 1.0, True),
        (50, 0.4, False),
        (50, -0.5, True),
        (0, 0.0, False),
        (0, 0.001, True),
    ],
)
def test_less_than_a_second_and_than_a_hundredth_is_nothing(
    jct_s: int, delta_s: float, is_told: bool
) -> None:
    before = JobResult(job_id(0), "ann", 1, 0, 0, jct_s * 1_000_000, 0, 0, 0, 0, "finished")
    assert _is_told(delta_s, before) is is_told
