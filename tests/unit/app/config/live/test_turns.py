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


def test_a_live_probe_lasts_as_many_samples_as_a_trial_needs() -> None:
    assert SAMPLES_IN_PROBE * channel.PROGRESS_EVERY_S * 1e6 == PROBE_LIVE_LEAST_US


def test_a_simulated_probe_is_as_short_as_its_samples_allow() -> None:
    simulated = {
        "backend": {"kind": "simulated"},
        "simulation": {"samples": {"every": 0.9}},
        "workload": {"generate": {"jobs": 4, "load": 1.0, "gpus_max": 1}},
    }
    config = trying({"quantum": 1}, simulated, packing={"probe": 5.9})
    policy_runtime(config, instant=True)


@pytest.mark.parametrize(("quantum_s", "probe_s"), [(60, 60), (1, 6)])
@pytest.mark.parametrize("tried", ["packing", "migration"])
def test_a_live_probe_may_be_as_short_as_a_quantum_and_its_samples_allow(
    tried: str, quantum_s: int, probe_s: int
) -> None:
    config = trying({"quantum": quantum_s}, **{tried: {"probe": probe_s}})
    policy_runtime(config, instant=False)
