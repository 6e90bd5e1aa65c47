"""Profiling on the simulated backend: what is measured there, modelled, and written."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.errors import ConfigError
from shunter.events.log import claim_log
from shunter.ops import Point, Profiled, SimulatedMachine, profiled, read_job_file
from shunter.workloads import load_sensitivity
from tests.unit.app.profiling.conftest import JOB, LOADER, WriteJob


def profile_of(path: Path) -> Profiled:
    file = read_job_file(path)
    return profiled(file, SimulatedMachine(file), lambda what: None)


def test_simulated_epoch_takes_what_the_table_says(write_job: WriteJob) -> None:
    """2,503 mini-batches of 0.64 s at the share; with 1 CPU it goes at 0.37 of that speed."""
    machine = SimulatedMachine(read_job_file(write_job(JOB)))
    at_share, one_cpu = machine.epochs_s([Point(3, 62_500), Point(1)])
    assert at_share == pytest.approx(2503 * 0.64)
    assert one_cpu == pytest.approx(2503 * 0.64 / 0.37)
    assert machine.now_us == round(one_cpu * 1e6)


def test_few_numbers_of_cpus_are_measured_and_the_rest_is_near(loader: Path) -> None:
    """A job that loads as MinIO does is known within what Synergy claims."""
    found = profile_of(loader)
    assert found.profile.cpus == (2, 4, 6, 12, 24)
    assert found.profile.full_s[2] == pytest.approx(600)
    assert found.profile.demand.cpus_milli == 6000
    near, of = found.within_claim(is_between=False)
    assert near == of > 40
    assert found.within_claim(is_between=True)[1] == 2 * 12
    # With 12 CPUs the disk is too slow for 40 GB, with 6 it is not, and with 8 just not.
    assert found.worst is not None
    assert found.worst.point == Point(8, 40_000)
    assert found.worst.error == pytest.approx(0.175, abs=0.001)
    assert [cell.error for cell in found.cells if cell.is_input] == pytest.approx([0.0] * 5)


def test_cell_that_is_no_minio_cache_is_told_with_its_error(write_job: WriteJob) -> None:
    """The published tables fall to a tenth of the share's speed at 20.83 GB; no disk does that."""
    found = profile_of(write_job(JOB))
    assert found.worst is not None
    assert found.worst.point == Point(24, 20_830)
    assert found.worst.error == pytest.approx(0.1 / 2.4 - 1)
    between = next(cell for cell in found.cells if cell.point == Point(9, 125_000))
    assert between.modelled_s == pytest.approx(2503 * 0.64 / ((1.75 + 2.4) / 2))
    assert between.error > 0.1  # 6 and 12 CPUs were measured, 9 lie between


def test_table_is_read_as_sensitivity_and_facts_are_what_was_measured(
    loader: Path, tmp_path: Path
) -> None:
    out, log = tmp_path / "table.json", tmp_path / "profile.db"
    words = ["profile", str(loader), "--simulated", "--json", "-o", str(out), "--log", str(log)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["epochs_s"]["24"] == pytest.approx(100)
    assert told["evidence"] == "simulated"
    table = load_sensitivity(str(out), lambda path: Path(path).read_text()).table
    matrix = table.models["loader"][1]
    assert matrix.speed(3000, 62_500) == pytest.approx(1)
    assert matrix.speed(6000, 62_500) == pytest.approx(2)
    facts = exported(log)
    assert {fact["kind"] for fact in facts} == {"ProfileMeasured"}
    assert facts[0]["steps_per_s"] == pytest.approx(1)  # 100 mini-batches in 100 s
    assert len(facts) == len(told["cells"])
    assert CliRunner().invoke(app, ["replay", str(log)]).exit_code == 0
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    assert "there is a log" in again.stderr


def exported(log: Path) -> list[dict[str, Any]]:
    lines = CliRunner().invoke(app, ["log", "export", str(log)]).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_printed_are_all_cells_the_worst_and_what_is_to_be_known(loader: Path) -> None:
    result = CliRunner().invoke(app, ["profile", str(loader), "--simulated"])
    assert result.exit_code == 0, result.output
    assert "6 CPUs and 35 GB for each GPU" in result.stdout
    assert "worst modelled cell: " in result.stdout
    assert "measuring an epoch, CPUs: 24 (to warm up)" in result.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (JOB.replace("res18", "res81"), "model: no model 'res81' in builtin:synergy; did you mean"),
        (LOADER.replace("epoch_s = 200", ""), "simulated.epoch_s: missing; expected seconds"),
        (LOADER.replace("true.json", "none.json"), "there is no file"),
        (LOADER.replace("true.json", "builtin:x"), "there is no table 'builtin:x'"),
    ],
)
def test_table_that_does_not_say_how_fast_the_job_is(
    loader: Path, write_job: WriteJob, text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        SimulatedMachine(read_job_file(write_job(text)))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["--log", "no/x.db"], "x.db cannot be written: there is no directory", 1),
        (["--log", "/proc/x.db"], "x.db cannot be written: No such file", 1),
        (["--log", "."], "cannot be written: it is not a file", 1),
        (["-o", "no/x.json"], "cannot write no/x.json: name a file in a folder that exists", 2),
        (["-o", "/proc/x.json"], "cannot write /proc/x.json: No such file", 2),
        (["-o", "."], "cannot write .: name a file", 2),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_measured(
    loader: Path, words: list[str], says: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(loader.parent)
    before = sorted(loader.parent.iterdir())
    result = CliRunner().invoke(app, ["profile", "job.toml", "--simulated", *words])
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert "measuring" not in result.stderr
    assert sorted(loader.parent.iterdir()) == before


def test_log_is_held_from_before_anything_is_measured(loader: Path, tmp_path: Path) -> None:
    """Of two that write the same log the second is refused at once, and writes no table."""
    log, out = tmp_path / "profile.db", tmp_path / "table.json"
    words = ["profile", str(loader), "--simulated", "--log", str(log), "-o", str(out)]
    with asyncio.run(claim_log(str(log))) or nullcontext():
        refused = CliRunner().invoke(app, words)
        assert not log.exists()
    assert refused.exit_code == 1
    assert "is being written by another process" in refused.stderr
    assert "measuring" not in refused.stderr
    assert not out.exists()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert {fact["kind"] for fact in exported(log)} == {"ProfileMeasured"}
    assert not log.with_name("profile.db.lock").exists()


def test_measurements_are_printed_where_they_cannot_be_written(
    loader: Path, tmp_path: Path
) -> None:
    log = tmp_path / "profile.db"
    words = ["profile", str(loader), "--simulated", "-o", "/dev/full", "--log", str(log)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "cannot write /dev/full: No space left" in result.stderr
    assert "what was measured is printed on stdout" in result.stderr
    told = json.loads(result.stdout)
    assert told["table"]["models"].keys() == {"loader"}
    assert len(exported(log)) == len(told["cells"])
