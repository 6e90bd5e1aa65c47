"""A run whose jobs go as fast as a table of factors says, and whose log verifies."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import LoadedConfig, make_config
from shunter.errors import ConfigError
from shunter.events import SchedulerStarted
from shunter.run import load_jobs, set_up, simulate

HEAD = "job_id,submit_s,gpus,duration_s,model\n"


def config(folder: Path, rows: str, factors: str | None, log: str = "none:") -> LoadedConfig:
    """Return a config of two servers of four GPUs below two switches each."""
    trace = folder / "jobs.csv"
    trace.write_text(HEAD + rows)
    node = {"name": "n", "count": 2, "gpus": 4, "switches": 2}
    workload = {"trace": str(trace)} | ({} if factors is None else {"factors": factors})
    return make_config(
        {
            "cluster": {"nodes": [node]},
            "workload": workload,
            "policy": {"name": "fifo", "placement": "consolidated", "trigger": "event"},
            "log": {"url": log},
        }
    )


def ends_s(loaded: LoadedConfig) -> list[float]:
    """Return when jobs ended, in order."""
    return sorted((story.end_us or 0) / 1e6 for story in simulate(loaded).stories())


def test_gang_over_two_servers_is_as_slow_as_its_model_says(tmp_path: Path) -> None:
    """Six GPUs are taken; a resnet50 of 2 gets one GPU on each server: 0.72 of its speed."""
    rows = "a,0,3,1000,none\nb,0,3,1000,none\nc,1,2,72,resnet50\n"
    assert ends_s(config(tmp_path, rows, "builtin:published"))[0] == pytest.approx(101, abs=1e-5)
    assert ends_s(config(tmp_path, rows, None))[0] == 73


def test_neighbours_slow_each_other_down_and_the_log_verifies(tmp_path: Path) -> None:
    """Two rnn below one switch go at 0.88 while both are there."""
    url = str(tmp_path / "run.db")
    loaded = config(tmp_path, "a,0,1,88,rnn\nb,0,1,176,rnn\n", "builtin:published", url)
    assert ends_s(loaded) == pytest.approx([100, 100 + 88], abs=1e-4)
    command = CliRunner().invoke(app, ["replay", url, "--verify"])
    assert command.exit_code == 0, command.output


def test_log_says_of_which_table_it_is(tmp_path: Path) -> None:
    table = tmp_path / "factors.toml"
    table.write_text("[models.rnn]\nbeside = { switch = 0.5 }\n")
    loaded = config(tmp_path, "a,0,1,88,rnn\n", str(table))
    started = set_up(loaded, load_jobs(loaded)).opening(1)[0]
    assert isinstance(started, SchedulerStarted)
    assert loaded.factor_file is not None
    assert dict(started.digests)["factors"] == loaded.factor_file.digest


def test_fault_of_a_table_is_told_with_the_key_that_names_it(tmp_path: Path) -> None:
    table = tmp_path / "factors.toml"
    table.write_text("[models.rnn]\nbeside = { switch = 1.5 }\n")
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, "a,0,1,88,rnn\n", str(table))
    assert "workload.factors" in str(caught.value)
    assert "models.rnn.beside.switch: expected a part of the speed" in str(caught.value)
