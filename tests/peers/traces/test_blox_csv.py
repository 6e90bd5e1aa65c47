"""The job list of the Blox simulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.events import JobSpec
from shunter.workloads import Fault, load_trace

HEADER = "job_id,arrival_s,iterations,iteration_time_s,gpus\n"
GOOD = "0,20,35424.347,1,1\n"

Write = Callable[[str, str], Path]


def test_format_is_guessed_from_the_header(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD))
    assert (trace.format, trace.origin) == ("blox-csv", None)
    assert trace.report.sentences() == ()


@pytest.mark.parametrize(
    ("iterations", "iteration_time", "duration_us"),
    [
        ("35424.347", "1", 35_424_347_000),
        ("1000", "0.25", 250_000_000),
        ("3", "0.1", 300_000),
        # As floats, 1.1 x 1.1 s is above 1.21 s; a microsecond is not the place to learn of it.
        ("1.1", "1.1", 1_210_000),
        ("7", "1e-6", 7),
        ("1234567890.1234564", "1", 1_234_567_890_123_456),
    ],
)
def test_duration_is_iterations_times_iteration_time(
    write: Write, iterations: str, iteration_time: str, duration_us: int
) -> None:
    row = f"j,20,{iterations},{iteration_time},4\n"
    (job,) = load_trace(write("t.csv", HEADER + row)).jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("j", 20_000_000, duration_us)


def test_whole_iterations_are_total_steps_and_others_are_not(write: Write) -> None:
    rows = "0,0,1000,0.5,2\n1,0,1000.0,0.5,2\n2,0,1000.5,0.5,2\n"
    jobs = load_trace(write("t.csv", HEADER + rows)).jobs
    assert [job.spec for job in jobs] == [
        JobSpec(gpus=2, total_steps=1000),
        JobSpec(gpus=2, total_steps=1000),
        JobSpec(gpus=2),
    ]
    assert jobs[0].spec is jobs[1].spec


@pytest.mark.parametrize(
    ("row", "fault", "column"),
    [
        (",20,5,1,1", Fault.missing, "job_id"),
        ("1,-20,5,1,1", Fault.negative, "arrival_s"),
        ("1,,5,1,1", Fault.missing, "arrival_s"),
        ("1,20,nan,1,1", Fault.nan, "iterations"),
        ("1,20,0,1,1", Fault.impossible, "iterations"),
        ("1,20,-5,1,1", Fault.negative, "iterations"),
        ("1,20,some,1,1", Fault.unparsable, "iterations"),
        ("1,20,5,0,1", Fault.impossible, "iteration_time_s"),
        ("1,20,5,inf,1", Fault.impossible, "iteration_time_s"),
        ("1,20,5,1e-9,1", Fault.impossible, "iterations"),
        ("1,20,9e9,9,1", Fault.impossible, "iterations"),
        ("1,20,5,1,0", Fault.impossible, "gpus"),
        ("1,20,5,1,1.5", Fault.impossible, "gpus"),
        ("1,20,5,1", Fault.missing, "gpus"),
        ("1,20,5,1,1,1", Fault.surplus, ""),
    ],
)
def test_bad_row_is_dropped_and_reported(write: Write, row: str, fault: Fault, column: str) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD + row + "\n"))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (3,))
    assert [job.job_id for job in trace.jobs] == ["0"]


def test_missing_column_is_named(write: Write) -> None:
    path = write("t.csv", HEADER.replace(",gpus", ""))
    with pytest.raises(TraceError, match=r"t\.csv, line 1: missing columns gpus; found"):
        load_trace(path)


def test_id_that_stands_twice_is_an_error_with_both_lines(write: Write) -> None:
    with pytest.raises(TraceError, match="line 4: job id '0' is that of line 2"):
        load_trace(write("t.csv", HEADER + GOOD + "1,25,9,1,1\n" + GOOD))


def test_public_trace_is_kept_whole(shared_traces: Path) -> None:
    trace = load_trace(shared_traces / "blox" / "a_128gpu.csv")
    assert trace.format == "blox-csv"
    assert len(trace.jobs) == trace.report.rows_read == 6_000
    assert trace.report.sentences() == ()
    assert trace.jobs[0].duration_us == 35_424_347_000
