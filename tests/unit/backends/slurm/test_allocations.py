"""Which nodes are asked of Slurm and given back, case by case.

A scene is a text of what is known, parted by semicolons:

    n1-a held 20h jobs=1       a pilot of n1 runs, with so much of its time left
    n1-b asked 12min           one waits since then
    n1-a draining 200s         as `held`, but it takes no more jobs
    n1-a idle 600s             nothing has needed it for so long
    n3 kept 60min              Slurm keeps it for maintenance from then; `reserved`: for others
    n1 refused; n1 out         what Slurm has said of a node
    waits 2 v100, 4            how many GPUs jobs wait for, of which type
    only pilots_max=1          another limit
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from shunter.backends.slurm import (
    AllocationLimits,
    AllocationView,
    Decisions,
    GpuRequest,
    Node,
    Phase,
    Pilot,
    Reservation,
    SlurmServer,
    SubmitRefusals,
    decide,
    duration,
)
from shunter.events import NodeName

NOW_S = 100_000.0
HOUR_S = 3600.0
LIMITS = AllocationLimits(
    pilots_max=4, limit_s=24 * HOUR_S, idle_s=600.0, drain_s=300.0, renew_s=HOUR_S
)


def server(name: str, gpu_type: str, gpus: int) -> SlurmServer:
    return SlurmServer(NodeName(name), tuple(map(str, range(gpus))), (), gpu_type, "", 0)


NODES = (
    server("n1", "v100", 4),
    server("n2", "v100", 4),
    server("n3", "p100", 4),
    server("n4", "k80", 8),
)


FAN = "Slurm has node n1 drained: a fan"
UNITS_S = {"s": 1.0, "min": 60.0, "h": HOUR_S}
OF_NODE: dict[str, Callable[[float], dict[str, Any]]] = {
    "kept": lambda in_s: {"reservation": reservation(in_s, is_maintenance=True)},
    "reserved": lambda in_s: {"reservation": reservation(in_s, is_maintenance=False)},
    "refused": lambda _: {"refusals": SubmitRefusals(3, NOW_S - 1, "Invalid account")},
    "out": lambda _: {"out": FAN},
}


def reservation(in_s: float, *, is_maintenance: bool) -> Reservation:
    return Reservation("r", (), NOW_S + in_s, NOW_S + in_s + HOUR_S, is_maintenance)


def pilot(name: str, kind: str, span_s: float, **fields: Any) -> Pilot:
    """Return a pilot that was asked for, or has so much of its time left."""
    node, day_s = NodeName(name.partition("-")[0]), 24 * HOUR_S
    if kind == "asked":
        found = Pilot(name, node, NOW_S - span_s, day_s, Phase.queued)
    else:
        phase = Phase.granted if kind == "held" else Phase.draining
        started_s = NOW_S + span_s - day_s
        found = Pilot(name, node, started_s - 60, day_s, phase, started_at_s=started_s)
    return dataclasses.replace(found, **fields)


def decided(scene: str) -> Decisions:
    """Read a scene; return what is decided."""
    pilots, waiting, limits = list[Pilot](), list[GpuRequest](), LIMITS
    spare, nodes = dict[str, float](), dict[str, dict[str, Any]]()
    for clause in filter(None, scene.split("; ")):
        name, *words = clause.split()
        pairs = (word.split("=") for word in words if "=" in word)
        fields: dict[str, Any] = {
            key: int(value) if value.isdigit() else value for key, value in pairs
        }
        span = next((re.fullmatch(r"(-?\d+)(s|min|h)", word) for word in words[1:2]), None)
        span_s = int(span[1]) * UNITS_S[span[2]] if span else 0.0
        if name == "waits":
            requests = (each.split() for each in clause.partition(" ")[2].split(", "))
            waiting += [GpuRequest(int(gpus), frozenset(types)) for gpus, *types in requests]
        elif name == "only":
            limits = dataclasses.replace(LIMITS, **fields)
        elif words[0] == "idle":
            spare[name] = NOW_S - span_s
        elif words[0] in OF_NODE:
            nodes[name] = OF_NODE[words[0]](span_s)
        else:
            pilots.append(pilot(name, words[0], span_s, **fields))
    known = tuple(Node(each, **nodes.get(str(each.name), {})) for each in NODES)
    view = AllocationView(NOW_S, known, tuple(pilots), tuple(waiting), spare_since_s=spare)
    return decide(view, limits)


TABLE = {
    "while nothing waits nothing is asked for": ("", ""),
    "a node of the type that waits is asked for": ("waits 2 p100", "ask n3"),
    "for any type the smallest that is large enough": ("waits 6", "ask n4"),
    "jobs share nodes": ("waits 2 v100, 2 v100, 2 v100, 2 v100", "ask n1 n2"),
    "a job larger than any node gets several": ("waits 8 v100", "ask n1 n2"),
    "a job larger than all nodes gets none": ("waits 9 v100", ""),
    "a node with free GPUs is enough": ("n1-a held 20h jobs=1 busy_gpus=2; waits 2 v100", ""),
    "one with too few is not": ("n1-a held 20h jobs=1 busy_gpus=2; waits 3 v100", "ask n2"),
    "a node that is asked for is enough": ("n1-b asked 12min; waits 4 v100", ""),
    "no more are asked for than are allowed": ("waits 4, 4, 4, 4; only pilots_max=1", "ask n1"),
    "nor at once": ("waits 4, 4, 4, 4; only submits_max=2", "ask n1 n2"),
    "a successor is not asked for too early": ("n1-a held 3601s jobs=1 busy_gpus=4", ""),
    "a successor is asked for in time": ("n1-a held 1h jobs=1 busy_gpus=4", "ask n1"),
    "one that waits is enough": ("n1-a held 30min jobs=1 busy_gpus=4; n1-b asked 12min", ""),
    "what nothing needs gets none": ("n1-a held 30min", ""),
    "a pilot is drained before its time limit": (
        "n1-a held 299s jobs=1 busy_gpus=4; n1-b asked 12min",
        "drain n1-a",
    ),
    "a short one not from its start": ("n1-a held 24h limit_s=120 jobs=1; n1-b asked 1s", ""),
    "GPUs of a pilot that is drained are not planned with": (
        "n1-a held 200s jobs=1 busy_gpus=2; waits 2 v100",
        "ask n1 n2, drain n1-a",
    ),
    "a drained pilot is released at once": ("n1-a draining 200s", "release n1-a"),
    "but none with jobs": ("n1-a draining 200s jobs=1; n1-b asked 1s", ""),
    "the older of two that hold one node is drained": (
        "n1-a held 30min jobs=1; n1-c held 24h jobs=1",
        "drain n1-a",
    ),
    "the second of two that wait for one node is released": (
        "n1-b asked 12min; n1-c asked 10s; waits 4",
        "release n1-c",
    ),
    "pilots of nodes that are not configured any more leave": (
        "n9-a held 20h jobs=1; n8-b asked 12min",
        "release n8-b, drain n9-a",
    ),
    "an idle pilot stays for a while": ("n1-a held 20h; n1-a idle 599s", ""),
    "and is released then": ("n1-a held 20h; n1-a idle 600s", "release n1-a"),
    "unless it is needed": ("n1-a held 20h; n1-a idle 600s; waits 1", ""),
    "the last that wait are released when fewer are allowed": (
        "n1-b asked 12min; n2-b asked 5s; waits 4, 4, 4, 4; only pilots_max=1",
        "release n2-b",
    ),
    "a refused node is left alone for a while": ("n1 refused; waits 4 v100", "ask n2"),
    "no node is asked for that is kept from us soon": ("n3 kept 500s; waits 2 p100", ""),
    "another node is, meanwhile": ("n1 kept -60s; waits 2 v100", "ask n2"),
    "a pilot that could not end in time is asked for anew": (
        "n3-b asked 12min; n3 kept 1h; waits 2 p100",
        "ask n3, release n3-b",
    ),
    "a pilot runs on long before maintenance": ("n3-a held 20h jobs=1; n3 kept 301s", ""),
    "and is drained before it": ("n3-a held 20h jobs=1; n3 kept 300s", "drain n3-a"),
    "but for no other reservation": ("n3-a held 20h jobs=1; n3 reserved 300s", ""),
}


@pytest.mark.parametrize(("scene", "decision"), TABLE.values(), ids=TABLE)
def test_nodes_are_asked_for_and_given_back_as_the_row_says(scene: str, decision: str) -> None:
    found = decided(scene)
    told: dict[str, Any] = {"ask": found.submits, "release": found.releases, "drain": found.drains}
    assert ", ".join(f"{do} {' '.join(whom)}" for do, whom in told.items() if whom) == decision


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        ("", "node n1 is not asked for: no job that waits needs it"),
        (
            "waits 4, 4; n2-b asked 1s; only pilots_max=1",
            "node n1 is not asked for: 1 nodes are held or asked for, of 1 that pilots_max allows",
        ),
        ("waits 4, 4; only submits_max=0", "node n1 is asked for soon: 0 are at once"),
        (
            "n1-b asked 12min reason=Resources",
            "waiting for Slurm to give node n1, asked 12 min ago (Resources)",
        ),
        (
            "n1-a held 30min jobs=1; n1-b asked 12min",
            "node n1 is held: 30 min of its time limit are left; its successor was asked for ",
        ),
        ("n1 refused", "Slurm refused node n1: Invalid account; it is"),
        ("n1 kept 500s", "Slurm keeps node n1 for maintenance from "),
        ("n1 reserved 500s", "Slurm keeps node n1 for reservation r from "),
        ("n1 out", FAN),
        (
            "n1 out; n1-b asked 12min",
            f"waiting for Slurm to give node n1, asked 12 min ago; {FAN}",
        ),
    ],
)
def test_reason_of_a_node_is_told(scene: str, told: str) -> None:
    assert decided(scene).reasons[NodeName("n1")].startswith(told)


def test_causes_and_instants_are_told_with_a_decision() -> None:
    drained = decided("n1-a held 299s jobs=1 busy_gpus=4").drains
    assert drained == {"n1-a": "its time limit of 1 d in Slurm ends in 4 min"}
    released = decided("n1-a held 20h; n1-a idle 600s").releases
    assert released == {"n1-a": "nothing has needed node n1 for 10 min"}
    assert decided("n3 kept 1h; waits 2 p100").submits == {"n3": 54 * 60.0}
    assert decided("n1-a held 20h").spare_since_s == {"n1-a": NOW_S}
    assert decided("n1-a held 20h; n1-a idle 599s; waits 1").spare_since_s == {}


@pytest.mark.parametrize("count", [1, 2, 5, 50, 5000])
def test_wait_after_refusals_grows_is_bounded_and_not_the_same_for_all(count: int) -> None:
    waits = {LIMITS.retry_at_s(f"n{each}", SubmitRefusals(count, 0, "")) for each in range(50)}
    most_s = min(10.0 * 2 ** min(count - 1, 20), 900.0)
    assert len(waits) > 40
    assert most_s / 2 <= min(waits) <= max(waits) <= most_s


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (720, "12 min"),
        (HOUR_S, "1 h"),
        (11_400, "3 h 10 min"),
        (180_000, "2 d 2 h"),
        (-3, "0 s"),
    ],
)
def test_duration_is_told_in_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words
