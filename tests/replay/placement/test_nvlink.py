"""A config with `nvlink`, as it is played: pairs that are joined across sockets."""

from typing import Any

import pytest

from shunter.config import make_config
from shunter.core.speeds import level_of
from shunter.events import AllocationChanged, JobId, JobSpec, Level, NodeAdded
from shunter.workloads import JobEnd, QualityReport, Trace, TraceJob
from tests.replay.placement.composed import played

PAIRS: dict[str, Any] = {"name": "n1", "gpus": 4, "nvlink": [[0, 2], [1, 3]]}
S = 1_000_000


def first_places(node: dict[str, Any], placement: str, **contract: Any) -> list[tuple[str, Level]]:
    """Return the GPUs of two jobs of two GPUs each, and how near together these are."""
    tree = {
        "schema": 1,
        "cluster": {"nodes": [node]},
        "workload": {"generate": {"kind": "philly-like", "jobs": 1}},
        "policy": {"name": "fifo", "placement": placement, "trigger": "event"},
        "log": {"url": "none:"},
    }
    jobs = [
        TraceJob(JobId(name), at_s * S, JobSpec(2, **contract), 100 * S, JobEnd.finished)
        for at_s, name in enumerate("ab")
    ]
    trace = Trace("pairs", "generated", jobs, "", QualityReport(2, 2, 2))
    _, events = played(make_config(tree, "pairs"), trace)
    nodes = {each.node: each.configuration for each in events if isinstance(each, NodeAdded)}
    return [
        (f"{change.allocation.shares[0].gpu_mask:04b}", level_of(change.allocation, nodes))
        for change in events
        if isinstance(change, AllocationChanged) and change.allocation.shares
    ]


@pytest.mark.parametrize("placement", ["topology", "consolidated", "first_fit", "spread"])
@pytest.mark.parametrize(
    "map_of_buses", [{}, {"sockets": 2}, {"sockets": 2, "switches": 4}], ids=["", "NUMA", "both"]
)
def test_two_pairs_get_the_joined_gpus(placement: str, map_of_buses: dict[str, Any]) -> None:
    """On a real server, pairs are bridged across NUMA nodes 0 and 1."""
    found = first_places({**PAIRS, **map_of_buses}, placement)

    assert found == [("0101", Level.nvlink), ("1010", Level.nvlink)]


@pytest.mark.parametrize("level", [Level.nvlink, Level.switch, Level.socket])
def test_contract_accepts_joined_gpus_across_sockets(level: Level) -> None:
    node = {**PAIRS, "sockets": 2, "switches": 4}

    assert [place for place, _ in first_places(node, "topology", max_level=level)] == [
        "0101",
        "1010",
    ]
