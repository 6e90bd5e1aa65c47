"""The traces of the Synergy simulator: five columns, no header."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.events import JobSpec
from shunter.workloads import Fault, load_trace

GOOD = "0,alexnet,8,4000,1\n"

Write = Callable[[str, str], Path]


@pytest.mark.parametrize("text", [GOOD, "\n\n" + GOOD, "a, gnmt ,0.001, 9 ,2\r\n"])
def test_format_is_guessed_from_the_first_job(write: Write, text: str) -> None:
    trace = load_trace(write("t.csv", text))
    assert (trace.format, trace.origin) == ("synergy", None)


@pytest.mark.parametrize("text", ["1,2,3,4,5\n", "0,alexnet,8,4000\n", "id,model,at,n,gpus\n"])
def test_other_files_are_not_taken_for_it(write: Write, text: str) -> None:
    with pytest.raises(TraceError, match="cannot tell the format"):
        load_trace(write("t.csv", text))


def test_model_and_iterations_stand_in_the_specification(write: Write) -> None:
    (job,) = load_trace(write("t.csv", "7,res18,30.25,500,4\n")).jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("7", 30_250_000, 320_000_000)
    assert job.spec == JobSpec(gpus=4, model="res18", total_steps=500)


@pytest.mark.parametrize(("ratio", "duration_us"), [("3", 640_000), ("6", 365_000)])
def test_duration_is_that_on_servers_with_so_many_cpus(
    write: Write, ratio: str, duration_us: int
) -> None:
    path = write("t.csv", "7,res18,0,1,1\n")
    (job,) = load_trace(path, options={"cpus_per_gpu": ratio}).jobs
    assert job.duration_us == duration_us


def test_equal_specifications_are_one_object(write: Write) -> None:
    jobs = load_trace(write("t.csv", GOOD + "1,alexnet,9,4000,1\n")).jobs
    assert jobs[0].spec is jobs[1].spec


@pytest.mark.parametrize(
    ("row", "fault", "column"),
    [
        (",alexnet,8,4000,1", Fault.missing, "id"),
        ("1, ,8,4000,1", Fault.missing, "model"),
        ("1,alexnet,8,4000", Fault.missing, "gpus"),
        ("1,alexnet,8,4000,1,9", Fault.surplus, ""),
        ("1,alexnet,-1,4000,1", Fault.negative, "arrival_s"),
        ("1,alexnet,soon,4000,1", Fault.unparsable, "arrival_s"),
        ("1,alexnet,8,0,1", Fault.impossible, "iterations"),
        ("1,alexnet,8,1e10,1", Fault.impossible, "iterations"),
        ("1,alexnet,8,1.5,1", Fault.impossible, "iterations"),
        ("1,alexnet,8,4000,nan", Fault.nan, "gpus"),
        ("1,alexnet,8,4000,", Fault.missing, "gpus"),
    ],
)
def test_broken_row_is_dropped_with_its_fault(
    write: Write, row: str, fault: Fault, column: str
) -> None:
    trace = load_trace(write("t.csv", GOOD + row + "\n"))
    (drop,) = trace.report.dropped
    assert (drop.fault, drop.column, drop.places) == (fault, column, (2,))
    assert [job.job_id for job in trace.jobs] == ["0"]


def test_blank_lines_are_noted(write: Write) -> None:
    trace = load_trace(write("t.csv", GOOD + "\n1,gnmt,9,1,1\n"))
    (note,) = trace.report.noted
    assert (note.fault, note.places) == (Fault.blank, (2,))


def test_model_that_is_not_published_is_an_error_that_names_the_line(write: Write) -> None:
    path = write("t.csv", GOOD + "1,vgg16,9,4000,1\n")
    with pytest.raises(
        TraceError,
        match=r"t\.csv, line 2: nothing is published of model 'vgg16': expected one of alexnet, ",
    ):
        load_trace(path)


def test_rows_with_unknown_models_can_be_left_out(write: Write) -> None:
    path = write("t.csv", GOOD + "1,vgg16,9,4000,1\n")
    (drop,) = load_trace(path, options={"unknown": "drop"}).report.dropped
    assert (drop.fault, drop.column, drop.places) == (Fault.unknown, "model", (2,))


def test_header_is_told_to_be_none_of_the_format(write: Write) -> None:
    path = write("t.csv", "job_id,model,arrival_time,iterations,num_gpu\n" + GOOD)
    with pytest.raises(TraceError, match=r"line 1: expected a job, not a header: .* remove the li"):
        load_trace(path, "synergy")


def test_equal_ids_are_an_error(write: Write) -> None:
    with pytest.raises(TraceError, match="line 2: job id '0' is that of line 1"):
        load_trace(write("t.csv", GOOD + GOOD))


def test_public_traces_are_read_whole(shared_traces: Path) -> None:
    for name, last_us in (("static_100job", 99_000), ("dynamic_100job", None)):
        path = shared_traces / "synergy" / f"{name}.csv"
        trace = load_trace(path)
        assert (trace.format, len(trace.jobs), trace.report.sentences()) == ("synergy", 100, ())
        assert last_us in (None, trace.jobs[-1].submit_us)
