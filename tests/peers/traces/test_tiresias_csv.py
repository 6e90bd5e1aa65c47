"""The job list of the Tiresias simulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.events import JobSpec
from shunter.workloads import Fault, load_trace

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
GOOD = "0,1,0,606,vgg19,164,30\n"

Write = Callable[[str, str], Path]


def test_format_is_guessed_from_the_header(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD))
    assert (trace.format, trace.origin) == ("tiresias-csv", None)
    assert trace.report.sentences() == ()


def test_model_and_iterations_stand_in_the_specification(write: Write) -> None:
    (job,) = load_trace(write("t.csv", HEADER + "7,8,30,133,vgg11,147,23\r\n")).jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("7", 30_000_000, 147_000_000)
    assert job.spec == JobSpec(gpus=8, model="vgg11", total_steps=133)


def test_equal_specifications_are_one_object(write: Write) -> None:
    jobs = load_trace(write("t.csv", HEADER + GOOD + GOOD.replace("0,1,0", "1,1,9"))).jobs
    assert jobs[0].spec is jobs[1].spec


def test_jobs_are_sorted_by_submission_and_ties_keep_their_order(write: Write) -> None:
    rows = "a,1,50,1,m,1,0\nb,1,20,1,m,1,0\nc,1,50,1,m,1,0\nd,1,20,1,m,1,0\n"
    trace = load_trace(write("t.csv", HEADER + rows))
    assert [job.job_id for job in trace.jobs] == ["b", "d", "a", "c"]
    assert trace.report.unsorted == 2


@pytest.mark.parametrize(("text", "seconds"), [("164.9", 164), ("1.0001", 1), ("2e2", 200)])
def test_duration_is_cut_to_whole_seconds(write: Write, text: str, seconds: int) -> None:
    (job,) = load_trace(write("t.csv", HEADER + f"0,1,0,606,vgg19,{text},30\n")).jobs
    assert job.duration_us == seconds * 1_000_000


def test_cut_duration_is_noted_and_a_whole_one_is_not(write: Write) -> None:
    rows = "0,1,0,1,m,164.9,0\n1,1,0,1,m,164.0,0\n"
    (note,) = load_trace(write("t.csv", HEADER + rows)).report.noted
    assert (note.fault, note.places) == (Fault.fraction, (2,))
    assert note.sentence() == "1 row: duration was cut to whole seconds ('164.9'), line 2"


@pytest.mark.parametrize(
    ("row", "fault", "column"),
    [
        (" ,1,0,606,vgg19,164,30", Fault.missing, "job_id"),
        ("1,0,0,606,vgg19,164,30", Fault.impossible, "num_gpu"),
        ("1,-2,0,606,vgg19,164,30", Fault.negative, "num_gpu"),
        ("1,1.5,0,606,vgg19,164,30", Fault.impossible, "num_gpu"),
        ("1,,0,606,vgg19,164,30", Fault.missing, "num_gpu"),
        ("1,1,-1,606,vgg19,164,30", Fault.negative, "submit_time"),
        ("1,1,nan,606,vgg19,164,30", Fault.nan, "submit_time"),
        ("1,1,0,606,vgg19,soon,30", Fault.unparsable, "duration"),
        ("1,1,0,606,vgg19,0.9,30", Fault.impossible, "duration"),
        ("1,1,0,606,vgg19,inf,30", Fault.impossible, "duration"),
        ("1,1,0,606,vgg19,nan,30", Fault.nan, "duration"),
        ("1,1,0,606,vgg19,164", Fault.missing, "interval"),
        ("1,1,0,606,vgg19,164,30,?", Fault.surplus, ""),
    ],
)
def test_bad_row_is_dropped_and_reported(write: Write, row: str, fault: Fault, column: str) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD + row + "\n"))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (3,))
    assert [job.job_id for job in trace.jobs] == ["0"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [("0", Fault.impossible), ("many", Fault.unparsable), ("1.5", Fault.impossible)],
)
def test_wrong_iterations_cost_the_row_nothing_but_a_note(
    write: Write, text: str, fault: Fault
) -> None:
    trace = load_trace(write("t.csv", HEADER + f"0,1,0,{text},vgg19,164,30\n"))
    assert trace.jobs[0].spec == JobSpec(gpus=1, model="vgg19")
    assert [(note.fault, note.column) for note in trace.report.noted] == [(fault, "iterations")]


def test_columns_that_change_nothing_may_be_left_out_and_stand_anywhere(write: Write) -> None:
    text = "duration,submit_time,num_gpu,job_id,x_note\n5,2,4,j,!\n"
    (job,) = load_trace(write("t.csv", text)).jobs
    assert (job.job_id, job.submit_us, job.spec) == ("j", 2_000_000, JobSpec(gpus=4))


def test_missing_column_is_named(write: Write) -> None:
    path = write("t.csv", HEADER.replace("num_gpu,", "") + GOOD)
    with pytest.raises(TraceError, match=r"t\.csv, line 1: missing columns num_gpu; found"):
        load_trace(path)


def test_unknown_column_is_left_out_and_named(write: Write) -> None:
    head, first = HEADER.strip(), GOOD.strip()
    found = load_trace(write("t.csv", f"{head},colour\n{first},red\n"))
    assert found.report.other_columns == ("colour",)


def test_id_that_stands_twice_is_an_error_with_both_lines(write: Write) -> None:
    with pytest.raises(TraceError, match="line 3: job id '0' is that of line 2"):
        load_trace(write("t.csv", HEADER + GOOD + GOOD))


@pytest.mark.parametrize(
    ("name", "jobs"),
    [("60_job.csv", 60), ("s480_job.csv", 480), ("s5000_job.csv", 5000)],
)
def test_public_trace_is_kept_whole(shared_traces: Path, name: str, jobs: int) -> None:
    trace = load_trace(shared_traces / "tiresias" / name)
    assert trace.format == "tiresias-csv"
    assert len(trace.jobs) == trace.report.rows_read == jobs
    assert trace.report.sentences() == ()
    assert all(job.spec.model and job.spec.total_steps for job in trace.jobs)


def test_largest_job_of_the_sixty_never_reaches_the_first_queue_limit(shared_traces: Path) -> None:
    trace = load_trace(shared_traces / "tiresias" / "60_job.csv")
    assert max(job.spec.gpus * job.duration_us for job in trace.jobs) == 2_440_000_000
