"""The original Philly job log."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import Fault, JobEnd, load_trace

Write = Callable[[str, str], Path]


def entry(**changes: object) -> dict[str, object]:
    attempt = {
        "start_time": "2017-10-01 00:00:10",
        "end_time": "2017-10-01 00:00:20",
        "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
    }
    return {
        "status": "Pass",
        "vc": "aa",
        "jobid": "j",
        "user": "u",
        "submitted_time": "2017-10-01 00:00:00",
        "attempts": [attempt],
        **changes,
    }


def ran_until(end: str) -> dict[str, object]:
    """Return an entry of an attempt that began at ten seconds past midnight, without GPUs."""
    times = {"start_time": "2017-10-01 00:00:10", "end_time": f"2017-10-01 {end}"}
    return entry(attempts=[times])


def test_sample_has_jobs_in_order_of_submission(samples: Path) -> None:
    trace = load_trace(samples / "philly_job_log.json")
    assert trace.format == "philly-json"
    assert trace.origin == "2017-10-01T00:00:00+00:00"
    assert [
        (job.job_id, job.submit_us, job.spec.queue, job.spec.user, job.ends) for job in trace.jobs
    ] == [
        ("application_2", 0, "bb22", "u2", JobEnd.cancelled),
        ("application_1", 10_000_000, "aa11", "u1", JobEnd.finished),
    ]


@pytest.mark.parametrize(
    ("attempts", "duration_s", "gpus"), [("all", 150, 5), ("first", 30, 4), ("last", 120, 5)]
)
def test_counted_attempts_are_a_choice(
    samples: Path, attempts: str, duration_s: int, gpus: int
) -> None:
    trace = load_trace(samples / "philly_job_log.json", options={"attempts": attempts})
    job = trace.jobs[1]
    assert (job.duration_us, job.spec.gpus) == (duration_s * 1_000_000, gpus)


def test_choice_of_attempts_is_part_of_the_digest(samples: Path) -> None:
    path = samples / "philly_job_log.json"
    last = load_trace(path, options={"attempts": "last"}).digest
    assert load_trace(path).digest == load_trace(path, options={"attempts": "all"}).digest != last


def test_unknown_choice_of_attempts_names_the_known(samples: Path) -> None:
    with pytest.raises(TraceError, match="attempts = 'best': expected one of all, first, last"):
        load_trace(samples / "philly_job_log.json", options={"attempts": "best"})


def test_jobs_without_attempts_or_times_are_dropped_and_reported(samples: Path) -> None:
    report = load_trace(samples / "philly_job_log.json").report
    assert [(drop.fault, drop.column, drop.places) for drop in report.dropped] == [
        (Fault.missing, "attempts", (3,)),
        (Fault.missing, "end_time", (4,)),
    ]
    assert report.sentences()[0] == "dropped 1 row: attempts is missing, entry 3"
    assert (report.rows_read, report.rows_kept) == (4, 2)


@pytest.mark.parametrize(
    ("bad", "fault", "column"),
    [
        (entry(status="Maybe"), Fault.unparsable, "status"),
        (entry(vc=None), Fault.missing, "vc"),
        (entry(jobid=""), Fault.missing, "jobid"),
        (entry(submitted_time="None"), Fault.missing, "submitted_time"),
        (entry(submitted_time="noon"), Fault.unparsable, "submitted_time"),
        (entry(attempts=[{"start_time": None}]), Fault.missing, "start_time"),
        (ran_until("00:00:09"), Fault.negative, "duration"),
        (ran_until("00:00:10"), Fault.impossible, "duration"),
        (ran_until("00:00:11"), Fault.impossible, "gpus"),
        (17, Fault.unparsable, ""),
    ],
)
def test_bad_entry_is_dropped_and_reported(
    write: Write, bad: object, fault: Fault, column: str
) -> None:
    trace = load_trace(write("t.json", json.dumps([entry(jobid="good"), bad])))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (2,))
    assert [job.job_id for job in trace.jobs] == ["good"]


def test_duplicate_id_is_an_error_naming_both_entries(write: Write) -> None:
    with pytest.raises(TraceError, match="entry 2: job id 'j' is that of entry 1"):
        load_trace(write("t.json", json.dumps([entry(), entry()])))


def test_broken_json_is_an_error_with_its_place(write: Write) -> None:
    with pytest.raises(TraceError, match="line 2, column 1: not valid JSON"):
        load_trace(write("t.json", "[{},\n"))


def test_endless_nesting_is_an_error(write: Write) -> None:
    with pytest.raises(TraceError, match="not usable JSON"):
        load_trace(write("t.json", "[" * 200_000))


def test_object_instead_of_a_list_is_an_error(write: Write) -> None:
    with pytest.raises(TraceError, match="expected a JSON list of jobs"):
        load_trace(write("t.json", "{}"), "philly-json")
