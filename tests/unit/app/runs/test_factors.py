"""Runs whose jobs go as fast as tables say; numbers computed by hand."""

from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config
from shunter.errors import ConfigError
from shunter.events import SchedulerStarted
from shunter.run import load_jobs, set_up, simulate
from tests.unit.app.traces import config_of, ends_s, verified


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


CONFIG = Path(__file__).parents[4] / "examples" / "skew.toml"


@pytest.mark.parametrize(
    ("setting", "jct_s"),
    [
        # r1, r2, r3, v1, r4, r5, v2. Nobody waits but v1, for a whole server.
        ("policy.placement=skew", (100, 100, 100, 190, 200, 20, 100)),
        # r4 and r5 leave one GPU on each server, and v2 takes them: half speed.
        ("policy.placement=consolidated", (100, 100, 100, 190, 200, 20, 200)),
        # r3 waits for r1 beside two free GPUs, v2 for r5.
        ("policy.skew.threshold=0", (100, 100, 200, 190, 200, 20, 110)),
        # v1 and v2 are spread: half speed.
        ("policy.placement=spread", (100, 100, 100, 290, 200, 20, 200)),
    ],
)
def test_each_placement_gives_these_completion_times(setting: str, jct_s: tuple[int, ...]) -> None:
    result = simulate(load_config(CONFIG, [("--set", setting)], {}))
    stories = sorted(result.stories(), key=lambda story: story.ordinal)
    assert tuple(story.jct_us / 1e6 for story in stories if story.jct_us) == jct_s
    assert result.document["jct_s"]["mean"] == pytest.approx(sum(jct_s) / len(jct_s))
