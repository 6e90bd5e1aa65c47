"""What scontrol shows of nodes, partitions, reservations, switches and settings."""

import pytest

from shunter.backends.slurm import (
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
    read_switches,
)
from shunter.errors import SlurmUnknownError
from tests.unit.backends.slurm.recorded import recorded


def test_node_of_22_05_is_read() -> None:
    n1, *_, n4 = read_nodes(recorded("22.05", "nodes.txt"))
    assert (n1.name, n1.state, n1.version) == ("n1", "MIXED", "22.05.8")
    assert (n1.cpus, n1.cpus_used, n1.memory_mb, n1.memory_used_mb) == (16, 2, 64000, 200)
    assert n1.gpus == {"v100": 4}
    assert n1.gpus_used_indices == {"v100": (0, 1)}
    assert n1.features == ("v100", "nvlink")
    assert n1.is_in_service
    assert n4.state == "MIXED"
    assert set(n4.flags) == {"DRAIN"}
    assert not n4.is_in_service


def test_reason_of_a_node_cannot_say_what_its_state_is() -> None:
    n4 = read_nodes(recorded("22.05", "nodes.txt"))[-1]
    assert n4.reason == "a fan is broken State=IDLE"
    assert "DRAIN" in n4.flags


def test_node_of_a_later_version_is_read_with_keys_that_are_new() -> None:
    gpu01, gpu02, gpu03 = read_nodes(recorded("24.11", "nodes.txt"))
    assert (gpu01.cpus, gpu01.memory_mb, gpu01.sockets) == (190, 2_050_000, 2)
    assert gpu01.gpus_used_indices == {"h100": (0, 1, 5)}
    assert gpu02.gpus == {"1g.10gb": 7, "a100": 1}
    assert (gpu02.version, gpu02.features) == ("", ())
    assert not gpu02.is_in_service
    assert gpu03.gpus == {"gpu": 2}
    assert gpu03.gpus_used_indices == {"gpu": (1,)}
    assert (gpu03.state, gpu03.is_in_service) == ("DOWN", False)


def test_partition_is_read() -> None:
    main, _ = read_partitions(recorded("22.05", "partitions.txt"))
    assert (main.name, main.state) == ("main", "UP")
    assert main.nodes == ("n1", "n2", "n3", "n4")
    assert main.time_limit_s is None


def test_reservation_for_maintenance_is_read() -> None:
    (maint,) = read_reservations(recorded("22.05", "reservations.txt"))
    assert (maint.name, maint.nodes, maint.is_maintenance) == ("maint", ("n1", "n2"), True)
    assert (maint.start_s, maint.end_s) == (1795526563, 1795533763)


def test_no_reservation_is_said_in_words() -> None:
    assert read_reservations("No reservations in the system\n") == ()


def test_blocks_are_read_and_what_other_plugins_tell_is_left_out() -> None:
    found = read_switches(recorded("24.11", "topology.txt") + "RingName=r1 Nodes=gpu[01-03]\n")
    assert {one.name: one.nodes for one in found} == {"b1": ("gpu01", "gpu02"), "b2": ("gpu03",)}


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_node error: Unable to contact slurm controller",
        "NodeName=n1 State=IDLE",
        "NodeName=n1 State=IDLE CPUTot=x CPUAlloc=0 RealMemory=1",
    ],
)
def test_other_answer_is_unknown(text: str) -> None:
    with pytest.raises(SlurmUnknownError):
        read_nodes(text)


def test_settings_without_the_name_of_the_cluster_are_none() -> None:
    assert read_settings("ClusterName             = lab\n")["ClusterName"] == "lab"
    with pytest.raises(SlurmUnknownError):
        read_settings("")


PLAIN = "NodeName=n1 CPUAlloc=0 CPUTot=16 RealMemory=64000 State=IDLE+DRAIN ExtSensorsTemp=n/s "
"""The line of a node by Slurm 22.05, without keys that are not read."""
SAID = "[root@2026-11-28T05:22:55]"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (
            f"Reason=prolog instance=i-0123 job=42: down {SAID}",
            "prolog instance=i-0123 job=42: down",
        ),
        (f"Reason=gpu: Xid=79 {SAID} Comment=a Reason=b State=IDLE", "gpu: Xid=79"),
        (f"Reason=gpu: Xid=79 Comment=c: lost {SAID} Comment=d", "gpu: Xid=79 Comment=c: lost"),
        (f"Reason=a Extra=b {SAID} Extra=c [x@y] ReservationName=r", "a Extra=b"),
        ("Comment=ticket Reason=later State=IDLE", ""),
        ("Comment=ticket Reason=later [root@2026-11-28T05:22:55]", ""),
        ("Extra=owner=lab Reason=none ReservationName=r", ""),
        (f"Reason=a=1 {SAID}        second b=2 State=DOWN Comment=c", "a=1; second b=2 State=DOWN"),
        ("Reason=Not responding Comment=c", "Not responding"),
        (f"Reason=a\u2028NodeName=n9 State=IDLE {SAID}", "a\u2028NodeName=n9 State=IDLE"),
        (f"Reason={SAID}", ""),
    ],
)
def test_reason_of_a_node_is_the_whole_text_and_that_of_no_comment(texts: str, reason: str) -> None:
    (node,) = read_nodes(f"{PLAIN}{texts}\n")
    assert (node.name, node.state, node.reason) == ("n1", "IDLE", reason)
