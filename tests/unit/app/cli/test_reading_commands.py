"""`config`, `policy`, `trace`: what they print, and where."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app

WriteConfig = Callable[[str], Path]
run = CliRunner().invoke


def test_config_validate_says_that_a_file_is_right(config_file: Path) -> None:
    done = run(app, ["config", "validate", str(config_file)])

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("right; 8 GPUs on 2 servers\n")


def test_config_validate_warns_of_servers_beyond_the_table_of_sensitivity(
    config_file: Path,
) -> None:
    given = ["workload.sensitivity=builtin:synergy", "cluster.nodes.0.cpus=120"]
    settings = [part for each in given for part in ("--set", each)]
    done = run(app, ["config", "validate", str(config_file), *settings])

    assert done.exit_code == 0
    assert "warning: builtin:synergy: a GPU of " in done.stderr
    assert "goes with 30 CPUs for each GPU, and the table has 1 to 24: beyond" in done.stderr


def test_config_validate_refuses_a_wrong_file(write_config: WriteConfig) -> None:
    done = run(app, ["config", "validate", str(write_config("seed = -1"))])

    assert done.exit_code == 2
    assert "run.toml:1: seed: expected 0 or more, not -1" in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["policy.sizing=tune", "cluster.nodes.0.cpus=8", "cluster.nodes.0.memory_gb=64"],
            "policy.sizing: 'tune' goes by how sensitive models are",
        ),
        (["policy.name=gandiva"], "policy gandiva shares GPUs in turns"),
        (
            ["policy.topology.make_room.moves_most=2"],
            "policy.topology.make_room: expected policy.placement = 'topology'",
        ),
        (
            ["policy.decentralised.schedulers=callers"],
            "policy.decentralised.schedulers: nobody calls in a simulation",
        ),
        (
            ["policy.slicing.quantum=60s", "policy.decentralised.candidates=2"],
            "policy.decentralised: with policy.slicing jobs are put on GPUs that others have",
        ),
    ],
)
def test_config_validate_refuses_what_no_run_takes(
    config_file: Path, settings: list[str], said: str
) -> None:
    options = [part for each in settings for part in ("--set", each)]
    done = run(app, ["config", "validate", str(config_file), *options])

    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{config_file}: {said}" in done.stderr
    assert run(app, ["simulate", str(config_file), *options]).stderr == done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("workload.trace=nope.csv", "workload.trace: there is no file nope.csv"),
        ("workload.trace=.", "cannot read trace .: "),
        ("workload.rows=[1,99]", "jobs.csv has 5 usable rows: rows = [1, 99]"),
    ],
)
def test_config_validate_refuses_jobs_that_no_run_takes(
    config_file: Path, setting: str, said: str
) -> None:
    done = run(app, ["config", "validate", str(config_file), "--set", setting])

    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert run(app, ["simulate", str(config_file), "--set", setting]).stderr == done.stderr


def test_config_validate_tells_of_rows_that_are_dropped(config_file: Path) -> None:
    trace = config_file.with_name("jobs.csv")
    trace.write_text(f"{trace.read_text().rstrip()}\n" + trace.read_text().splitlines()[1][:3])
    done = run(app, ["config", "validate", str(config_file)])

    assert done.exit_code == 0
    assert "jobs.csv: dropped 1 row: " in done.stderr


def test_config_show_prints_settings_that_set_takes(config_file: Path) -> None:
    shown = run(app, ["config", "show", str(config_file)]).stdout

    assert 'policy.name = "fifo"\n' in shown
    assert "cluster.nodes.0.gpus = 4\n" in shown


def test_config_show_says_where_values_came_from(config_file: Path) -> None:
    shown = run(app, ["config", "show", str(config_file), "--origin", "--set", "seed=5"]).stdout

    lines = {line.split(" = ")[0]: line.split("# ")[1] for line in shown.splitlines()}
    assert lines["seed"] == "--set seed"
    assert lines["policy.name"] == f"{config_file}:11"
    assert lines["policy.round"] == "default"


def test_config_show_origin_as_json(config_file: Path) -> None:
    done = run(app, ["config", "show", str(config_file), "--origin", "--json"])

    document = json.loads(done.stdout)
    assert {"key": "schema", "value": 1, "origin": f"{config_file}:1"} in document


def test_config_show_as_json_is_the_whole_config(config_file: Path) -> None:
    document = json.loads(run(app, ["config", "show", str(config_file), "--json"]).stdout)

    assert document["policy"]["round"] == "1m"
    assert document["cluster"]["nodes"][0]["name"] == "gpu[1-2]"


def test_config_schema_is_json() -> None:
    assert json.loads(run(app, ["config", "schema"]).stdout)["title"] == "Config"


def test_policy_list_marks_oracles() -> None:
    shown = run(app, ["policy", "list"]).stdout

    assert "srtf*" in shown
    assert "las " in shown


def test_policy_list_as_json_has_parameters_with_defaults() -> None:
    documents = json.loads(run(app, ["policy", "list", "--json"]).stdout)

    las = next(document for document in documents if document["name"] == "las")
    assert las["oracle"] is False
    assert las["params"][0]["key"] == "queues_gpu_s"
    assert las["params"][0]["default"] == ["1h", "20h"]


def test_policy_show_says_what_it_takes() -> None:
    shown = run(app, ["policy", "show", "fifo_easy"]).stdout

    assert "[policy.params.fifo_easy]" in shown
    assert 'default_limit = "365d"' in shown


def test_policy_show_of_one_without_parameters() -> None:
    assert "It takes no parameters." in run(app, ["policy", "show", "fifo"]).stdout


def test_policy_show_of_an_unknown_one_is_exit_3() -> None:
    done = run(app, ["policy", "show", "lsa"])

    assert done.exit_code == 3
    assert "did you mean 'las'?" in done.stderr


def test_trace_describe_keeps_statistics_and_faults_apart(config_file: Path) -> None:
    trace = config_file.parent / "jobs.csv"

    done = run(app, ["trace", "describe", str(trace), "--gpus", "8"])

    assert "5 rows read, 0 dropped, 5 jobs" in done.stderr
    assert "GPU-hours" in done.stdout
    assert "load" in done.stdout


def test_trace_describe_as_json(config_file: Path) -> None:
    trace = config_file.parent / "jobs.csv"

    document = json.loads(
        run(app, ["trace", "describe", str(trace), "--rows", "1:4", "--json"]).stdout
    )

    assert document["jobs"] == 3
    assert document["quality"]["rows_read"] == 5


def test_trace_that_gives_steps_is_described_by_a_table(tmp_path: Path) -> None:
    trace = tmp_path / "t.trace"
    trace.write_text("A3C\ttrue\t-n\t1\t718\t0\t1\n")

    assert "--throughputs" in run(app, ["trace", "describe", str(trace)]).stderr
    done = run(app, ["trace", "convert", str(trace), "--throughputs", "builtin:gavel"])

    header, row = done.stdout.splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["duration_s"] == "100"


@pytest.mark.parametrize("rows", ["5", "a:b", "-1:5"])
def test_trace_rows_that_are_none_are_refused(rows: str, config_file: Path) -> None:
    done = run(app, ["trace", "describe", str(config_file.parent / "jobs.csv"), f"--rows={rows}"])

    assert done.exit_code == 2
    assert "expected FIRST:END" in done.stderr


def test_options_of_a_format_reach_it() -> None:
    path = "tests/data/traces/philly_job_log.json"

    jobs = [
        json.loads(
            run(app, ["trace", "describe", path, "--json", "--option", f"attempts={which}"]).stdout
        )
        for which in ("all", "last")
    ]

    assert jobs[0]["digest"] != jobs[1]["digest"]


@pytest.mark.parametrize("option", ["attempts", "attempts=some", "nope=1"])
def test_options_that_a_format_does_not_know_are_refused(option: str) -> None:
    path = "tests/data/traces/philly_job_log.json"

    assert run(app, ["trace", "describe", path, "--option", option]).exit_code == 2


def test_a_generated_trace_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "made.csv"

    made = run(app, ["trace", "generate", "--jobs", "20", "--gpus", "8", "-o", str(path)])
    described = run(app, ["trace", "describe", str(path), "--json"])

    assert made.exit_code == 0
    assert json.loads(described.stdout)["jobs"] == 20


def test_trace_generate_knows_every_kind() -> None:
    done = run(app, ["trace", "generate", "--kind", "gavel-like", "--jobs", "3"])
    assert len(done.stdout.splitlines()) == 4
    done = run(app, ["trace", "generate", "--kind", "alien", "--jobs", "3"])
    assert "expected one of philly-like, tiresias-like, gavel-like, synergy-like" in done.stderr


def test_a_trace_on_stdout_stands_there_alone() -> None:
    done = run(app, ["trace", "generate", "--jobs", "3", "--to", "canonical-jsonl"])

    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 3


def test_trace_convert_writes_the_canonical_form(config_file: Path) -> None:
    done = run(app, ["trace", "convert", str(config_file.parent / "jobs.csv")])

    assert done.stdout.startswith("job_id,submit_s,duration_s,status,gpus,user\na,0,100,finished,8")


def test_compare_prints_a_row_for_each_policy(config_file: Path) -> None:
    done = run(app, ["compare", str(config_file), "--policies", "fifo,srtf", "-j", "1"])

    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["fifo", "srtf*"]


def test_compare_with_seeds_prints_intervals(config_file: Path) -> None:
    arguments = ["--policies", "fifo", "--seeds", "2", "-j", "1", "--set"]
    done = run(app, ["compare", str(config_file), *arguments, "workload.generate.jobs=20"])

    assert " ± " in done.stdout


@pytest.mark.parametrize("policies", ["", ",", "fifo,fifo"])
def test_compare_wants_different_policies(policies: str, config_file: Path) -> None:
    done = run(app, ["compare", str(config_file), "--policies", policies])

    assert done.exit_code == 2


def test_version_is_data() -> None:
    done = run(app, ["--version"])

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("shunter ")
