"""`policy.topology.learn`: where curves of tolerance are learnt, and what is refused elsewhere."""

import json
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, policy_runtime, record_of, recorded_runtime
from shunter.errors import ConfigError
from shunter.run import simulate
from tests.unit.app.config.texts import SERVER, loaded

CONFIG = (
    f'{SERVER}[workload]\ntrace = "jobs.csv"\n[policy]\nname = "fifo"\nplacement = "topology"\n'
    '[simulation.samples]\nevery = "1m"\n'
)
NO_SAMPLES = "simulation.samples.every=0s"
JOBS = "job_id,submit_s,duration_s,gpus,model,min_speed\nj0,0,600,4,resnet50,0.8\n"


@pytest.mark.parametrize(
    ("settings", "learns"),
    [
        ("", True),
        ("policy.topology.learn=true", True),
        ("policy.topology.learn=false", False),
        (NO_SAMPLES, False),
        ("policy.placement=spread", False),
    ],
    ids=["left out", "on", "off", "no samples", "another placement"],
)
def test_curves_are_learnt_under_topology_where_jobs_are_measured(
    tmp_path: Path, settings: str, learns: bool
) -> None:
    config = loaded(tmp_path, CONFIG, settings)
    record = record_of(config, instant=False, workload={})
    assert policy_runtime(config, instant=False).rules.learns_tolerance is learns
    assert recorded_runtime(record).rules.learns_tolerance is learns
    recorded = json.loads(record)["policy"].get("topology", {})
    assert recorded.get("learn") is (True if learns else None)


def test_floor_without_a_curve_is_refused_where_none_is_learnt(tmp_path: Path) -> None:
    def with_jobs(settings: str) -> LoadedConfig:
        found = loaded(tmp_path, CONFIG, settings)
        (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
        return found

    assert simulate(with_jobs(""), overwrite=True).ledger.results()
    with pytest.raises(
        ConfigError, match=r"jobs\.csv, line 2: job j0: min_speed: expected a curve"
    ):
        simulate(with_jobs(NO_SAMPLES), overwrite=True)
