"""Which nodes are asked of Slurm and given back, case by case."""

import dataclasses
from collections.abc import Mapping
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
N1 = NodeName("n1")
V100 = frozenset({"v100"})


def held(node: str = "n1", left_s: float = 20 * HOUR_S, **fields: Any) -> Pilot:
    started_s = NOW_S + left_s - 24 * HOUR_S
    found = Pilot(
        *(f"{node}-a", NodeName(node), started_s - 60, 24 * HOUR_S),
        Phase.granted,
        started_at_s=started_s,
    )
    return dataclasses.replace(found, **fields)


def asked(node: str = "n1", ago_s: float = 720.0, **fields: Any) -> Pilot:
    found = Pilot(f"{node}-b", NodeName(node), NOW_S - ago_s, 24 * HOUR_S, Phase.queued)
    return dataclasses.replace(found, **fields)


def decided(
    *pilots: Pilot,
    limits: AllocationLimits = LIMITS,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    **fields: Any,
) -> Decisions:
    """Return what is decided; `about` is what is known of nodes."""
    nodes = tuple(Node(each, **(about or {}).get(each.name, {})) for each in NODES)
    return decide(AllocationView(NOW_S, nodes, pilots, **fields), limits)


def kept(
    node: str = "n3", in_s: float = HOUR_S, *, is_maintenance: bool = True
) -> dict[str, dict[str, Reservation]]:
    start_s = NOW_S + in_s
    return {
        node: {"reservation": Reservation("r", (node,), start_s, start_s + HOUR_S, is_maintenance)}
    }


def nodes_of(decisions: Decisions) -> list[str]:
    return list(decisions.submits)


def test_nothing_is_asked_for_while_nothing_waits() -> None:
    decisions = decided()
    assert decisions.submits == {}
    assert (
        decisions.reasons[NodeName("n1")] == "node n1 is not asked for: no job that waits needs it"
    )


def test_node_of_the_type_that_waits_is_asked_for() -> None:
    assert nodes_of(decided(waiting=(GpuRequest(2, frozenset({"p100"})),))) == ["n3"]


def test_job_that_may_run_anywhere_gets_the_smallest_node_that_is_large_enough() -> None:
    assert nodes_of(decided(waiting=(GpuRequest(6),))) == ["n4"]


def test_jobs_share_the_nodes_that_are_asked_for() -> None:
    assert nodes_of(decided(waiting=(GpuRequest(2, V100),) * 4)) == ["n1", "n2"]


def test_node_with_free_gpus_is_enough() -> None:
    pilot = held(jobs=1, busy_gpus=2)
    assert decided(pilot, waiting=(GpuRequest(2, V100),)).submits == {}
    assert nodes_of(decided(pilot, waiting=(GpuRequest(3, V100),))) == ["n2"]


def test_node_that_is_asked_for_is_not_asked_for_again() -> None:
    decisions = decided(asked(reason="Resources"), waiting=(GpuRequest(4, V100),))
    assert (decisions.submits, decisions.releases) == ({}, {})
    assert decisions.reasons[NodeName("n1")] == (
        "waiting for Slurm to give node n1, asked 12 min ago (Resources)"
    )


def test_job_larger_than_any_node_gets_several() -> None:
    assert nodes_of(decided(waiting=(GpuRequest(8, V100),))) == ["n1", "n2"]


def test_job_larger_than_all_nodes_gets_none() -> None:
    assert decided(waiting=(GpuRequest(9, V100),)).submits == {}


def test_no_more_nodes_are_asked_for_than_are_allowed() -> None:
    limits = dataclasses.replace(LIMITS, pilots_max=1)
    decisions = decided(limits=limits, waiting=(GpuRequest(4),) * 4)
    assert nodes_of(decisions) == ["n1"]
    assert decided(asked(), limits=limits, waiting=(GpuRequest(4),) * 4).reasons[
        NodeName("n2")
    ] == ("node n2 is not asked for: 1 nodes are held or asked for, of 1 that pilots_max allows")


def test_no_more_are_submitted_at_once_than_are_allowed() -> None:
    limits = dataclasses.replace(LIMITS, submits_max=2)
    decisions = decided(limits=limits, waiting=(GpuRequest(4),) * 4)
    assert nodes_of(decisions) == ["n1", "n2"]
    assert decisions.reasons[NodeName("n3")] == "node n3 is asked for soon: 2 are at once"


def test_successor_is_asked_for_before_the_time_limit() -> None:
    early = held(left_s=HOUR_S + 1, jobs=1, busy_gpus=4)
    assert decided(early).submits == {}
    assert nodes_of(decided(held(left_s=HOUR_S, jobs=1, busy_gpus=4))) == ["n1"]


def test_successor_that_waits_is_enough() -> None:
    pilots = held(left_s=HOUR_S / 2, jobs=1, busy_gpus=4), asked()
    decisions = decided(*pilots)
    assert (decisions.submits, decisions.releases, decisions.drains) == ({}, {}, {})
    assert decisions.reasons[NodeName("n1")] == (
        "node n1 is held: 30 min of its time limit are left; its successor was asked for 12 min ago"
    )


def test_pilot_that_nothing_needs_gets_no_successor() -> None:
    assert decided(held(left_s=HOUR_S / 2)).submits == {}


def test_pilot_is_drained_before_its_time_limit() -> None:
    decisions = decided(held(left_s=299, jobs=1, busy_gpus=4))
    assert decisions.drains == {"n1-a": "its time limit of 1 d in Slurm ends in 4 min"}


def test_short_pilot_is_not_drained_from_its_start() -> None:
    pilot = held(limit_s=120.0, started_at_s=NOW_S, jobs=1)
    assert decided(pilot).drains == {}


def test_gpus_of_a_pilot_that_is_drained_are_not_planned_with() -> None:
    pilot = held(left_s=200, jobs=1, busy_gpus=2)
    assert nodes_of(decided(pilot, waiting=(GpuRequest(2, V100),))) == ["n1", "n2"]


def test_drained_pilot_is_released_at_once_and_one_with_jobs_never() -> None:
    pilot = held(left_s=200, phase=Phase.draining)
    assert list(decided(pilot).releases) == ["n1-a"]
    assert decided(dataclasses.replace(pilot, jobs=1)).releases == {}


def test_older_of_two_that_hold_one_node_is_drained() -> None:
    old, new = held(left_s=HOUR_S / 2, jobs=1), held(left_s=24 * HOUR_S, name="n1-c")
    assert list(decided(old, new).drains) == ["n1-a"]


def test_second_of_two_that_wait_for_one_node_is_released() -> None:
    decisions = decided(asked(), asked(ago_s=10, name="n1-c"), waiting=(GpuRequest(4),))
    assert list(decisions.releases) == ["n1-c"]


def test_pilot_of_a_node_that_is_not_configured_any_more_leaves() -> None:
    decisions = decided(held("n9", jobs=1), asked("n8"))
    assert list(decisions.drains) == ["n9-a"]
    assert list(decisions.releases) == ["n8-b"]


def test_idle_pilot_is_released_after_a_while() -> None:
    first = decided(held())
    assert first.releases == {}
    assert first.spare_since_s == {"n1-a": NOW_S}
    later = decided(held(), spare_since_s={"n1-a": NOW_S - 600})
    assert later.releases == {"n1-a": "nothing has needed node n1 for 10 min"}


def test_pilot_that_is_needed_once_more_counts_from_the_start_again() -> None:
    spare = {"n1-a": NOW_S - 599}
    assert decided(held(), waiting=(GpuRequest(1),), spare_since_s=spare).spare_since_s == {}


def test_last_pilots_that_wait_are_released_when_fewer_are_allowed() -> None:
    limits = dataclasses.replace(LIMITS, pilots_max=1)
    pilots = asked("n1"), asked("n2", ago_s=5)
    decisions = decided(*pilots, limits=limits, waiting=(GpuRequest(4),) * 4)
    assert list(decisions.releases) == ["n2-b"]


def test_refused_node_is_left_alone_for_a_while_and_another_is_asked_for() -> None:
    refused = {"n1": {"refusals": SubmitRefusals(3, NOW_S - 1, "Invalid account")}}
    decisions = decided(waiting=(GpuRequest(4, V100),), about=refused)
    assert nodes_of(decisions) == ["n2"]
    assert decisions.reasons[NodeName("n1")].startswith(
        "Slurm refused node n1: Invalid account; it is"
    )


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


P100 = frozenset({"p100"})


def test_pilot_is_asked_for_as_long_as_there_is_before_maintenance() -> None:
    decisions = decided(waiting=(GpuRequest(2, P100),), about=kept(in_s=HOUR_S))
    assert decisions.submits == {"n3": 54 * 60.0}


def test_node_that_is_kept_from_us_soon_is_not_asked_for_and_the_reason_is_said() -> None:
    soon = kept(in_s=500.0)
    decisions = decided(waiting=(GpuRequest(2, P100),), about=soon)
    assert decisions.submits == {}
    assert decisions.reasons[NodeName("n3")].startswith("Slurm keeps node n3 for maintenance from ")
    others = kept(in_s=500.0, is_maintenance=False)
    reasons = decided(about=others).reasons
    assert reasons[NodeName("n3")].startswith("Slurm keeps node n3 for reservation r from ")


def test_another_node_is_asked_for_while_one_is_kept_from_us() -> None:
    decisions = decided(waiting=(GpuRequest(2, V100),), about=kept("n1", -60.0))
    assert nodes_of(decisions) == ["n2"]


def test_pilot_that_waits_and_could_not_end_in_time_is_asked_for_anew() -> None:
    pilot = asked("n3")
    decisions = decided(pilot, waiting=(GpuRequest(2, P100),), about=kept())
    assert list(decisions.releases) == [pilot.name]
    assert list(decisions.submits.values()) == [54 * 60.0]


def test_pilot_is_drained_before_maintenance_that_was_put_over_it() -> None:
    pilot = held("n3", jobs=1, busy_gpus=1)
    assert decided(pilot, about=kept(in_s=301.0)).drains == {}
    assert list(decided(pilot, about=kept(in_s=300.0)).drains) == [pilot.name]
    others = kept(in_s=300.0, is_maintenance=False)
    assert decided(pilot, about=others).drains == {}


def test_reason_names_what_slurm_has_out_of_service() -> None:
    out = {"n1": {"out": "Slurm has node n1 drained: a fan"}}
    assert decided(about=out).reasons[N1] == "Slurm has node n1 drained: a fan"
    assert decided(asked(), about=out).reasons[NodeName("n1")] == (
        "waiting for Slurm to give node n1, asked 12 min ago; Slurm has node n1 drained: a fan"
    )
