"""The canonical trace in both its forms."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import TraceError
from shunter.events import Dependency, DependsWhen, GpuType, JobId, JobSpec, QueueName, UserName
from shunter.workloads import Fault, JobEnd, TraceJob, load_trace

Write = Callable[[str, str], Path]

SAMPLE = (
    TraceJob(
        JobId("prep"),
        0,
        JobSpec(
            gpus=0,
            user=UserName("ana"),
            queue=QueueName("research"),
            cpus_milli=4_000,
            memory_mb=16_000,
        ),
        60_000_000,
    ),
    TraceJob(
        JobId("train"),
        2_500_000,
        JobSpec(
            gpus=8,
            user=UserName("ana"),
            queue=QueueName("research"),
            model="ResNet-50",
            batch_size=64,
            cpus_milli=32_000,
            memory_mb=256_000,
            time_limit_us=7_200_000_000,
            gpu_types=(GpuType("v100"), GpuType("a100")),
            depends_on=(Dependency(JobId("prep")),),
        ),
        3_600_000_000,
    ),
    TraceJob(
        JobId("eval"),
        2_500_000,
        JobSpec(
            gpus=1,
            user=UserName("bo"),
            depends_on=(Dependency(JobId("train"), DependsWhen.any),),
        ),
        120_000_001,
        JobEnd.failed,
    ),
)


@pytest.mark.parametrize("name", ["canonical.csv", "canonical.jsonl"])
def test_sample_is_read_whole(samples: Path, name: str) -> None:
    trace = load_trace(samples / name)
    assert trace.jobs == SAMPLE
    assert trace.format == name.replace(".", "-")
    assert trace.report.sentences() == ()


RATES = ThroughputTable({GpuType("v100"): {JobKind("toy", 2): 8.0}}, base_type=GpuType("v100"))


IN_CSV = "submit_s,duration_s,gpus,model,total_steps\n0,,2,toy,100\n5,7,2,toy,100\n"
IN_LINES = """\
{"submit_s": 0, "gpus": 2, "model": "toy", "total_steps": 100}
{"submit_s": 5, "duration_s": 7, "gpus": 2, "model": "toy", "total_steps": 100}
"""


@pytest.mark.parametrize(("suffix", "text"), [("csv", IN_CSV), ("jsonl", IN_LINES)])
def test_duration_may_be_left_to_the_steps(suffix: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"trace.{suffix}"
    path.write_text(text)
    known = load_trace(path, f"canonical-{suffix}", throughputs=RATES)
    assert [job.duration_us for job in known.jobs] == [12_500_000, 7_000_000]
    unknown = load_trace(path, f"canonical-{suffix}")
    [told] = unknown.report.sentences()
    assert told.startswith("dropped 1 row: duration_s is missing")


def test_row_without_duration_and_steps_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("submit_s,duration_s,gpus,model,total_steps\n0,,2,toy,\n5,7,1,,\n")
    assert len(load_trace(path, throughputs=RATES).jobs) == 1


@pytest.mark.parametrize("columns", ["1,toy,100", "2,other,100"])
def test_steps_of_a_kind_without_a_rate_are_refused(columns: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"submit_s,duration_s,gpus,model,total_steps\n0,,{columns}\n5,7,1,,\n")
    with pytest.raises(TraceError, match=r"duration_s is empty, and .* \(line 2\)"):
        load_trace(path, throughputs=RATES)


@pytest.mark.parametrize(
    ("column", "text", "fault"),
    [
        ("submit_s", "-1", Fault.negative),
        ("submit_s", "", Fault.missing),
        ("submit_s", "1507500000000", Fault.impossible),
        ("duration_s", "NaN", Fault.nan),
        ("duration_s", "0", Fault.impossible),
        ("duration_s", "0.0000001", Fault.impossible),
        ("duration_s", "long", Fault.unparsable),
        ("gpus", "", Fault.missing),
        ("gpus", "-2", Fault.negative),
        ("gpus", "2.5", Fault.impossible),
        ("gpus", "0", Fault.impossible),
        ("job_id", "", Fault.missing),
        ("status", "lost", Fault.unparsable),
        ("batch_size", "0", Fault.impossible),
        ("total_steps", "many", Fault.unparsable),
        ("cpus", "-0.5", Fault.negative),
        ("memory_gb", "nan", Fault.nan),
        ("time_limit_s", "0", Fault.impossible),
        ("weight", "0", Fault.impossible),
        ("weight", "inf", Fault.impossible),
        ("priority", "high", Fault.unparsable),
        ("gpus_min", "2", Fault.impossible),
        ("gpus_max", "0", Fault.impossible),
        ("shapes", "2+2", Fault.impossible),
        ("shapes", "2+", Fault.unparsable),
        ("depends_on", "[1]", Fault.unparsable),
        ("depends_on", ":ok", Fault.unparsable),
        ("gpu_type", "[not json", Fault.unparsable),
        ("tolerance", "rack", Fault.unparsable),
        ("tolerance", "moon:0.5", Fault.unparsable),
        ("max_level", "moon", Fault.unparsable),
        ("suspend_mode", "never mind", Fault.unparsable),
        ("min_speed", "-1", Fault.negative),
    ],
)
def test_bad_cell_drops_its_row_alone(write: Write, column: str, text: str, fault: Fault) -> None:
    cells = {"job_id": "bad", "submit_s": "1", "duration_s": "1", "gpus": "1"} | {column: text}
    good = {"job_id": "good", "submit_s": "1", "duration_s": "1", "gpus": "1"}
    lines = [",".join(cells), ",".join(cells.values())]
    lines.append(",".join(good.get(name, "") for name in cells))
    trace = load_trace(write("t.csv", "\n".join(lines)), "canonical-csv")
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (2,))
    assert [job.job_id for job in trace.jobs] == ["good"]


def test_rows_without_ids_are_numbered_in_file_order(write: Write) -> None:
    text = "submit_s,duration_s,gpus\n5,1,1\nx,1,1\n4,1,1\n"
    assert [job.job_id for job in load_trace(write("t.csv", text)).jobs] == ["2", "0"]


def test_missing_columns_are_named(write: Write) -> None:
    with pytest.raises(TraceError, match=r"t\.csv, line 1: missing columns gpus; found submit_s"):
        load_trace(write("t.csv", "submit_s,duration_s,gpu\n0,1,1\n"))


def test_unknown_columns_are_left_out_and_named_unless_they_are_marked(write: Write) -> None:
    path = write("t.csv", "submit_s,duration_s,gpus,colour,x_note\n0,1,1,red,?\n")
    report = load_trace(path).report
    assert (report.rows_selected, report.other_columns) == (1, ("colour",))
    assert any("the columns 'colour' say" in said for said in report.sentences())


def test_unknown_keys_are_left_out_and_named(write: Write) -> None:
    first = '{"submit_s": 0, "duration_s": 1, "gpus": 1, "x_a": 1}\n'
    text = first + '{"submit_s": 0, "duration_s": 1, "gpus": 1, "color": 1}\n'
    report = load_trace(write("t.jsonl", text)).report
    assert (report.rows_selected, report.other_columns) == (2, ("color",))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "Submit,NGPU,duration_s,Note\n5,2,10,x\n"),
        ("t.jsonl", '{"Submit": 5, "NGPU": 2, "duration_s": 10, "Note": "x"}\n'),
    ],
)
def test_columns_of_theirs_are_ours_where_that_is_said(write: Write, name: str, text: str) -> None:
    columns = {"Submit": "submit_s", "NGPU": "gpus"}
    trace = load_trace(write(name, text), columns=columns)
    (job,) = trace.jobs
    assert (job.submit_us, job.spec.gpus, job.duration_us) == (5_000_000, 2, 10_000_000)
    assert trace.report.other_columns == ("Note",)


def test_column_that_is_not_there_cannot_be_ours(write: Write) -> None:
    path = write("t.csv", "submit_s,duration_s,gpus\n0,1,1\n")
    with pytest.raises(TraceError, match="no column 'NGPU' to be called gpus; found submit_s"):
        load_trace(path, columns={"NGPU": "gpus"})


@pytest.mark.parametrize(
    ("line", "fault", "column"),
    [
        ('{"submit_s": 0, "duration_s": 1, "gpus"', Fault.unparsable, ""),
        ("[1, 2]", Fault.unparsable, ""),
        ('{"submit_s": NaN, "duration_s": 1, "gpus": 1}', Fault.nan, "submit_s"),
        ('{"submit_s": 0, "duration_s": 1}', Fault.missing, "gpus"),
        ('{"submit_s": 0, "duration_s": 1, "gpus": true}', Fault.unparsable, "gpus"),
        ('{"submit_s": 0, "duration_s": 1, "gpus": [1]}', Fault.unparsable, "gpus"),
        (
            '{"submit_s": 0, "duration_s": 1, "gpus": 1, "job_id": "a"}',
            Fault.contradiction,
            "job_id",
        ),
    ],
)
def test_bad_line_is_dropped_and_reported(
    write: Write, line: str, fault: Fault, column: str
) -> None:
    good = '{"submit_s": 0, "duration_s": 1, "gpus": 1}'
    trace = load_trace(write("t.jsonl", f"{good}\n\n{line}\n"))
    (finding,) = trace.report.dropped
    assert (finding.fault, finding.column, finding.places) == (fault, column, (3,))
    assert [job.job_id for job in trace.jobs] == ["0"]
    assert [note.places for note in trace.report.noted] == [(2,)]


def test_blank_last_line_of_json_lines_is_reported(write: Write) -> None:
    trace = load_trace(write("t.jsonl", '{"submit_s": 0, "duration_s": 1, "gpus": 1}\n\n'))
    assert trace.report.blank_last_line


def test_equal_specifications_are_one_object_however_written(write: Write) -> None:
    text = "submit_s,duration_s,gpus,weight\n0,1,1,1\n0,1,1.0,1.0\n0,1,1,\n"
    jobs = load_trace(write("t.csv", text)).jobs
    assert len({id(job.spec) for job in jobs}) == 1
