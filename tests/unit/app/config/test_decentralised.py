"""`[policy.decentralised]`: what is checked, recorded and rebuilt, and what a run says of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import LoadedConfig, load_config, policy_runtime
from shunter.core.planning import Decentralised
from shunter.core.ranking import RankedPolicy
from shunter.policies.gavel import GavelPolicy
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


SHARING = (
    CONFIG.replace('"fifo"', '"gavel"\nparams.gavel.space_sharing = true')
    .replace("gpus = 8", 'gpus = 8\ntype = "v100"')
    .replace("load = 0.9", 'load = 0.9\n[workload]\nthroughputs = "builtin:gavel"')
)


def test_space_sharing_goes_beside_it(write_config: WriteConfig) -> None:
    runtime = policy_runtime(loaded(write_config, SHARING + TABLE), instant=True)
    assert isinstance(runtime.policy, GavelPolicy)
    assert runtime.policy.extensions.scheme is not None


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


def test_a_run_says_what_became_of_proposals(write_config: WriteConfig) -> None:
    text = f'{CONFIG}{TABLE}[log]\nurl = "none:"\n'
    document = simulate(loaded(write_config, text)).document
    told = document["proposals"]
    assert told["approved"] >= 60
    assert told["proposed"] == told["approved"] + told["rejected"]
    assert told["conflict_rate"] == told["conflicts"] / told["proposed"]
    assert told["approval_s"]["mean"] is not None
    assert "proposals" not in simulate(loaded(write_config, text.replace(TABLE, ""))).document
