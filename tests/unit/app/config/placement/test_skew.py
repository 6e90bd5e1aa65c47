"""`[policy.skew]` and the sizes of `[simulation.costs]`: tables, files, errors, and the record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shunter.config import LoadedConfig, load_config, policy_runtime, record_of
from shunter.core.planning import Skew
from shunter.core.ranking import RankedPolicy
from shunter.errors import ConfigError
from shunter.run import load_jobs, set_up

TABLE = "model,total_mb,largest_mb,skew\nvgg16,500,400,0.8\nflat,1000,10,0.01\n"
CLUSTER = '[[cluster.nodes]]\nname = "n"\ngpus = 4\n'
CONFIG = f"""\
{CLUSTER}
[workload]
trace = "models.csv"
[policy]
placement = "skew"
"""
BY_FILE = CONFIG + '[policy.skew]\ntable = "skews.csv"\n'
JOBS = "job_id,submit_s,gpus,duration_s,model,skew\na,0,2,10,vgg16,\nb,0,2,10,new,\nc,0,2,10,,0.5\n"

WriteConfig = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    (tmp_path / "skews.csv").write_text(TABLE)
    (tmp_path / "models.csv").write_text(JOBS)


def loaded_from(path: Path, *settings: str) -> LoadedConfig:
    return load_config(path, [("--set", setting) for setting in settings], {})


def placement_of(policy: Any) -> Skew:
    assert isinstance(policy, RankedPolicy)
    assert isinstance(policy.placement, Skew)
    return policy.placement


def fault_of(path: Path, *settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded_from(path, *settings)
    return str(caught.value)


def refusal_of(path: Path, *settings: str) -> str:
    """Return what is said once the jobs are known."""
    loaded = loaded_from(path, *settings)
    with pytest.raises(ConfigError) as caught:
        set_up(loaded, load_jobs(loaded))
    return str(caught.value)


def test_the_built_in_table_is_the_default(write_config: WriteConfig) -> None:
    placement = placement_of(policy_runtime(loaded_from(write_config(CONFIG)), instant=True).policy)
    assert placement.threshold == 0.375
    assert len(placement.skews) == 9
    assert placement.skews["vgg16"] == 0.744


def test_a_file_beside_the_config_is_the_table(write_config: WriteConfig) -> None:
    loaded = loaded_from(write_config(BY_FILE), "policy.skew.models.flat=0.9")
    assert loaded.skews == {"vgg16": 0.8, "flat": 0.9}
    assert loaded.tensors_mb == {"vgg16": 500, "flat": 1000}


def test_a_table_is_read_once(write_config: WriteConfig, tmp_path: Path) -> None:
    loaded = loaded_from(write_config(BY_FILE))
    (tmp_path / "skews.csv").unlink()
    assert loaded.replaced({"seed": 5}, "test").skews == loaded.skews


def test_a_wrong_table_is_said_with_its_line(write_config: WriteConfig, tmp_path: Path) -> None:
    (tmp_path / "skews.csv").write_text(TABLE.replace("1000,10,", "1000,x,"))
    said = fault_of(write_config(BY_FILE))
    assert "run.toml:" in said
    assert "policy.skew.table" in said
    assert "skews.csv, line 3, column largest_mb" in said


def test_unknown_models_can_be_refused(write_config: WriteConfig) -> None:
    path = write_config(BY_FILE)
    said = refusal_of(path, "policy.skew.unknown=error")
    assert "--set policy.skew.unknown: policy.skew.unknown: no skew is known of" in said
    assert "model 'new' (job b);" in said
    assert "job c" not in said  # it says itself how skewed it is
    loaded = loaded_from(path)
    set_up(loaded, load_jobs(loaded))


SIZED = ("simulation.costs.checkpoint_mb=model", "simulation.costs.bandwidth_mb_s=200")


def test_a_size_and_a_bandwidth_make_a_time(write_config: WriteConfig) -> None:
    path = write_config(CONFIG)
    loaded = loaded_from(
        path, "simulation.costs.checkpoint_mb=500", "simulation.costs.bandwidth_mb_s=200"
    )
    costs = loaded.config.simulation.costs.costs(loaded.tensors_mb)
    assert (costs.checkpoint_us, costs.by_model) == (2_500_000, ())


def test_a_checkpoint_may_be_as_large_as_the_model(write_config: WriteConfig) -> None:
    loaded = loaded_from(write_config(BY_FILE), *SIZED, "simulation.costs.model_mb.new=100")
    costs = loaded.config.simulation.costs.costs(loaded.tensors_mb)
    assert costs.checkpoint_us == 0
    assert dict(costs.by_model) == {"vgg16": 2_500_000, "flat": 5_000_000, "new": 500_000}
    record = json.loads(record_of(loaded, instant=False, workload={}))
    assert record["simulation"]["costs"]["model_mb"] == {"vgg16": 500, "flat": 1000, "new": 100}


def test_a_model_of_no_known_size_is_refused(write_config: WriteConfig) -> None:
    said = refusal_of(write_config(BY_FILE), *SIZED)
    assert "simulation.costs.checkpoint_mb: no size is known of model 'new' (job b), job c" in said
