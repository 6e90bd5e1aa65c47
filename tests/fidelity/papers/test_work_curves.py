"""The course of work: recomputed from when jobs began, rested, changed speed and ended."""

from pathlib import Path

import pytest

from shunter.config import make_config
from shunter.events import JobId
from shunter.run import simulate
from shunter_papers.gandiva.work_curves import Point, WorkCurve, WorkCurves

pytestmark = pytest.mark.fidelity

S = 1_000_000
HEAD = "job_id,submit_s,gpus,duration_s\n"


def curve(*points: tuple[int, int, float]) -> WorkCurve:
    return WorkCurve(0, [Point(at_s * S, done_s * S, speed) for at_s, done_s, speed in points])


def test_work_grows_in_lines_and_rests_between() -> None:
    found = curve((10, 0, 1.0), (20, 10, 0.0), (50, 10, 2.0))
    expected = {0: 0, 15: 5, 20: 10, 40: 10, 55: 20}
    assert {s: found.done_us(s * S) // S for s in expected} == expected
    passed = {5: 15, 10: 20, 20: 55}
    assert {s: (found.passed_us(s * S) or 0) // S for s in passed} == passed


def test_work_that_is_lost_and_done_again_was_passed_the_first_time() -> None:
    found = curve((0, 0, 1.0), (10, 4, 0.0), (20, 4, 1.0), (40, 24, 0.0))
    assert found.passed_us(3 * S) == 3 * S
    assert found.done_us(15 * S) == 4 * S


def test_work_that_was_never_done_was_not_passed() -> None:
    assert curve((0, 0, 1.0), (10, 10, 0.0)).passed_us(11 * S) is None
    assert curve().passed_us(1) is None


@pytest.mark.parametrize("enough_s", [None, 100])
def test_curves_of_a_run_are_those_of_its_jobs(tmp_path: Path, enough_s: int | None) -> None:
    """Two jobs of 300 s have one GPU in turns of a minute, from 60 s on."""
    (tmp_path / "jobs.csv").write_text(f"{HEAD}a,0,1,300\nb,60,1,300\n")
    loaded = make_config(
        {
            "cluster": {"nodes": [{"name": "n", "gpus": 1}]},
            "workload": {"trace": str(tmp_path / "jobs.csv")},
            "policy": {"name": "gandiva", "trigger": "event", "slicing": {}},
            "log": {"url": "none:"},
        }
    )
    curves = WorkCurves(None if enough_s is None else enough_s * S)
    ends = {
        story.job_id: story.end_us
        for story in simulate(loaded, listeners=[curves.observers()]).stories()
    }
    a, b = curves.of([JobId("a"), JobId("b")])
    assert (a.submitted_us, b.submitted_us) == (0, 60 * S)
    for found in (a, b):
        first_us = found.passed_us(30 * S)
        assert first_us is not None
        assert found.done_us(first_us) == 30 * S
    if enough_s is None:
        assert [a.passed_us(300 * S), b.passed_us(300 * S)] == [ends[JobId("a")], ends[JobId("b")]]
        assert a.done_us(400 * S) + b.done_us(400 * S) == 400 * S
    else:
        assert len(a.points) < 8
