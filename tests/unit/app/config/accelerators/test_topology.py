"""`policy.placement = "topology"` with its table: what is checked, recorded and rebuilt."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import load_config, policy_runtime, record_of, recorded_runtime
from shunter.core import AnyPolicy
from shunter.core.planning import Extended, Mode, RoomMaker, Topology
from shunter.core.ranking import RankedPolicy
from shunter.errors import ConfigError
from shunter.policies import MakingRoom

CONFIG = """\
[[cluster.nodes]]
name = "n"
gpus = 4
switches = 2
[workload]
trace = "jobs.csv"
[policy]
name = "las"
placement = "PLACEMENT"
[policy.topology]
pack_above = 0.8
spread_below = 0.4
"""

WriteConfig = Callable[[str], Path]


def test_table_is_recorded_and_a_replay_places_by_it(write_config: WriteConfig) -> None:
    loaded = load_config(write_config(CONFIG.replace("PLACEMENT", "topology")))
    record = record_of(loaded, instant=False, workload=loaded.table_records())

    for runtime in (policy_runtime(loaded, instant=False), recorded_runtime(record)):
        assert isinstance(runtime.policy, RankedPolicy)
        assert runtime.policy.placement == Topology(Mode.adaptive, 0.8, 0.4)


def test_table_of_a_placement_that_is_not_used_is_not_recorded(write_config: WriteConfig) -> None:
    loaded = load_config(write_config(CONFIG.replace("PLACEMENT", "consolidated")))
    document = json.loads(record_of(loaded, instant=False, workload=loaded.table_records()))

    assert "topology" not in document["policy"]
    assert not {"device", "switch_gpus", "socket_gpus"} & document["cluster"]["nodes"][0].keys()
    assert "devices" not in document["cluster"]


@pytest.mark.parametrize(
    ("text", "wrong", "message"),
    [
        ("pack_above = 0.8", "pack_above = 0.3", "spread_below = 0.4 is above pack_above = 0.3"),
        ("pack_above = 0.8", "pack_above = 1.5", "expected 1 or less, not 1.5"),
        ("pack_above = 0.8", 'mode = "tight"', "expected 'adaptive', 'spread' or 'pack'"),
    ],
)
def test_table_that_cannot_be_names_key_and_what_was_expected(
    write_config: WriteConfig, text: str, wrong: str, message: str
) -> None:
    written = CONFIG.replace("PLACEMENT", "topology").replace(text, wrong)
    with pytest.raises(ConfigError, match=r"policy\.topology") as caught:
        load_config(write_config(written))
    assert message in str(caught.value)


MAKES_ROOM = "[policy.topology.make_room]\n"


@pytest.mark.parametrize("name", ["fifo", "las", "tiresias", "gavel", "two_level", "gittins"])
def test_room_for_gangs_is_recorded_and_rebuilt_under_every_order(
    write_config: WriteConfig, name: str
) -> None:
    text = CONFIG.replace("PLACEMENT", "topology").replace('"las"', f'"{name}"')
    plain = load_config(write_config(text))
    loaded = load_config(write_config(text + MAKES_ROOM + "cost = '5s'\nevery = '2m'\n"))

    record = record_of(loaded, instant=True, workload={})
    policy = policy_runtime(loaded, instant=True).policy

    assert _room_of(policy) == MakingRoom(5_000_000, 4, 120_000_000)
    assert recorded_runtime(record).policy == policy
    without = record_of(plain, instant=True, workload={})
    assert "make_room" not in without, "older logs record the same bytes"
    assert _room_of(recorded_runtime(without).policy) is None


def _room_of(policy: AnyPolicy) -> RoomMaker | None:
    assert isinstance(policy, Extended)
    return policy.extensions.room


@pytest.mark.parametrize(
    ("placement", "more", "said"),
    [
        ("consolidated", "", r"make_room: expected policy.placement = 'topology'"),
        ("topology", "cost = 0\n", r"make_room.cost: .*expected .*0"),
        ("topology", "cost = 'soon'\n", r"make_room.cost: .*expected a duration"),
        ("topology", "moves_most = 17\n", r"make_room.moves_most: .*expected 16 or less, not 17"),
        ("topology", "moves = 3\n", r"make_room.moves: .*"),
        ("topology", "[policy.slicing]\n", r"with policy.slicing jobs are put on GPUs that others"),
    ],
)
def test_room_that_cannot_be_made_is_refused(
    write_config: WriteConfig, placement: str, more: str, said: str
) -> None:
    text = CONFIG.replace("PLACEMENT", placement) + MAKES_ROOM + more
    with pytest.raises(ConfigError, match=said):
        policy_runtime(load_config(write_config(text)), instant=True)


def test_gandiva_makes_no_room_for_gangs(write_config: WriteConfig) -> None:
    text = CONFIG.replace("PLACEMENT", "topology").replace('"las"', '"gandiva"') + MAKES_ROOM
    with pytest.raises(ConfigError, match="policy 'gandiva' makes no room by moves; expected an"):
        policy_runtime(load_config(write_config(text)), instant=True)
