"""What a log records of its config, and what is rebuilt from that."""

import json
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from shunter.config import (
    LoadedConfig,
    policy_runtime,
    record_of,
    recorded_runtime,
    recorded_sensitivity,
)
from shunter.core.planning import Decentralised, Extended, Mode, Skew, Topology
from shunter.errors import ConfigError
from shunter.policies import MakingRoom
from shunter.workloads import builtin_sensitivity
from tests.factories import needs_highs
from tests.unit.app.config.texts import BY_FILE, GENERATED, SIZED, SKEWED, TOPOLOGY, called, loaded
from tests.unit.app.conftest import Generated


def _record(loaded: LoadedConfig) -> str:
    return record_of(loaded, instant=True, workload={"jobs": 60})


def test_the_record_does_not_say_where_the_log_goes(generated: Generated) -> None:
    assert _record(generated(log__url="memory:")) == _record(generated(log__url="/x/y.db"))


def test_the_record_is_canonical(generated: Generated) -> None:
    record = _record(generated())

    canonical = json.dumps(json.loads(record), sort_keys=True, separators=(",", ":"))
    assert record == canonical


def test_equal_durations_are_recorded_alike(generated: Generated) -> None:
    assert _record(generated(policy__round="60s")) == _record(generated(policy__round=60))
    assert _record(generated(policy__round="1m")) == _record(generated(policy__round=60.0))


def test_only_the_chosen_policys_parameters_are_recorded(generated: Generated) -> None:
    loaded = generated(policy__params__las__queues_gpu_s=["5m"])

    assert json.loads(_record(loaded))["policy"]["params"] == {"fifo": {}}


@pytest.mark.parametrize("record", ["", "{}", "[]", '{"policy": {"name": "fifo"}}'])
def test_a_record_of_something_else_is_refused(record: str) -> None:
    with pytest.raises(ConfigError, match="the config recorded in the log cannot be read"):
        recorded_runtime(record)


PROPOSALS = 'policy.decentralised={staleness="5s", reserve_after=3}'
ROOM = 'policy.topology.make_room={cost="5s", every="2m"}'
SAMPLES = "simulation.samples.every=1m"
DEMANDS = ["drf", "tetris"]
ORDERS = ["gavel", "max_min_fairness", "allox", "hierarchical", "two_level", "tiresias", "las"]
GUARDS = (
    "policy.guards={min_runtime='10m', max_preemptions_per_job_hour=2, starvation_after='12h'}; "
    "policy.round=90s; simulation.lease.round_ends=last_gang; log.reasons=all; seed=11"
)
REBUILT = [
    (GENERATED, f"policy.name=las; policy.placement=spread; {GUARDS}"),
    (GENERATED, 'policy={name="las", params={las={queues_gpu_s=["5m", "1h"]}}}'),
    *((GENERATED, f"policy.name={name}; {PROPOSALS}") for name in ["fifo", *ORDERS]),
    (TOPOLOGY, "policy.topology.mode=spread"),
    *((TOPOLOGY, f"policy.name={name}; {ROOM}") for name in ["fifo", "gittins", *ORDERS]),
    (TOPOLOGY, SAMPLES),
    (BY_FILE, "policy.skew.unknown=consolidate"),
    (SIZED, "policy.sizing=proportional"),
    (SIZED, "policy.sizing=greedy"),
    (SIZED, f"{SAMPLES}; policy.correct_beyond=0.2"),
    pytest.param(SIZED, "policy.sizing=opt", marks=needs_highs),
    *((SIZED, f"policy.name={name}") for name in DEMANDS),
    *((SIZED, f'policy={{name="{name}", aging={{every="1h"}}}}') for name in DEMANDS),
    *(
        (SIZED, f'policy={{name="two_level", params={{two_level={{inside="{name}"}}}}}}')
        for name in DEMANDS
    ),
]


def _is_same(one: Any, other: Any) -> bool:
    """Say whether two policies are made of the same; placements know no equality."""
    if one == other or type(one) is not type(other):
        return bool(one == other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, Enum | str | int | float):
        return False
    return _is_same(one.__getstate__(), other.__getstate__())


def _whole_record(loaded: LoadedConfig) -> str:
    return record_of(loaded, instant=True, workload=loaded.table_records())


@pytest.mark.parametrize(("config", "settings"), REBUILT, ids=called)
def test_policy_and_rules_are_rebuilt_from_the_record_alone(
    tmp_path: Path, config: str, settings: str
) -> None:
    read = loaded(tmp_path, config, settings)
    record = _whole_record(read)
    for file in sorted(tmp_path.iterdir()):
        file.unlink()

    made, again = policy_runtime(read, instant=True), recorded_runtime(record)

    assert again.rules == made.rules
    assert _is_same(again.policy, made.policy)
    if config == SIZED:
        assert recorded_sensitivity(record) == builtin_sensitivity().table


SCHEME = Decentralised(
    built_in=True,
    staleness_us=5_000_000,
    candidates=4,
    retry_us=1_000_000,
    retry_most_us=60_000_000,
    reserve_after=3,
    reserve_for_us=60_000_000,
)


@pytest.mark.parametrize("name", ["fifo", *ORDERS])
def test_keys_become_what_every_order_goes_by(tmp_path: Path, name: str) -> None:
    settings = f"policy.name={name}; {PROPOSALS}; {ROOM}"
    runtime = policy_runtime(loaded(tmp_path, TOPOLOGY, settings), instant=True)

    assert isinstance(runtime.policy, Extended)
    assert runtime.policy.extensions.scheme == runtime.rules.decentralised == SCHEME
    assert runtime.policy.extensions.room == MakingRoom(5_000_000, 4, 120_000_000)


@pytest.mark.parametrize(
    ("config", "settings", "placement"),
    [
        (TOPOLOGY, "", Topology(Mode.adaptive, 0.8, 0.4)),
        (
            BY_FILE,
            "policy.skew.unknown=consolidate",
            Skew({"vgg16": 0.8, "flat": 0.01}, 0.375, distrusts=True),
        ),
    ],
    ids=called,
)
def test_keys_become_a_placement(
    tmp_path: Path, config: str, settings: str, placement: object
) -> None:
    policy: Any = policy_runtime(loaded(tmp_path, config, settings), instant=True).policy
    assert policy.placement == placement


@pytest.mark.parametrize(
    ("config", "settings", "key", "recorded"),
    [
        (SIZED, "policy={}", "policy.sizing", None),
        (GENERATED, "", "workload", {}),
        (GENERATED, "", "policy.decentralised", None),
        (SKEWED, "policy.placement=spread", "policy.skew", None),
        (TOPOLOGY, "", "policy.topology.make_room", None),
        (TOPOLOGY, "policy.placement=consolidated", "policy.topology", None),
        (TOPOLOGY, "policy.placement=consolidated", "cluster.devices", None),
        (
            GENERATED,
            "",
            "simulation.costs",
            dict.fromkeys(("start", "suspend", "resume", "migrate"), "0s"),
        ),
        (
            BY_FILE,
            "policy.skew.unknown=consolidate",
            "policy.skew",
            {
                "threshold": 0.375,
                "models": {"vgg16": 0.8, "flat": 0.01},
                "unknown": "consolidate",
            },
        ),
    ],
    ids=called,
)
def test_what_is_not_used_is_not_recorded(
    tmp_path: Path, config: str, settings: str, key: str, recorded: object
) -> None:
    """So that older logs, and those of runs without it, have the bytes that they had."""
    document = json.loads(_whole_record(loaded(tmp_path, config, settings)))
    assert reduce(lambda part, name: part.get(name), key.split("."), document) == recorded


def test_servers_record_no_map_that_they_have_not(tmp_path: Path) -> None:
    document = json.loads(_whole_record(loaded(tmp_path, TOPOLOGY, "")))
    node = document["cluster"]["nodes"][0]
    assert not {"device", "switch_gpus", "socket_gpus"} & node.keys()
