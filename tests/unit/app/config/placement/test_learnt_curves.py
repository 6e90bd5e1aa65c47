"""`policy.topology.learn`: where curves of tolerance are learnt, and what is refused elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import load_config, policy_runtime, record_of, recorded_runtime
from shunter.errors import ConfigError
from shunter.run import simulate

CONFIG = """\
[[cluster.nodes]]
name = "n[1-2]"
gpus = 4
[workload]
trace = "jobs.csv"
[policy]
name = "fifo"
placement = "topology"
[simulation.samples]
every = "1m"
"""
JOBS = "job_id,submit_s,duration_s,gpus,model,min_speed\nj0,0,600,4,resnet50,0.8\n"

WriteConfig = Callable[[str], Path]


@pytest.mark.parametrize(
    ("text", "learns"),
    [
        (CONFIG, True),
        (CONFIG + "[policy.topology]\nlearn = true\n", True),
        (CONFIG + "[policy.topology]\nlearn = false\n", False),
        (CONFIG.replace('"1m"', '"0s"'), False),
        (CONFIG.replace('"topology"', '"spread"'), False),
    ],
    ids=["left out", "on", "off", "no samples", "another placement"],
)
def test_curves_are_learnt_under_topology_where_jobs_are_measured(
    write_config: WriteConfig, text: str, learns: bool
) -> None:
    config = load_config(write_config(text))
    record = record_of(config, instant=False, workload={})
    assert policy_runtime(config, instant=False).rules.learns_tolerance is learns
    assert recorded_runtime(record).rules.learns_tolerance is learns
    recorded = json.loads(record)["policy"].get("topology", {})
    assert recorded.get("learn") is (True if learns else None)


def test_floor_without_a_curve_is_refused_where_none_is_learnt(
    write_config: WriteConfig, tmp_path: Path
) -> None:
    learns = load_config(write_config(CONFIG))
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    assert simulate(learns, overwrite=True).ledger.results()
    without = load_config(write_config(CONFIG.replace('"1m"', '"0s"')))
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"jobs\.csv, line 2: job j0: min_speed: expected a curve"
    ):
        simulate(without, overwrite=True)
