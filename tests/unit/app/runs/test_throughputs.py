"""Jobs on a table of throughputs: where they may run, how fast, and what the log keeps."""

import json
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig, recorded_throughputs
from shunter.errors import ConfigError, TraceError
from shunter.events import SchedulerStarted
from shunter.run import fit_to_table, load_jobs, set_up, simulate
from tests.unit.app.traces import Load, fitted, loader, verified

TABLE = """{
"v100": {"('LM', 1)": {"null": 8.0}, "('LM', 2)": {"null": 12.0}, "('A3C', 1)": {"null": 5.0},
         "('B', 1)": {"null": 1.0}, "('C', 1)": {"null": 0.0}},
"k80": {"('LM', 1)": {"null": 2.0}, "('LM', 2)": {"null": 3.0}, "('A3C', 1)": {"null": 0.0},
        "('C', 1)": {"null": 1.0}}
}"""
CONFIG = """\
[[cluster.nodes]]
name = "n"
gpus = 2
type = "k80"
[[cluster.nodes]]
name = "m"
gpus = 2
type = "v100"
[workload]
trace = "jobs.csv"
throughputs = "rates.json"
[policy]
trigger = "event"
"""
TABLE_OF = '{{"v100": {{{0}}}, "k80": {{{0}}}}}'
ONLY_K80 = CONFIG.replace('type = "v100"', 'type = "k80"')
GENERATED = """throughputs = "builtin:gavel"
[workload.generate]
kind = "gavel-like"
jobs = 30
jobs_per_hour = 2
gpus_max = 1
weights = true"""
HEAD = "job_id,submit_s,gpus,duration_s,model,gpu_type"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a config with these rows as its jobs."""
    return loader(tmp_path, HEAD, CONFIG, TABLE)


def fault_of(loaded: LoadedConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        fit_to_table(loaded, load_jobs(loaded))
    return str(caught.value)


@pytest.mark.parametrize(
    ("rows", "ends_s"),
    [
        ("a,0,2,100,LM,v100\nb,0,2,100,LM,k80\n", {"a": 100, "b": 400}),
        # b waits for the type on which it can run.
        ("a,0,2,100,LM,v100\nb,1,1,10,A3C,\n", {"a": 100, "b": 109}),
    ],
)
def test_a_job_runs_as_fast_as_the_table_says(
    load: Load, rows: str, ends_s: dict[str, int]
) -> None:
    ended = {story.job_id: story.jct_us for story in simulate(load(rows)).stories()}
    assert ended == {job: s * 1_000_000 for job, s in ends_s.items()}


def test_a_job_accepts_no_type_on_which_its_throughput_is_zero(load: Load) -> None:
    """Nor need a type be in the table that it does not accept."""
    rows = "a,0,1,9,A3C,\nb,0,1,9,LM,\nc,0,1,9,A3C,v100|k80\nd,0,1,9,LM,k80\ne,0,1,9,B,v100\n"
    assert fitted(load(rows)) == [("v100",), (), ("v100",), ("k80",), ("v100",)]


def test_jobs_without_gpus_need_no_throughput(load: Load) -> None:
    loaded = load("", CONFIG.replace("gpus = 2", "gpus = 2\ncpus = 8"))
    Path(loaded.config.workload.trace or "").write_text(
        "job_id,submit_s,gpus,duration_s,cpus\na,0,0,5,1\n"
    )
    assert fitted(loaded) == [()]


@pytest.mark.parametrize(
    ("rows", "config", "said"),
    [
        ("a,0,1,9,C,\n", CONFIG, "(job a) has no throughput above 0 on the base type v100"),
        (
            "a,0,1,9,A3C,k80\n",
            CONFIG,
            "(job a) can run on none of the servers: throughput 0 on k80",
        ),
        ("a,0,1,9,A3C,\n", ONLY_K80, "can run on none of the servers"),
    ],
)
def test_a_job_the_table_does_not_carry_is_named(
    load: Load, rows: str, config: str, said: str
) -> None:
    found = fault_of(load("x,0,1,9,LM,\n" + rows, config))
    assert "run.toml:11: workload.throughputs: " in found
    assert said in found
    assert found.endswith("; name a table that has it, or leave such jobs out")


def test_many_faults_are_counted(load: Load) -> None:
    zeros = ", ".join(f'"(\'m{n}\', 1)": {{"null": 0.0}}' for n in range(8))
    loaded = load("".join(f"{n},0,1,9,m{n},k80\n" for n in range(8)), table=TABLE_OF.format(zeros))
    lines = fault_of(loaded).splitlines()
    assert len(lines) == 6
    assert "and 11 more" in lines[-1]


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ("a,0,2,100,new,", "'new' on 2 GPUs (job a)"),
        ("a,0,2,100,A3C,", "'A3C' on 2 GPUs (job a)"),
        ("a,0,2,100,,", "a job that names no model on 2 GPUs (job a)"),
        ("a,0,1,100,B,k80", "'B' on 1 GPU (job a)"),
    ],
)
def test_a_job_without_a_rate_runs_for_its_own_duration_and_is_named(
    load: Load, row: str, named: str
) -> None:
    run = simulate(load(f"{row}\nx,0,2,100,LM,v100\n"))

    assert {story.jct_us for story in run.stories() if story.job_id == "a"} == {100_000_000}
    (said,) = run.remarks
    assert f"rates.json has no rate of {named}: such jobs take the duration_s" in said
    assert "x" not in named
    assert run.document["notes"] == [said]


def test_jobs_without_rates_are_counted(load: Load) -> None:
    rows = "".join(f"{n},0,1,9,m{n % 7},\n" for n in range(20))
    loaded = load(rows)
    (said,) = set_up(loaded, load_jobs(loaded)).notes
    assert "'m0' on 1 GPU (3 jobs, first 0), 'm1'" in said
    assert "'m4' on 1 GPU (3 jobs, first 4), 2 more: such jobs" in said


def test_a_job_without_a_rate_is_as_fast_as_its_gpu_type_is_said_to_be(load: Load) -> None:
    rows = "a,0,2,100,new,k80\nb,0,1,100,LM,v100\nc,0,1,100,LM,v100\n"
    run = simulate(load(rows, simulation__speeds__relative="{ k80 = 0.5 }"))

    ends = {story.job_id: story.jct_us for story in run.stories()}
    assert ends == {"a": 200_000_000, "b": 100_000_000, "c": 100_000_000}
    assert run.remarks[0].endswith(
        "as fast as simulation.speeds.relative says where there is no rate"
    )


@pytest.mark.parametrize("policy", ["max_min_fairness", "makespan", "finish_time_fairness"])
def test_policies_that_go_by_rates_plan_for_jobs_without_one(load: Load, policy: str) -> None:
    rows = "a,0,2,100,new,\nb,0,2,100,LM,\nc,5,1,90,,\nd,6,1,80,LM,k80\n"
    run = simulate(load(rows, policy__name=policy, policy__trigger="round"))

    assert {story.status for story in run.stories()} == {"finished"}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_steps_without_a_rate_are_refused_and_not_dropped(
    load: Load, tmp_path: Path, form: str
) -> None:
    names = ("job_id", "submit_s", "duration_s", "gpus", "model", "total_steps")
    rows = [("a", 0, "", 1, "LM", 80), ("b", 0, "", 4, "LM", 80), ("c", 0, 7, 4, "LM", 80)]
    path = tmp_path / f"steps.{form}"
    if form == "csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in (names, *rows)))
        line = 3
    else:
        found = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
        path.write_text("".join(found))
        line = 2
    with pytest.raises(TraceError) as refused:
        load_jobs(load("", workload__trace=str(path)))

    said = str(refused.value)
    assert said.startswith(f"{path}: duration_s is empty, and ")
    assert f"to make one of total_steps, for 'LM' on 4 GPUs (line {line}); write" in said


def test_a_trace_of_gavel_takes_its_durations_from_the_table(load: Load, tmp_path: Path) -> None:
    row = ["LM", "true", "d", "-n", "1", "800", "1", "1", "-1", "0"]
    (tmp_path / "t.trace").write_text("\t".join(row) + "\n")
    config = CONFIG.replace('"jobs.csv"', '"t.trace"')
    (job,) = load_jobs(load("", config)).jobs
    assert job.duration_us == 100_000_000
    (job,) = load_jobs(load("", config, workload__base_type="k80")).jobs
    assert job.duration_us == 400_000_000


def test_a_trace_of_gavel_without_a_table_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "t.trace").write_text("LM\ttrue\t-n\t1\t8\t0\t1")
    config = CONFIG.replace('"jobs.csv"', '"t.trace"').replace("throughputs = ", "format = ")
    with pytest.raises(TraceError, match=r"name one as workload\.throughputs"):
        load_jobs(load("", config.replace("rates.json", "gavel-trace")))


def test_generated_jobs_take_their_steps_from_the_table(load: Load) -> None:
    config = CONFIG.replace('trace = "jobs.csv"\nthroughputs = "rates.json"', GENERATED)
    assert config != CONFIG
    loaded = load("", config)
    trace = load_jobs(loaded)
    opening: Any = set_up(loaded, trace).opening(1)[0]
    assert {(job.spec.gpus, job.spec.weight) for job in trace.jobs} == {(1, 1.0), (1, 5.0)}
    assert json.loads(opening.config)["workload"]["generate"] == {
        "arrivals": "poisson",
        "ends": {"failed": 0.0, "cancelled": 0.0},
        "gpus_max": 1,
        "jobs": 30,
        "jobs_per_hour": 2.0,
        "kind": "gavel-like",
        "weights": True,
    }


def test_the_log_has_the_digest_and_the_table(load: Load, tmp_path: Path) -> None:
    loaded = load("a,0,1,9,A3C,\n", log__url=str(tmp_path / "run.db"))
    simulate(loaded)
    opening = verified(loaded)[0]
    assert isinstance(opening, SchedulerStarted)
    assert loaded.throughput_file is not None
    assert dict(opening.digests)["throughputs"] == loaded.throughput_file.digest
    assert recorded_throughputs(opening.config) == loaded.throughputs
    assert str(tmp_path) not in opening.config


def test_replay_needs_no_file(load: Load, tmp_path: Path) -> None:
    loaded = load("a,0,2,100,LM,\nb,0,2,100,LM,\nc,5,1,9,A3C,\n", log__url=str(tmp_path / "run.db"))
    simulate(loaded)
    for name in ("rates.json", "jobs.csv", "run.toml"):
        (tmp_path / name).unlink()
    verified(loaded)


def test_runs_without_a_table_record_nothing_of_it(load: Load) -> None:
    config = CONFIG.replace('throughputs = "rates.json"\n', "")
    loaded = load("a,0,1,9,new,\n", config)
    opening: Any = set_up(loaded, load_jobs(loaded)).opening(1)[0]
    assert [name for name, _ in opening.digests] == ["trace"]
    assert json.loads(opening.config)["workload"] == {"format": "canonical-csv", "jobs": 1}
