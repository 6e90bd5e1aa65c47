"""A site's own history, as sacct of Slurm 22.05 has printed it, and as other sites may."""

from pathlib import Path

import pytest

from shunter.errors import TraceError
from shunter.workloads import Fault, JobEnd, Trace, load_trace
from tests.unit.backends.slurm.recorded import recorded

HEADER = (
    "JobIDRaw|JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|ReqTRES|AllocTRES|JobName"
)
TRES = "cpu=4,mem=62.50G,node=1,gres/gpu=2|cpu=4,mem=62.50G,node=1,gres/gpu=2"


def row(number: str = "7", **cells: str) -> str:
    """Return a row of a job with two GPUs that ran for 50 of 60 s."""
    usual = {
        "id": number,
        "shown": number,
        "user": "ana",
        "submit": "1000",
        "start": "1010",
        "end": "1060",
        "elapsed": "50",
        "limit": "5",
        "state": "COMPLETED",
        "tres": TRES,
        "name": "train",
    }
    return "|".join({**usual, **cells}.values())


def read(folder: Path, *rows: str, header: str = HEADER, queue: str = "partition") -> Trace:
    path = folder / "history.txt"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return load_trace(path, "slurm-sacct", options={"queue": queue})


def dropped(trace: Trace) -> dict[Fault, tuple[int, ...]]:
    return {finding.fault: finding.places for finding in trace.report.dropped}


@pytest.fixture
def history(tmp_path: Path) -> Trace:
    """What 22.05 has printed of a few jobs of every kind."""
    path = tmp_path / "sacct.txt"
    path.write_text(recorded("22.05", "sacct.txt"), encoding="utf-8")
    return load_trace(path)


def test_recorded_history_is_recognised_and_becomes_jobs(history: Trace) -> None:
    assert history.format == "slurm-sacct"
    assert history.origin == "2026-11-24T12:17:42+00:00"
    jobs = {str(job.job_id): job for job in history.jobs}
    gang = jobs["4"]
    assert (gang.spec.gpus, gang.spec.cpus_milli, gang.spec.memory_mb) == (4, 2000, 200)
    assert (gang.submit_us, gang.duration_us) == (0, 2_000_000)
    assert (gang.spec.user, gang.spec.queue, gang.spec.name) == ("root", "main", "gang")
    assert gang.spec.time_limit_us == 300_000_000
    ends = {name: jobs[name].ends for name in ("1", "7", "9", "10")}
    assert ends == {
        "1": JobEnd.finished,
        "7": JobEnd.failed,
        "9": JobEnd.cancelled,
        "10": JobEnd.failed,
    }


def test_steps_and_jobs_without_gpus_are_left_out_and_counted(history: Trace) -> None:
    counts = {finding.fault: finding.count for finding in history.report.dropped}
    assert (counts[Fault.step], counts[Fault.no_gpus]) == (19, 2)
    said = " ".join(history.report.sentences())
    assert "19 rows: it is a step of a job ('1.batch'), lines 3, 4, 6" in said
    assert "2 rows: the job had no GPUs" in said


def test_requeued_job_is_one_that_was_submitted_first_and_ran_last(history: Trace) -> None:
    (again,) = [job for job in history.jobs if job.spec.name == "again"]
    assert (again.job_id, again.submit_us, again.duration_us) == ("8", 0, 4_000_000)
    assert again.ends is JobEnd.finished
    assert Fault.requeued in dropped(history)


def test_tasks_of_an_array_are_jobs_of_one_group(history: Trace) -> None:
    tasks = {job.job_id: job.spec.group for job in history.jobs if job.spec.name == "sweep"}
    assert tasks == {"5": "3", "6": "3", "3": "3"}


def test_sign_in_a_name_that_stands_last_is_part_of_it(history: Trace) -> None:
    assert "odd|name" in {job.spec.name for job in history.jobs}


def test_rest_of_a_name_with_a_line_break_is_no_job(history: Trace) -> None:
    assert dropped(history)[Fault.missing] == (29,)


def test_local_instants_are_said_to_be_read_as_utc_and_numbers_are_not(
    history: Trace, tmp_path: Path
) -> None:
    assert [finding.fault for finding in history.report.noted] == [Fault.zoneless]
    trace = read(tmp_path, row())
    assert trace.report.noted == ()
    assert trace.origin == "1970-01-01T00:16:40+00:00"


def test_duration_is_the_time_that_slurm_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, row(end="4660", elapsed="50"))  # an hour more: the clocks changed
    assert trace.jobs[0].duration_us == 50_000_000
    (finding,) = trace.report.noted
    assert (finding.fault, finding.column) == (Fault.contradiction, "ElapsedRaw")


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({"start": "Unknown", "end": "Unknown", "state": "PENDING"}, Fault.never_ran),
        ({"start": "None", "state": "CANCELLED by 1000"}, Fault.never_ran),
        ({"end": "Unknown", "state": "RUNNING"}, Fault.still_runs),
        ({"state": "DREAMING"}, Fault.unparsable),
        ({"submit": "soon"}, Fault.unparsable),
        ({"elapsed": "long"}, Fault.unparsable),
        ({"elapsed": "0"}, Fault.impossible),
        ({"id": ""}, Fault.missing),
        ({"tres": "cpu=4|"}, Fault.no_gpus),
        ({"user": "ana|bo|chen"}, None),
    ],
)
def test_row_that_is_no_job_is_told_with_its_line(
    cells: dict[str, str], fault: Fault | None, tmp_path: Path
) -> None:
    trace = read(tmp_path, row("1"), row("2", **cells))
    assert [job.job_id for job in trace.jobs] == ["1"]
    assert list(dropped(trace).values()) == [(3,)]
    assert fault is None or list(dropped(trace)) == [fault]


def test_gpu_types_are_those_asked_for_not_those_given(tmp_path: Path) -> None:
    given = "cpu=4,gres/gpu=2,gres/gpu:v100=2"
    trace = read(
        tmp_path,
        row("1", tres=f"cpu=4,gres/gpu=2|{given}"),
        row("2", tres=f"cpu=4,gres/gpu:v100=2|{given}"),
    )
    assert [job.spec.gpu_types for job in trace.jobs] == [(), ("v100",)]
    assert [job.spec.gpus for job in trace.jobs] == [2, 2]


def test_memory_is_read_in_its_units(tmp_path: Path) -> None:
    (job,) = read(tmp_path, row()).jobs
    assert job.spec.memory_mb == 64_000


def test_id_that_was_used_again_is_another_job(tmp_path: Path) -> None:
    trace = read(tmp_path, row(), row(submit="2000", start="2000", end="2050", name="other"))
    assert [job.job_id for job in trace.jobs] == ["7", "7#2"]
    assert [finding.fault for finding in trace.report.noted] == [Fault.used_again]


def test_account_may_be_the_queue(tmp_path: Path) -> None:
    header = HEADER.replace("User", "Account")
    (job,) = read(tmp_path, row(), header=header, queue="account").jobs
    assert job.spec.queue == "ana"


def test_sign_at_the_end_of_each_line_is_no_column(tmp_path: Path) -> None:
    (job,) = read(tmp_path, row() + "|", header=HEADER + "|").jobs
    assert job.spec.name == "train"


def test_header_without_what_is_needed_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="missing columns end, AllocTRES; print it with: SLURM_T"):
        read(tmp_path, "", header="JobID|Submit|Start|State")


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_row_ends_at_a_line_feed_and_at_nothing_else(end: str, tmp_path: Path) -> None:
    forged = f"a{end}99|99|rival|1000|1010|9999|8989|5|COMPLETED|gres/gpu=64|gres/gpu=64|x"
    trace = read(tmp_path, row("1", name=forged), row("2", name=f"b{end}"))
    assert {str(job.job_id): job.spec.name for job in trace.jobs} == {"1": forged, "2": f"b{end}"}
    assert trace.report.rows_read == 2


def test_carriage_returns_at_the_end_of_lines_are_no_part_of_names(tmp_path: Path) -> None:
    path = tmp_path / "history.txt"
    path.write_bytes(f"{HEADER}\r\n{row()}\r\n".encode())
    (job,) = load_trace(path).jobs
    assert job.spec.name == "train"


def test_components_of_a_heterogeneous_job_are_one_job(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        row("500", shown="500+0", tres="|cpu=8,mem=64G,gres/gpu=4"),
        row("501", shown="500+1", tres="|cpu=4,mem=32G,gres/gpu=2", end="1050", elapsed="40"),
        row("502", shown="500+2", tres="|cpu=2,mem=1G"),
    )
    (job,) = trace.jobs
    assert (job.job_id, job.spec.gpus, job.duration_us) == ("500", 6, 50_000_000)
    assert (job.spec.cpus_milli, job.spec.memory_mb) == (12_000, 98_304)
    assert dropped(trace) == {Fault.no_gpus: (4,), Fault.component: (3,)}


def test_components_that_were_requeued_are_one_job_again(tmp_path: Path) -> None:
    again = {"submit": "1060", "start": "1070", "end": "1100", "elapsed": "30"}
    trace = read(
        tmp_path,
        row("500", shown="500+0", state="PREEMPTED"),
        row("501", shown="500+1", state="PREEMPTED"),
        row("500", shown="500+0", **again),
        row("501", shown="500+1", **again),
    )
    (job,) = trace.jobs
    assert (job.spec.gpus, job.submit_us, job.duration_us) == (4, 0, 30_000_000)


@pytest.mark.parametrize(
    "last",
    [
        {"start": "1070", "end": "1070", "elapsed": "0"},
        {"start": "Unknown", "end": "1070", "elapsed": "0"},
    ],
)
def test_job_that_was_cancelled_before_it_ran_again_ran_as_long_as_before(
    last: dict[str, str], tmp_path: Path
) -> None:
    trace = read(
        tmp_path,
        row("5", state="NODE_FAIL"),
        row("5", submit="1060", state="CANCELLED by 5", **last),
    )
    (job,) = trace.jobs
    assert (job.job_id, job.duration_us, job.ends) == ("5", 50_000_000, JobEnd.cancelled)
    assert dropped(trace) == {Fault.requeued: (3,)}


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "RESIZING"])
def test_job_that_was_requeued_and_has_not_ended_is_left_out(state: str, tmp_path: Path) -> None:
    times = {"start": "Unknown", "end": "Unknown"} if state == "PENDING" else {"end": "Unknown"}
    times = {"submit": "1060", "start": "1070", "end": "1090", "elapsed": "20"} | times
    rows = [row("5", state="NODE_FAIL"), row("5", state=state, **times), row("6")]
    trace = read(tmp_path, *rows)
    assert [job.job_id for job in trace.jobs] == ["6"]
    fault = Fault.never_ran if state == "PENDING" else Fault.still_runs
    assert dropped(trace) == {Fault.requeued: (2,), fault: (3,)}


@pytest.mark.parametrize(
    "state", ["BOOT_FAIL", "REQUEUE_HOLD", "SPECIAL_EXIT", "LAUNCH_FAILED", "FAILED", "TIMEOUT"]
)
def test_row_at_once_after_another_of_the_same_job_is_its_next_run(
    state: str, tmp_path: Path
) -> None:
    again = row("2", submit="1060", start="1070", end="1100", elapsed="30")
    trace = read(tmp_path, row("2", state=state), again)
    (job,) = trace.jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("2", 0, 30_000_000)
    assert dropped(trace) == {Fault.requeued: (2,)}


def test_job_that_was_resized_ran_through_all_its_sizes(tmp_path: Path) -> None:
    half = "cpu=2,gres/gpu=1|cpu=2,gres/gpu=1"
    trace = read(
        tmp_path,
        row("7", state="PREEMPTED", end="1020", elapsed="10"),
        row("7", submit="1020", start="1030", end="1060", elapsed="30", state="RESIZING"),
        row("7", submit="1060", start="1060", end="1080", elapsed="20", tres=half),
    )
    (job,) = trace.jobs
    assert (job.job_id, job.spec.gpus, job.submit_us, job.duration_us) == ("7", 2, 0, 50_000_000)
    assert dropped(trace) == {Fault.requeued: (2,), Fault.resized: (4,)}


def test_row_whose_tres_are_numbers_says_to_print_them_with_names(tmp_path: Path) -> None:
    numbers = "1=8,2=64000,4=1,1001=2"
    rows = [row("1"), row("3", tres=f"{numbers}|{numbers}"), row("4", tres="|1=8,2=64000,4=1")]
    trace = read(tmp_path, *rows)
    assert dropped(trace) == {Fault.numbered: (3,), Fault.no_gpus: (4,)}
    assert "TRES are numbers" in " ".join(trace.report.sentences())


ONCE_MORE = {"start": "1100", "end": "1130", "elapsed": "30"}
"""The second run of a job that Slurm requeued without another instant of submission."""


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 0, 1), (3, 1, 2, 0), (0, 2, 1, 3)])
def test_components_that_were_requeued_with_one_submission_count_once(
    order: tuple[int, ...], tmp_path: Path
) -> None:
    rows = [
        row("500", shown="500+0", state="PREEMPTED"),
        row("501", shown="500+1", state="PREEMPTED", end="1059", elapsed="49"),
        row("500", shown="500+0", **ONCE_MORE),
        row("501", shown="500+1", **ONCE_MORE),
    ]
    (job,) = read(tmp_path, *[rows[number] for number in order]).jobs
    assert (job.job_id, job.spec.gpus, job.duration_us) == ("500", 4, 30_000_000)
    assert job.ends is JobEnd.finished


def test_component_whose_first_run_is_not_in_the_file_counts_in_the_second(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        row("501", shown="500+1", **ONCE_MORE),
        row("500", shown="500+0", state="PREEMPTED"),
        row("500", shown="500+0", **ONCE_MORE),
    )
    (job,) = trace.jobs
    assert (job.job_id, job.spec.gpus, job.duration_us) == ("500", 4, 30_000_000)


@pytest.mark.parametrize("state", ["PREEMPTED", "FAILED", "COMPLETED"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_job_that_was_requeued_with_one_submission_ran_last_where_it_began_last(
    state: str, newest_first: bool, tmp_path: Path
) -> None:
    """With --duplicates sacct prints the newest submission first, and equal ones in any order."""
    rows = [row(state=state), row(**ONCE_MORE)]
    trace = read(tmp_path, *(reversed(rows) if newest_first else rows))
    (job,) = trace.jobs
    assert (job.job_id, job.duration_us, job.ends) == ("7", 30_000_000, JobEnd.finished)
    assert dropped(trace) == {Fault.requeued: (3,) if newest_first else (2,)}


def test_row_that_is_there_twice_is_one_job(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        *[row("1"), row("1"), row("2", shown="2_1"), row("2", shown="2_1")],
        *[row("500", shown="500+0"), row("501", shown="500+1")] * 2,
    )
    assert {str(job.job_id): job.spec.gpus for job in trace.jobs} == {"1": 2, "2": 2, "500": 4}
    assert dropped(trace) == {Fault.duplicate: (3, 5, 8, 9), Fault.component: (7,)}
    assert "it is of the same run as another row" in " ".join(trace.report.sentences())


@pytest.mark.parametrize("newest_first", [False, True])
def test_row_of_a_run_that_has_ended_since_gives_way_to_the_later_one(
    newest_first: bool, tmp_path: Path
) -> None:
    """Two files of sacct were put together: the job still ran when the first was printed."""
    requeued = row(state="NODE_FAIL")
    first = [requeued, row(submit="1060", start="1070", state="RUNNING", end="Unknown")]
    second = [requeued, row(submit="1060", start="1070", end="1100", elapsed="30")]
    trace = read(tmp_path, row("6"), *(second + first if newest_first else first + second))
    _, job = trace.jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("7", 0, 30_000_000)
    assert job.ends is JobEnd.finished


def test_resized_job_whose_rows_are_there_twice_ran_through_its_sizes_once(
    tmp_path: Path,
) -> None:
    rows = [row(state="RESIZING"), row(start="1060", end="1080", elapsed="20")]
    (job,) = read(tmp_path, *rows, *rows).jobs
    assert (job.job_id, job.duration_us) == ("7", 70_000_000)
