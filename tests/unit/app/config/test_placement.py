"""Placements and what goes beside them: skews, learnt curves, proposals."""

import json
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, policy_runtime, record_of, recorded_runtime
from shunter.core.planning import Extended, Skew
from shunter.core.ranking import RankedPolicy
from shunter.errors import ConfigError
from shunter.run import load_jobs, set_up, simulate
from tests.unit.app.config.texts import (
    BY_FILE,
    FILES,
    GENERATED,
    RATED,
    SERVER,
    SIZED,
    SKEWED,
    loaded,
)

BANDWIDTH = "simulation.costs.bandwidth_mb_s=200"
BY_MODEL = f"simulation.costs.checkpoint_mb=model; {BANDWIDTH}"


def test_the_built_in_table_is_the_default(tmp_path: Path) -> None:
    policy = policy_runtime(loaded(tmp_path, SKEWED), instant=True).policy
    assert isinstance(policy, RankedPolicy)
    assert isinstance(policy.placement, Skew)
    assert policy.placement.threshold == 0.375
    assert len(policy.placement.skews) == 9
    assert policy.placement.skews["vgg16"] == 0.744


def test_a_file_beside_the_config_is_the_table_and_read_once(tmp_path: Path) -> None:
    config = loaded(tmp_path, BY_FILE, "policy.skew.models.flat=0.9")
    assert config.skews == {"vgg16": 0.8, "flat": 0.9}
    assert config.tensors_mb == {"vgg16": 500, "flat": 1000}
    (tmp_path / "skews.csv").unlink()
    assert config.replaced({"seed": 5}, "test").skews == config.skews


def test_a_wrong_table_is_said_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = FILES["skews.csv"].replace("1000,10,", "1000,x,")
    monkeypatch.setitem(FILES, "skews.csv", wrong)
    with pytest.raises(
        ConfigError,
        match=r"run\.toml:.*policy\.skew\.table.*skews\.csv, line 3, column largest_mb",
    ):
        loaded(tmp_path, BY_FILE)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            "policy.skew.unknown=error",
            "--set policy.skew.unknown: policy.skew.unknown: no skew is known of",
        ),
        ("policy.skew.unknown=error", "model 'new' (job b);"),
        (
            BY_MODEL,
            "simulation.costs.checkpoint_mb: no size is known of model 'new' (job b), job c",
        ),
    ],
)
def test_unknown_models_are_refused_where_that_is_said_and_where_a_size_is_needed(
    tmp_path: Path, settings: str, words: str
) -> None:
    """Job c says itself how skewed it is, but not how large."""
    config = loaded(tmp_path, BY_FILE, settings)
    with pytest.raises(ConfigError) as caught:
        set_up(config, load_jobs(config))
    assert words in str(caught.value)
    assert ("job c" in str(caught.value)) is (settings == BY_MODEL)
    plain = loaded(tmp_path, BY_FILE)
    set_up(plain, load_jobs(plain))


def test_a_size_and_a_bandwidth_make_a_time(tmp_path: Path) -> None:
    config = loaded(tmp_path, SKEWED, f"simulation.costs.checkpoint_mb=500; {BANDWIDTH}")
    costs = config.config.simulation.costs.costs(config.tensors_mb)
    assert (costs.checkpoint_us, costs.by_model) == (2_500_000, ())


def test_a_checkpoint_may_be_as_large_as_the_model(tmp_path: Path) -> None:
    config = loaded(tmp_path, BY_FILE, f"{BY_MODEL}; simulation.costs.model_mb.new=100")
    costs = config.config.simulation.costs.costs(config.tensors_mb)
    assert costs.checkpoint_us == 0
    assert dict(costs.by_model) == {"vgg16": 2_500_000, "flat": 5_000_000, "new": 500_000}
    record = json.loads(record_of(config, instant=False, workload={}))
    assert record["simulation"]["costs"]["model_mb"] == {"vgg16": 500, "flat": 1000, "new": 100}


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


PROPOSALS = "policy.decentralised={staleness='5s', reserve_after=3}"


def test_space_sharing_goes_beside_it(tmp_path: Path) -> None:
    settings = f"{PROPOSALS}; policy.name=gavel; policy.params.gavel.space_sharing=true"
    policy = policy_runtime(loaded(tmp_path, RATED, settings), instant=True).policy
    assert isinstance(policy, Extended)
    assert policy.extensions.scheme is not None


@pytest.mark.parametrize("mechanism", ["proportional", "greedy", "tune"])
def test_sizes_and_moves_go_beside_it(tmp_path: Path, mechanism: str) -> None:
    room = "policy.placement=topology; policy.topology.make_room.cost=5s"
    settings = f"{PROPOSALS}; policy.sizing={mechanism}; {room}"
    policy = policy_runtime(loaded(tmp_path, SIZED, settings), instant=True).policy
    assert isinstance(policy, RankedPolicy)
    assert policy.extensions.scheme is not None
    assert policy.sizing is not None
    assert policy.extensions.room is not None


def test_a_run_says_what_became_of_proposals(tmp_path: Path) -> None:
    jobs = "workload.generate={kind='philly-like', jobs=60, load=0.9, gpus_max=4}; log.url=none:"
    told = simulate(loaded(tmp_path, GENERATED, f"{jobs}; {PROPOSALS}")).document["proposals"]
    assert told["approved"] >= 60
    assert told["proposed"] == told["approved"] + told["rejected"]
    assert told["conflict_rate"] == told["conflicts"] / told["proposed"]
    assert told["approval_s"]["mean"] is not None
    assert "proposals" not in simulate(loaded(tmp_path, GENERATED, jobs)).document
