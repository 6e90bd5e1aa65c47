"""The traces of the Gavel simulator, of seven and of ten columns."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import TraceError
from shunter.events import GpuType, JobSpec
from shunter.workloads import Fault, Trace, builtin_throughputs, load_throughputs, load_trace

V100, K80 = GpuType("v100"), GpuType("k80")
LM = "LM (batch size 5)"
TABLE = ThroughputTable(
    {
        V100: {JobKind(LM, 1): 4.0, JobKind(LM, 2): 8.0, JobKind("A3C", 1): 0.5},
        K80: {JobKind(LM, 1): 1.0, JobKind("A3C", 1): 0.0},
    },
    base_type=V100,
    name="t.json",
)
COMMAND = "python3 main.py --data_dir=%s/data"

Write = Callable[[str, str], Path]


def ten(**changes: str) -> str:
    """Return a line of ten columns; keywords change some of its cells."""
    cells = {
        "job_type": LM,
        "command": COMMAND,
        "working_directory": "lm",
        "num_steps_arg": "--steps",
        "needs_data_dir": "1",
        "total_steps": "100",
        "scale_factor": "1",
        "priority_weight": "1",
        "SLO": "-1.000000",
        "arrival_time": "0.000000",
    }
    return "\t".join((cells | changes).values()) + "\n"


def seven(steps: str = "100", arrival: str = "7.5", gpus: str = "2") -> str:
    return f"{LM}\t{COMMAND}\t-n\t1\t{steps}\t{arrival}\t{gpus}\n"


def load(
    path: Path, table: ThroughputTable = TABLE, options: Mapping[str, str] | None = None
) -> Trace:
    return load_trace(path, options=options, throughputs=table)


@pytest.mark.parametrize("text", [ten(), seven()])
def test_format_is_guessed_from_the_content(write: Write, text: str) -> None:
    trace = load(write("t.trace", text))
    assert (trace.format, trace.origin) == ("gavel-trace", None)
    assert trace.report.sentences() == ()


def test_ten_columns_fill_the_specification(write: Write) -> None:
    line = ten(scale_factor="2", priority_weight="5.000000", SLO="1.2", arrival_time="10")
    (job,) = load(write("t.trace", line)).jobs
    assert (job.job_id, job.submit_us, job.duration_us) == ("0", 10_000_000, 12_500_000)
    assert job.spec == JobSpec(
        gpus=2, model=LM, batch_size=5, total_steps=100, weight=5.0, deadline_us=25_000_000
    )


def test_seven_columns_fill_the_specification(write: Write) -> None:
    (job,) = load(write("t.trace", seven())).jobs
    assert (job.submit_us, job.duration_us) == (7_500_000, 12_500_000)
    assert job.spec == JobSpec(gpus=2, model=LM, batch_size=5, total_steps=100)


def test_model_without_a_batch_size_has_none(write: Write) -> None:
    (job,) = load(write("t.trace", ten(job_type="A3C"))).jobs
    assert (job.spec.model, job.spec.batch_size, job.duration_us) == ("A3C", None, 200_000_000)


def test_duration_is_by_the_throughput_on_the_base_type(write: Write) -> None:
    table = ThroughputTable(TABLE.alone, base_type=K80)
    (job,) = load(write("t.trace", ten()), table).jobs
    assert job.duration_us == 100_000_000


def test_command_is_not_kept(write: Write) -> None:
    (job,) = load(write("t.trace", ten())).jobs
    assert (job.spec.command, job.spec.directory) == ((), "")


def test_equal_specifications_are_one_object(write: Write) -> None:
    jobs = load(write("t.trace", ten() + ten(arrival_time="9"))).jobs
    assert jobs[0].spec is jobs[1].spec


def test_ids_are_numbers_of_rows_dropped_ones_counted(write: Write) -> None:
    text = "\n" + ten(arrival_time="5") + ten(total_steps="0") + "\r\n" + ten(arrival_time="2")
    trace = load(write("t.trace", text.replace("\n", "\r\n") + "\n"))
    assert [(job.job_id, job.submit_us) for job in trace.jobs] == [
        ("2", 2_000_000),
        ("0", 5_000_000),
    ]
    assert (trace.report.rows_read, trace.report.rows_dropped, trace.report.unsorted) == (3, 1, 1)
    assert trace.report.blank_last_line


@pytest.mark.parametrize(
    ("changes", "fault", "column"),
    [
        ({"job_type": " "}, Fault.missing, "job_type"),
        ({"total_steps": "0"}, Fault.impossible, "total_steps"),
        ({"total_steps": "-3"}, Fault.negative, "total_steps"),
        ({"total_steps": "1.5"}, Fault.impossible, "total_steps"),
        ({"total_steps": "many"}, Fault.unparsable, "total_steps"),
        ({"total_steps": "9e15"}, Fault.impossible, "total_steps"),
        ({"scale_factor": "0"}, Fault.impossible, "scale_factor"),
        ({"scale_factor": ""}, Fault.missing, "scale_factor"),
        ({"priority_weight": "0"}, Fault.impossible, "priority_weight"),
        ({"priority_weight": "-1"}, Fault.negative, "priority_weight"),
        ({"priority_weight": "inf"}, Fault.impossible, "priority_weight"),
        ({"SLO": "0"}, Fault.impossible, "SLO"),
        ({"SLO": "-2"}, Fault.negative, "SLO"),
        ({"SLO": "nan"}, Fault.nan, "SLO"),
        ({"arrival_time": "-1"}, Fault.negative, "arrival_time"),
        ({"arrival_time": "nan"}, Fault.nan, "arrival_time"),
        ({"arrival_time": "0\t1"}, Fault.surplus, ""),
    ],
)
def test_bad_row_is_dropped_and_reported(
    write: Write, changes: dict[str, str], fault: Fault, column: str
) -> None:
    trace = load(write("t.trace", ten() + ten(**changes)))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (2,))
    assert [job.job_id for job in trace.jobs] == ["0"]


def test_row_that_ends_early_names_the_column_it_lacks(write: Write) -> None:
    (finding,) = load(write("t.trace", ten() + ten().rpartition("\t")[0])).report.dropped
    assert (finding.fault, finding.column) == (Fault.missing, "arrival_time")


def test_row_of_the_other_layout_is_dropped(write: Write) -> None:
    (finding,) = load(write("t.trace", ten() + seven())).report.dropped
    assert (finding.fault, finding.column) == (Fault.missing, "priority_weight")


def test_steps_that_take_no_microsecond_are_impossible(write: Write) -> None:
    table = ThroughputTable({V100: {JobKind(LM, 1): 1e12}}, base_type=V100)
    with pytest.raises(TraceError, match="total_steps is impossible"):
        load(write("t.trace", ten(total_steps="1")), table)


@pytest.mark.parametrize("columns", [6, 8, 9, 11])
def test_other_numbers_of_columns_are_an_error(write: Write, columns: int) -> None:
    line = "\t".join([LM] * columns)
    with pytest.raises(TraceError) as caught:
        load(write("t.trace", f"\n{line}\n"))
    assert f"t.trace, line 2: {columns} tab-separated columns; expected 7: job_type" in str(
        caught.value
    )


def test_format_needs_a_table(write: Write) -> None:
    with pytest.raises(TraceError, match=r"no table says how long they take; name one as workload"):
        load_trace(write("t.trace", ten()))


def test_kinds_the_table_lacks_are_an_error_that_says_what_to_do(write: Write) -> None:
    text = ten(job_type="B") + ten() + ten(job_type="B") + ten(scale_factor="4")
    with pytest.raises(TraceError) as caught:
        load(write("t.trace", text))
    said = str(caught.value)
    assert "t.json has no throughput above 0 on 'v100' for 'B' on 1 GPU (line 1), " in said
    assert f"{LM!r} on 4 GPUs (line 4); name a table that has it as workload.throughputs" in said


def test_kind_that_cannot_run_on_the_base_type_is_an_error(write: Write) -> None:
    table = ThroughputTable(TABLE.alone, base_type=K80)
    with pytest.raises(TraceError, match="no throughput above 0 on 'k80' for 'A3C' on 1 GPU"):
        load(write("t.trace", ten(job_type="A3C")), table)


def test_kinds_the_table_lacks_can_be_dropped(write: Write) -> None:
    path = write("t.trace", ten(job_type="B") + ten())
    trace = load(path, options={"unknown": "drop"})
    assert [job.job_id for job in trace.jobs] == ["1"]
    assert trace.report.sentences() == (
        "dropped 1 row: job_type has no throughput in the table ('B, 1 GPUs'), line 1",
    )


@pytest.fixture
def gavel(shared_traces: Path) -> Path:
    return shared_traces / "gavel"


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("artifact_evaluation", 15),
        ("gen120", 120),
        ("max_min_fairness", 96),
        ("medium_test", 20),
        ("minimize_makespan", 100),
        ("q_gang", 1),
        ("q_gap", 3),
        ("q_util", 2),
        ("small_test", 20),
    ],
)
def test_public_trace_is_kept_whole(gavel: Path, name: str, jobs: int) -> None:
    trace = load(gavel / f"{name}.trace", builtin_throughputs().table)
    assert trace.format == "gavel-trace"
    assert len(trace.jobs) == trace.report.rows_read == jobs
    assert trace.report.sentences() == ()
    assert all(job.spec.total_steps for job in trace.jobs)


def test_public_philly_trace_has_kinds_nobody_measured(gavel: Path) -> None:
    table = load_throughputs(
        str(gavel / "simulation_throughputs.json"), lambda path: Path(path).read_text()
    ).table
    path = gavel / "philly_ee9e8c_7col.trace"
    with pytest.raises(TraceError, match=r"'LM .batch size 20.' on 16 GPUs"):
        load(path, table)
    trace = load(path, table, {"unknown": "drop"})
    (dropped,) = trace.report.dropped
    assert (len(trace.jobs), dropped.fault, dropped.count) == (1627, Fault.unknown, 373)
