"""`shunter trace fit`: the config and the table that it writes, and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shunter.cli import app
from shunter.config import load_config
from shunter.run import simulate
from tests.unit.app.conftest import Generated

COSTS = {"start": "20s", "suspend": "10s", "resume": "30s", "migrate": "40s"}


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture
def log(generated: Generated, tmp_path: Path) -> Path:
    path = tmp_path / "run.db"
    guards = {"min_runtime": "2m"}
    config = generated(
        policy__name="las",
        policy__guards=guards,
        simulation__costs=COSTS,
        queues__big__quota_gpus=6,
        log__url=str(path),
    )
    simulate(config)
    return path


def test_config_has_the_cluster_the_policy_and_the_costs(log: Path, tmp_path: Path) -> None:
    out, jobs = tmp_path / "fitted.toml", tmp_path / "jobs.csv"
    assert command("log", "export", log, "--as-trace", "-o", jobs).exit_code == 0
    assert command("trace", "fit", log, "--out", out).exit_code == 0
    loaded = load_config(out, environ={})
    config = loaded.config
    assert [name for name, _ in config.cluster.servers()] == ["gpu1", "gpu2"]
    assert (config.policy.name, config.policy.guards.min_runtime) == ("las", 120_000_000)
    assert config.queues["big"].quota_gpus == 6
    costs = config.simulation.costs
    found = (costs.start, costs.suspend, costs.resume, costs.migrate)
    assert found == (20_000_000, 10_000_000, 30_000_000, 40_000_000)
    again, first = (
        simulate(loaded).document,
        json.loads(command("log", "stats", log, "--json").stdout),
    )
    assert again["jobs"]["finished"] == 60
    assert again["events"] == first["events"]


def test_config_goes_to_stdout_and_numbers_as_json(log: Path) -> None:
    printed = command("trace", "fit", log)
    assert printed.exit_code == 0
    assert "[simulation.costs]\nstart = 20.0\nsuspend = 10.0\nresume = 30.0\n" in printed.stdout
    document = json.loads(command("trace", "fit", log, "--json").stdout)
    assert document["costs"]["start"]["s"] == 20.0
    assert document["rates"] == []


def test_what_was_written_is_said_on_stderr(log: Path, tmp_path: Path) -> None:
    out, jobs, lines = tmp_path / "fitted.toml", tmp_path / "jobs.csv", tmp_path / "log.jsonl"
    exported = command("log", "export", log, "--as-trace", "-o", jobs)
    assert exported.stderr.splitlines() == [f"wrote 60 jobs to {jobs}"]
    fitted = command("trace", "fit", log, "-o", out)
    document = json.loads(command("trace", "fit", log, "--json").stdout)
    attempts = sum(document["costs"][each]["attempts"] for each in ("start", "resume", "migrate"))
    said = f"wrote costs measured on {attempts:,} attempts of 60 jobs to {out}"
    assert fitted.stderr.splitlines() == [said]
    exported = command("log", "export", log, "-o", lines)
    count = len(lines.read_bytes().splitlines())
    assert exported.stderr.splitlines() == [f"wrote {count:,} events, one a line, to {lines}"]


def test_rates_need_jobs_that_tell_their_steps(log: Path, tmp_path: Path) -> None:
    refused = command("trace", "fit", log, "--rates", tmp_path / "rates.json")
    assert refused.exit_code == 2
    assert "no job that names a model told its steps" in refused.stderr


def test_log_without_attempts_measures_nothing(generated: Generated, tmp_path: Path) -> None:
    path = tmp_path / "instant.db"
    simulate(generated(log__url=str(path)))
    refused = command("trace", "fit", path)
    assert refused.exit_code == 2
    assert "no attempt" in refused.stderr
