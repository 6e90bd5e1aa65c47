"""A run whose jobs go as fast as a table of factors says, and whose log verifies."""

from pathlib import Path

import pytest

from shunter.config import LoadedConfig
from shunter.errors import ConfigError
from shunter.events import SchedulerStarted
from shunter.run import load_jobs, set_up
from tests.unit.app.runs.traces import config_of, ends_s, verified


def config(folder: Path, factors: str | None, *rows: str) -> LoadedConfig:
    """Return a config of two servers of four GPUs below two switches each."""
    return config_of(
        folder,
        "job_id,submit_s,gpus,duration_s,model",
        *rows,
        cluster={"nodes": [{"name": "n", "count": 2, "gpus": 4, "switches": 2}]},
        workload={} if factors is None else {"factors": factors},
        policy={"name": "fifo", "placement": "consolidated", "trigger": "event"},
    )


def table_of(folder: Path, switch: float) -> str:
    """Write a table in which a neighbour below the same switch leaves so much of the speed."""
    table = folder / "factors.toml"
    table.write_text(f"[models.rnn]\nbeside = {{ switch = {switch} }}\n")
    return str(table)


def test_gang_over_two_servers_is_as_slow_as_its_model_says(tmp_path: Path) -> None:
    """Six GPUs are taken; a resnet50 of 2 gets one GPU on each server: 0.72 of its speed."""
    rows = ("a,0,3,1000,none", "b,0,3,1000,none", "c,1,2,72,resnet50")
    slowed = ends_s(config(tmp_path, "builtin:published", *rows))
    assert slowed["c"] == pytest.approx(101, abs=1e-5)
    (tmp_path / "run.db").unlink()
    assert ends_s(config(tmp_path, None, *rows))["c"] == 73


def test_neighbours_slow_each_other_down_and_the_log_verifies(tmp_path: Path) -> None:
    """Two rnn below one switch go at 0.88 while both are there."""
    loaded = config(tmp_path, "builtin:published", "a,0,1,88,rnn", "b,0,1,176,rnn")
    assert ends_s(loaded) == pytest.approx({"a": 100, "b": 100 + 88}, abs=1e-4)
    verified(loaded)


def test_log_says_of_which_table_it_is(tmp_path: Path) -> None:
    loaded = config(tmp_path, table_of(tmp_path, 0.5), "a,0,1,88,rnn")
    started = set_up(loaded, load_jobs(loaded)).opening(1)[0]
    assert isinstance(started, SchedulerStarted)
    assert loaded.factor_file is not None
    assert dict(started.digests)["factors"] == loaded.factor_file.digest


def test_fault_of_a_table_is_told_with_the_key_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, table_of(tmp_path, 1.5), "a,0,1,88,rnn")
    assert "workload.factors" in str(caught.value)
    assert "models.rnn.beside.switch: expected a part of the speed" in str(caught.value)
