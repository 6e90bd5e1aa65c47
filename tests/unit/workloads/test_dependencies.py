"""Jobs that wait for other jobs of their trace."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import Fault, load_trace

Write = Callable[[str, str], Path]

HEADER = "job_id,submit_s,duration_s,gpus,depends_on\n"


def test_dependency_outside_the_selection_is_met_and_noted(write: Write) -> None:
    path = write("t.csv", HEADER + "a,0,1,1,\nb,1,1,1,a|c\nc,2,1,1,\n")
    trace = load_trace(path, rows=(1, 3))
    assert [[each.job_id for each in job.spec.depends_on] for job in trace.jobs] == [["c"], []]
    (note,) = trace.report.noted
    assert (note.fault, note.column, note.found, note.places) == (
        Fault.outside,
        "depends_on",
        "a",
        (3,),
    )


def test_dependency_within_the_selection_stays(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + "a,0,1,1,\nb,1,1,1,a\n"))
    assert [each.job_id for each in trace.jobs[1].spec.depends_on] == ["a"]
    assert trace.report.noted == ()


def test_job_may_depend_on_a_later_one(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + "a,0,1,1,b|c\nb,1,1,1,c\nc,2,1,1,\nd,3,1,1,a|c\n"))
    assert len(trace.jobs) == 4


@pytest.mark.parametrize(
    ("rows", "stuck"),
    [("a,0,1,1,a\n", "a"), ("a,0,1,1,b\nb,0,1,1,c|d\nc,0,1,1,a\nd,0,1,1,\n", "a, b, c")],
)
def test_circle_is_an_error_naming_its_jobs(write: Write, rows: str, stuck: str) -> None:
    with pytest.raises(TraceError, match=f"jobs {stuck} depend on each other in a circle"):
        load_trace(write("t.csv", HEADER + rows))
