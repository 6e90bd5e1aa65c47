"""`[policy.decentralised]`: what is checked, recorded and rebuilt, and what a run says of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, policy_runtime, record_of, recorded_runtime
from shunter.core.planning import Decentralised
from shunter.core.ranking import RankedPolicy
from shunter.errors import ConfigError
from shunter.policies.gavel import GavelPolicy, TwoLevelPolicy
from shunter.run import simulate

CONFIG = """\
[[cluster.nodes]]
name = "n[1-4]"
gpus = 8
[workload.generate]
kind = "philly-like"
jobs = 60
load = 0.9
[policy]
name = "fifo"
trigger = "event"
"""
TABLE = '[policy.decentralised]\nstaleness = "5s"\nreserve_after = 3\n'

WriteConfig = Callable[[str], Path]


def loaded(write_config: WriteConfig, text: str = CONFIG + TABLE) -> LoadedConfig:
    return load_config(write_config(text))


def test_keys_become_the_scheme(write_config: WriteConfig) -> None:
    scheme = Decentralised(
        built_in=True,
        staleness_us=5_000_000,
        candidates=4,
        retry_us=1_000_000,
        retry_most_us=60_000_000,
        reserve_after=3,
        reserve_for_us=60_000_000,
    )
    runtime = policy_runtime(loaded(write_config), instant=True)
    assert isinstance(runtime.policy, RankedPolicy)
    assert runtime.policy.extensions.scheme == runtime.rules.decentralised == scheme


def test_record_is_rebuilt_to_the_same_policy_and_rules(write_config: WriteConfig) -> None:
    config = loaded(write_config)
    runtime = policy_runtime(config, instant=True)
    again = recorded_runtime(record_of(config, instant=True, workload={}))
    assert isinstance(runtime.policy, RankedPolicy)
    assert isinstance(again.policy, RankedPolicy)
    assert again.policy.extensions.scheme == runtime.policy.extensions.scheme
    assert again.rules == runtime.rules


def test_a_run_without_it_records_what_it_did_before(write_config: WriteConfig) -> None:
    record = record_of(loaded(write_config, CONFIG), instant=True, workload={})
    assert "decentralised" not in json.loads(record)["policy"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("candidates = 0", "policy.decentralised.candidates: expected 1 or more"),
        ("reserve_after = 0", "policy.decentralised.reserve_after: expected 1 or more"),
        ('staleness = "-1s"', "policy.decentralised.staleness"),
        ('retry = "0s"', "policy.decentralised.retry"),
        ('schedulers = "mine"', "built_in"),
        ("stale = 3", "stale: unknown key"),
    ],
)
def test_a_wrong_key_is_named(write_config: WriteConfig, lines: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        loaded(write_config, f"{CONFIG}[policy.decentralised]\n{lines}\n")


@pytest.mark.parametrize(
    "name", ["gavel", "max_min_fairness", "allox", "hierarchical", "two_level", "tiresias", "las"]
)
def test_every_order_that_says_who_starts_goes_with_it(
    write_config: WriteConfig, name: str
) -> None:
    config = loaded(write_config, CONFIG.replace('"fifo"', f'"{name}"') + TABLE)
    runtime = policy_runtime(config, instant=True)
    again = recorded_runtime(record_of(config, instant=True, workload={}))
    for found in (runtime, again):
        policy = found.policy
        assert isinstance(policy, RankedPolicy | GavelPolicy | TwoLevelPolicy)
        scheme = policy.extensions.scheme
        assert scheme == found.rules.decentralised is not None


def test_gandiva_is_refused(write_config: WriteConfig) -> None:
    text = CONFIG.replace('"fifo"', '"gandiva"') + "[policy.slicing]\n"
    with pytest.raises(ConfigError, match="policy 'gandiva' does not say who may start wherever"):
        policy_runtime(loaded(write_config, text + TABLE), instant=True)


SHARING = (
    CONFIG.replace('"fifo"', '"gavel"\nparams.gavel.space_sharing = true')
    .replace("gpus = 8", 'gpus = 8\ntype = "v100"')
    .replace("load = 0.9", 'load = 0.9\n[workload]\nthroughputs = "builtin:gavel"')
)


def test_space_sharing_goes_beside_it(write_config: WriteConfig) -> None:
    runtime = policy_runtime(loaded(write_config, SHARING + TABLE), instant=True)
    assert isinstance(runtime.policy, GavelPolicy)
    assert runtime.policy.extensions.scheme is not None


def test_simulation_in_which_only_callers_propose_is_refused(write_config: WriteConfig) -> None:
    loaded_config = loaded(write_config, f'{CONFIG}{TABLE}schedulers = "callers"\n')
    with pytest.raises(ConfigError, match="nobody calls in a simulation, so no job would start"):
        policy_runtime(loaded_config, instant=True)


SIZED = (
    CONFIG.replace('trigger = "event"', 'sizing = "proportional"')
    .replace("gpus = 8", "gpus = 8\ncpus = 24\nmemory_gb = 500")
    .replace("load = 0.9", 'load = 0.9\n[workload]\nsensitivity = "builtin:synergy"')
)


@pytest.mark.parametrize("mechanism", ["proportional", "greedy", "tune"])
def test_sizes_and_moves_go_beside_it(write_config: WriteConfig, mechanism: str) -> None:
    room = '[policy.topology.make_room]\ncost = "5s"\n'
    text = SIZED.replace('"proportional"', f'"{mechanism}"\nplacement = "topology"') + TABLE + room
    runtime = policy_runtime(loaded(write_config, text), instant=True)
    assert isinstance(runtime.policy, RankedPolicy)
    assert runtime.policy.extensions.scheme is not None
    assert runtime.policy.sizing is not None
    assert runtime.policy.extensions.room is not None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"staleness": 'schedulers = "callers"\nstaleness'}, "expected 'built_in'"),
        ({'sizing = "proportional"': "slicing = {}"}, "with policy.slicing jobs are put on GPUs"),
    ],
)
def test_what_one_plan_must_say_is_refused_beside_it(
    write_config: WriteConfig, changes: dict[str, str], says: str
) -> None:
    text = SIZED + TABLE
    for old, new in changes.items():
        text = text.replace(old, new)
    with pytest.raises(ConfigError, match=says):
        policy_runtime(loaded(write_config, text), instant=True)


def test_a_run_says_what_became_of_proposals(write_config: WriteConfig) -> None:
    text = f'{CONFIG}{TABLE}[log]\nurl = "none:"\n'
    document = simulate(loaded(write_config, text)).document
    told = document["proposals"]
    assert told["approved"] >= 60
    assert told["proposed"] == told["approved"] + told["rejected"]
    assert told["conflict_rate"] == told["conflicts"] / told["proposed"]
    assert told["approval_s"]["mean"] is not None
    assert "proposals" not in simulate(loaded(write_config, text.replace(TABLE, ""))).document
