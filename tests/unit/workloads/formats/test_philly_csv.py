"""The Philly job list."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.events import JobSpec
from shunter.workloads import Fault, load_trace

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
GOOD = "2017-10-09 06:13:03,10.0,1,10.0,11cb48\n"

Write = Callable[[str, str], Path]


def test_sample_is_sorted_and_counts_from_its_first_submission(samples: Path) -> None:
    trace = load_trace(samples / "philly.csv")
    assert trace.format == "philly-csv"
    assert trace.source == "philly.csv"
    assert trace.origin == "2017-10-09T06:13:03+00:00"
    assert [(job.job_id, job.submit_us, job.duration_us) for job in trace.jobs] == [
        ("1", 0, 2_951_000_000),
        ("2", 0, 10_000_000),
        ("3", 33_000_000, 2_759_500_000),
        ("0", 2_932_000_000, 66_000_000),
    ]
    assert trace.jobs[0].spec == JobSpec(gpus=4, queue=trace.jobs[0].spec.queue)
    assert trace.jobs[0].spec.queue == "6214e9"


def test_sample_report_tells_disorder_and_blank_end(samples: Path) -> None:
    report = load_trace(samples / "philly.csv").report
    assert (report.rows_read, report.rows_kept, report.rows_dropped) == (4, 4, 0)
    assert report.unsorted == 1
    assert report.blank_last_line
    assert report.sentences() == (
        "the last line is blank and was ignored",
        "1 row was out of order, and the trace has been sorted",
    )


def test_equal_specifications_are_one_object(samples: Path) -> None:
    by_id = {str(job.job_id): job for job in load_trace(samples / "philly.csv").jobs}
    assert by_id["0"].spec is by_id["2"].spec


@pytest.mark.parametrize(
    ("row", "fault", "column"),
    [
        (",10.0,1,10.0,vc", Fault.missing, "timestamp"),
        ("yesterday,10.0,1,10.0,vc", Fault.unparsable, "timestamp"),
        ("1969-10-09 06:13:03,10.0,1,10.0,vc", Fault.unparsable, "timestamp"),
        ("2017-10-09 06:13:03,nan,1,10.0,vc", Fault.nan, "duration"),
        ("2017-10-09 06:13:03,-5,1,10.0,vc", Fault.negative, "duration"),
        ("2017-10-09 06:13:03,0.0,1,0.0,vc", Fault.impossible, "duration"),
        ("2017-10-09 06:13:03,inf,1,inf,vc", Fault.impossible, "duration"),
        ("2017-10-09 06:13:03,ten,1,10.0,vc", Fault.unparsable, "duration"),
        ("2017-10-09 06:13:03,,1,10.0,vc", Fault.missing, "duration"),
        ("2017-10-09 06:13:03,10.0,0,0.0,vc", Fault.impossible, "num_gpus"),
        ("2017-10-09 06:13:03,10.0,-1,10.0,vc", Fault.negative, "num_gpus"),
        ("2017-10-09 06:13:03,10.0,1.5,15.0,vc", Fault.impossible, "num_gpus"),
        ("2017-10-09 06:13:03,10.0,NaN,15.0,vc", Fault.nan, "num_gpus"),
        ("2017-10-09 06:13:03,10.0,1,nan,vc", Fault.nan, "gpu_time"),
        ("2017-10-09 06:13:03,10.0,1,,vc", Fault.missing, "gpu_time"),
        ("2017-10-09 06:13:03,10.0,1,10.0,", Fault.missing, "cluster"),
        ("2017-10-09 06:13:03,10.0,1,10.0", Fault.missing, "cluster"),
        ("2017-10-09 06:13:03,10.0,1,10.0,vc,more", Fault.surplus, ""),
    ],
)
def test_bad_row_is_dropped_and_reported(write: Write, row: str, fault: Fault, column: str) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD + row + "\n" + GOOD))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.count) == (fault, column, 1)
    assert finding.places == (3,)
    assert [job.job_id for job in trace.jobs] == ["0", "2"]
    assert trace.report.rows_read == 3


def test_gpu_time_that_contradicts_is_kept_and_noted(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + "2017-10-09 06:13:03,10.0,2,10.0,vc\n"))
    assert len(trace.jobs) == 1
    assert [(note.fault, note.column) for note in trace.report.noted] == [
        (Fault.contradiction, "gpu_time")
    ]


def test_blank_line_inside_is_noted_and_no_row(write: Write) -> None:
    trace = load_trace(write("t.csv", HEADER + GOOD + "\n  \n" + GOOD))
    assert [job.job_id for job in trace.jobs] == ["0", "1"]
    (note,) = trace.report.noted
    assert (note.fault, note.places) == (Fault.blank, (3, 4))
    assert not trace.report.blank_last_line


def test_columns_may_stand_in_any_order(write: Write) -> None:
    text = "cluster,num_gpus,duration,gpu_time,timestamp,x_more\nvc,2,5,10,2017-10-09 06:13:03,?\n"
    (job,) = load_trace(write("t.csv", text)).jobs
    assert (job.spec.gpus, job.spec.queue, job.duration_us) == (2, "vc", 5_000_000)


def test_zones_are_honoured(write: Write) -> None:
    text = HEADER + "2017-10-09T08:00:00+02:00,1,1,1,vc\n2017-10-09 06:00:01,1,1,1,vc\n"
    trace = load_trace(write("t.csv", text))
    assert [job.submit_us for job in trace.jobs] == [0, 1_000_000]


def test_missing_column_is_named(write: Write) -> None:
    path = write("t.csv", "timestamp,duration,gpu_time,cluster\n")
    with pytest.raises(TraceError, match=r"t\.csv, line 1: missing columns num_gpus; found"):
        load_trace(path)


def test_column_that_stands_twice_is_named(write: Write) -> None:
    path = write("t.csv", "timestamp,duration,num_gpus,gpu_time,cluster,duration\n")
    with pytest.raises(TraceError, match="column 'duration' stands twice"):
        load_trace(path)


def test_unknown_column_is_left_out_and_named(write: Write) -> None:
    head, first = HEADER.strip(), GOOD.strip()
    found = load_trace(write("t.csv", f"{head},colour\n{first},red\n"))
    assert found.report.other_columns == ("colour",)


def test_quote_that_never_ends_is_an_error_with_its_line(write: Write) -> None:
    path = write("t.csv", HEADER + GOOD + '"' + GOOD)
    with pytest.raises(TraceError, match=r"line 3: not valid CSV .*check the quotes"):
        load_trace(path)


def test_whole_public_trace_is_kept(philly: Path) -> None:
    trace = load_trace(philly)
    assert len(trace.jobs) == trace.report.rows_read == trace.report.rows_kept == 82_247
    assert trace.report.blank_last_line
    assert trace.report.noted == ()
    assert trace.report.unsorted == 44_878
    assert len({id(job.spec) for job in trace.jobs}) == 59


def test_slice_of_public_trace_counts_from_its_first(philly: Path) -> None:
    trace = load_trace(philly, rows=(40_000, 41_000))
    assert len(trace.jobs) == 1_000
    assert trace.jobs[0].submit_us == 0
    assert trace.origin == "2017-10-21T09:09:53+00:00"
