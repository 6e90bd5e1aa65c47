"""How jobs take turns on a live cluster, as a config says it."""

from pathlib import Path
from typing import Any

import pytest

from shunter.backends.live import Limits, TurnSettings
from shunter.backends.node import SWITCH_LOOK_US
from shunter.config import PROBE_LIVE_LEAST_US, load_config, make_config, policy_runtime
from shunter.daemon import as_wanted, slicing_of
from shunter.errors import ConfigError
from shunter.policies.gandiva import SAMPLES_IN_PROBE
from shunter.train import channel

ROOT = Path(__file__).parents[5]


def loaded(slicing: dict[str, Any] | None, backend: dict[str, Any] | None = None) -> Any:
    policy = {"name": "gandiva", "trigger": "event"}
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n", "gpus": 2}]},
            "policy": {**policy, "slicing": slicing} if slicing is not None else {},
            "backend": backend or {"kind": "local", "local": {"root": "r"}},
            "log": {"url": "log.db"},
        }
    )


def test_supervisors_are_told_what_the_config_says() -> None:
    assert slicing_of(loaded(None)) is None
    assert slicing_of(loaded({})) == TurnSettings(quantum_us=60_000_000)
    told = slicing_of(loaded({"quantum": "2s", "wait_most": "9s", "boundary_most": "0s"}))
    assert told == TurnSettings(quantum_us=2_000_000, wait_most_us=9_000_000, boundary_most_us=0)


def test_example_is_one_that_a_daemon_takes() -> None:
    example = load_config(ROOT / "examples" / "live" / "turns.toml")
    told = slicing_of(example)
    assert told is not None
    assert (told.quantum_us, told.boundary_most_us) == (60_000_000, 10_000_000)


@pytest.mark.parametrize(
    ("slicing", "key"),
    [
        ({"boundary_most": -1}, "policy.slicing.boundary_most"),
        ({"boundary_most": "soon"}, "policy.slicing.boundary_most"),
        ({"boundary": "1s"}, "policy.slicing.boundary"),
        ({"quantum": 0}, "policy.slicing.quantum"),
        ({"quantum": "1us"}, "policy.slicing.quantum: expected 50 ms at least, not 0.001 ms"),
        ({"quantum": 0.049}, "policy.slicing.quantum: expected 50 ms at least, not 49 ms"),
    ],
    ids=str,
)
def test_bad_turns_are_told_with_their_key(slicing: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        loaded(slicing)


def test_a_quantum_is_as_short_as_who_rotates_can_keep() -> None:
    assert slicing_of(loaded({"quantum": 0.05})) == TurnSettings(quantum_us=SWITCH_LOOK_US)


def trying(
    slicing: dict[str, Any] | None = None, world: dict[str, Any] | None = None, **params: Any
) -> Any:
    """Return the config of a cluster, live unless said otherwise, whose policy tries something."""
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n", "gpus": 2}]},
            "policy": {
                "name": "gandiva",
                "trigger": "event",
                "slicing": slicing or {},
                "params": {"gandiva": params},
            },
            "log": {"url": "log.db"},
            **(world or {"backend": {"kind": "local", "local": {"root": "r"}}}),
        }
    )


@pytest.mark.parametrize(
    ("probe_s", "sample_s", "told_every_s"), [(60, 10.0, 10.0), (30, 5.0, 5.0), (1, 0.5, 0.5)]
)
def test_jobs_are_measured_as_often_as_trials_need_it(
    probe_s: int, sample_s: float, told_every_s: float
) -> None:
    found = as_wanted(Limits(), trying(migration={"probe": probe_s}))
    assert (found.sample_s, found.told_every_s) == (sample_s, told_every_s)
    assert as_wanted(Limits(), loaded(None)).told_every_s == 60.0


def test_trials_without_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"backend\.local\.sample above 0"):
        as_wanted(Limits(sample_s=0.0), trying(migration={}))


@pytest.mark.parametrize("tried", ["packing", "migration"])
def test_a_probe_shorter_than_a_quantum_is_refused(tried: str) -> None:
    config = trying(**{tried: {"probe": 59}})
    with pytest.raises(ConfigError, match=rf"gandiva\.{tried}\.probe: .* at least, 60s"):
        policy_runtime(config, instant=False)
    policy_runtime(trying(**{tried: {}}), instant=False)


def test_a_live_probe_lasts_as_many_samples_as_a_trial_needs() -> None:
    assert SAMPLES_IN_PROBE * channel.PROGRESS_EVERY_S * 1e6 == PROBE_LIVE_LEAST_US


@pytest.mark.parametrize("tried", ["packing", "migration"])
def test_a_live_probe_too_short_for_samples_is_refused(tried: str) -> None:
    config = trying(slicing={"quantum": 1}, **{tried: {"probe": 5.9}})
    said = rf"policy\.params\.gandiva\.{tried}\.probe: expected 6s at least, not 5\.9s: live jobs"
    with pytest.raises(ConfigError, match=said):
        policy_runtime(config, instant=False)
    policy_runtime(trying(slicing={"quantum": 1}, **{tried: {"probe": 6}}), instant=False)


def test_a_simulated_probe_is_as_short_as_its_samples_allow() -> None:
    simulated = {
        "backend": {"kind": "simulated"},
        "simulation": {"samples": {"every": 0.9}},
        "workload": {"generate": {"jobs": 4, "load": 1.0, "gpus_max": 1}},
    }
    config = trying({"quantum": 1}, simulated, packing={"probe": 5.9})
    policy_runtime(config, instant=True)


@pytest.mark.parametrize(
    ("migration", "said"),
    [
        ({"goals": []}, "one at least"),
        ({"goals": ["apart", "apart"]}, "each once"),
        ({"goals": ["cheaper_type"], "cheaper": ["k80"]}, "two types of GPU"),
        ({"goals": ["faster"]}, "goals"),
        ({"cost": -1}, "cost"),
    ],
    ids=str,
)
def test_bad_migrations_are_told(migration: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        trying(migration=migration)
