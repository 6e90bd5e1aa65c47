"""How GPUs are wired: a sysfs of our own making, and texts of the form of `nvidia-smi topo -m`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node import GpuReading
from shunter.backends.node.host import cpus_in, matrix_in, numa_node, wiring

LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n  NV#  = A bonded set\n"
HEAD = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
# Two pairs joined by NVLink, a network device near to the first one.
TOPO = (
    f"\x1b[4m{HEAD.strip(chr(10))}\x1b[0m\n"
    "GPU0\t X \tNV4\tSYS\tSYS\tPIX\t0-3,8-11\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tSYS\tPXB\t0-3,8-11\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNV4\tSYS\t4-7,12-15\t1\t\tN/A\n"
    "GPU3\tSYS\tSYS\tNV4\t X \tSYS\t4-7,12-15\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tSYS\t X \t\t\t\t\n" + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


class Machine:
    """PCI devices below host bridges, as sysfs shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bus/pci/devices").mkdir(parents=True)

    def gpu(self, path: str, node: int, cpus: str = "") -> str:
        """Hang a GPU on bridges; return how NVML calls it."""
        place = self.root / "devices" / path
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
        (place / "local_cpulist").write_text(f"{cpus}\n")
        bus = place.name
        (self.root / "bus/pci/devices" / bus).symlink_to(place)
        return f"0000{bus}".upper()


def readings(*buses: str | None) -> list[GpuReading]:
    """Return a reading of each GPU; None is one that tells no bus."""
    return [
        GpuReading(index=at, uuid=f"GPU-{at}", bus=bus, faults={}) for at, bus in enumerate(buses)
    ]


def wiring_of(gpus: Sequence[GpuReading], sysfs: str) -> dict[str, Any]:
    """Return how GPUs are wired, as an agent tells it."""
    told: dict[str, Any] = json.loads(json.dumps(wiring.wiring_of(gpus, sysfs)))
    return told


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", "/nowhere")  # not even lstopo is there
    says(monkeypatch, "", "nvidia-smi is not installed")
    return Machine(tmp_path)


def says(monkeypatch: pytest.MonkeyPatch, text: str, fault: str = "") -> None:
    monkeypatch.setattr(wiring, "said_by", lambda *_: (text, fault))


def test_gpus_below_one_switch_are_near_and_others_as_far_as_they_are(machine: Machine) -> None:
    switch = "pci0000:40/0000:40:01.1/0000:41:00.0"
    buses = [
        machine.gpu(f"{switch}/0000:42:04.0/0000:43:00.0", 0, "0-3"),
        machine.gpu(f"{switch}/0000:42:08.0/0000:44:00.0", 0, "0-3"),
        machine.gpu(f"{switch}/0000:42:0c.0/0000:45:00.0/0000:46:00.0/0000:47:00.0", 0, "0-3"),
        machine.gpu("pci0000:40/0000:40:03.1/0000:48:00.0", 0, "0-3"),
        machine.gpu("pci0000:60/0000:60:01.1/0000:61:00.0", 0, "0-3"),
        machine.gpu("pci0000:c0/0000:c0:01.1/0000:c1:00.0", 1, "4,6-7"),
    ]
    found = wiring_of(readings(*buses), str(machine.root))
    assert found["pci"] == [
        ["X", "PIX", "PXB", "PHB", "NODE", "SYS"],
        ["PIX", "X", "PXB", "PHB", "NODE", "SYS"],
        ["PXB", "PXB", "X", "PHB", "NODE", "SYS"],
        ["PHB", "PHB", "PHB", "X", "NODE", "SYS"],
        ["NODE", "NODE", "NODE", "NODE", "X", "SYS"],
        ["SYS", "SYS", "SYS", "SYS", "SYS", "X"],
    ]
    assert [gpu["socket"] for gpu in found["gpus"]] == [0, 0, 0, 0, 0, 1]
    assert [gpu["cpus"] for gpu in found["gpus"]] == [[0, 1, 2, 3]] * 5 + [[4, 6, 7]]
    assert (found["by"], found["links"], found["cause"]) == ("sysfs", [], "")


def test_device_that_nobody_finds_leaves_the_wiring_open(machine: Machine) -> None:
    known = machine.gpu("pci0000:40/0000:40:03.1/0000:48:00.0", -1)
    for other in ("00000000:99:00.0", None):
        found = wiring_of(readings(known, other), str(machine.root))
        assert (found["pci"], found["by"]) == ([], "")
        assert found["cause"] == (
            "sysfs shows no such devices, and nvidia-smi topo: nvidia-smi is not installed"
        )
        assert [gpu["socket"] for gpu in found["gpus"]] == [None, None]
        assert [gpu["cpus"] for gpu in found["gpus"]] == [[], []]
    assert numa_node(known, str(machine.root)) is None


def test_gpu_that_is_lost_is_passed_over(machine: Machine) -> None:
    known = machine.gpu("pci0000:40/0000:40:03.1/0000:48:00.0", 0)
    lost = GpuReading(index=0, faults={"device": 15})
    found = wiring_of([lost, readings(known)[0].replaced(index=1)], str(machine.root))
    assert [gpu["index"] for gpu in found["gpus"]] == [1]


def test_table_tells_what_sysfs_does_not(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, TOPO)
    found = wiring_of(readings(None, None, None, None), str(machine.root))
    assert found["by"] == "nvidia-smi"
    assert found["pci"][0] == ["X", "", "SYS", "SYS"]
    assert found["links"][3] == ["", "", "NV4", ""]
    assert [gpu["socket"] for gpu in found["gpus"]] == [0, 0, 1, 1]
    assert found["gpus"][2]["cpus"] == [4, 5, 6, 7, 12, 13, 14, 15]


@pytest.mark.parametrize("fault", ["", "exit code 15"])
def test_table_with_a_gpu_that_is_lost_tells_of_the_others(
    fault: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, TOPO, fault)
    told = readings(None, None, None, None)
    told[1] = GpuReading(index=1, faults={"device": 15})
    found = wiring_of(told, str(machine.root))
    assert (found["by"], found["cause"]) == ("nvidia-smi", "")
    assert found["pci"] == [["X", "SYS", "SYS"], ["SYS", "X", ""], ["SYS", "", "X"]]
    assert found["links"] == [["", "", ""], ["", "", "NV4"], ["", "NV4", ""]]
    assert [(gpu["index"], gpu["socket"]) for gpu in found["gpus"]] == [(0, 0), (2, 1), (3, 1)]


def test_sysfs_tells_the_switches_that_nvlink_hides(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, TOPO)
    buses = [
        machine.gpu(
            f"pci0000:{two}0/0000:{two}0:01.0/0000:{two}1:{one}8.0/0000:{two}{one}:00.0", -1
        )
        for two in (4, 6)
        for one in (2, 3)
    ]
    found = wiring_of(readings(*buses), str(machine.root))
    assert found["by"] == "sysfs and nvidia-smi"
    assert found["pci"][0] == ["X", "PIX", "SYS", "SYS"]
    assert found["links"][0] == ["", "NV4", "", ""]
    assert [gpu["socket"] for gpu in found["gpus"]] == [0, 0, 1, 1]  # the firmware tells none


OLD = "\tGPU0\tGPU1\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-1\nGPU1\tSOC\t X \tPHB\t2-3\n"
SPACED = (
    "        GPU0    GPU1    CPU Affinity\nGPU0     X      PHB     0-3\nGPU1    PHB      X      0-3"
)
OTHER = "\tGPU0\tGPU1\tCPU-Affinität\nGPU0\t X \tPIX\t0-3\nGPU1\tPIX\t X \t0-3\n"


@pytest.mark.parametrize(
    ("said", "words", "cpus", "numa"),
    [
        (OLD, ["X", "SYS"], [[0, 1], [2, 3]], [None, None]),
        (SPACED, ["X", "PHB"], [[], []], [None, None]),
        (OTHER, ["X", "PIX"], [[], []], [None, None]),
        (
            HEAD + "GPU0\t X \tNV1\t\t\t\tN/A\nGPU1\tNV1\t X \t\t1\t\tN/A\n",
            ["X", "NV1"],
            [[], []],
            [None, 1],
        ),
    ],
    ids=["old words, no NUMA", "spaces for tabs", "another language", "no CPUs"],
)
def test_table_of_other_versions_is_read_as_far_as_it_goes(
    said: str, words: list[str], cpus: list[list[int]], numa: list[int | None]
) -> None:
    found = matrix_in(said, 2)
    assert (found.rows[0], found.cpus, found.numa, found.cause) == (words, cpus, numa, "")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("", "it tells of 0 GPUs, and there are 4"),
        (TOPO[: TOPO.index("GPU3\tSYS")], "it tells of 3 GPUs, and there are 4"),
        (TOPO[: TOPO.index("GPU3\tSYS") + 12], "it tells of 3 GPUs, and there are 4"),
        (TOPO.replace("GPU3\tSYS\tSYS\tNV4", "GPU3\tSYS\tSYS"), "its row of GPU3 cannot be read"),
        (TOPO.replace("GPU1\tNV4", "GPU5\tNV4"), "its row 2 is of GPU5"),
        (TOPO.replace("NV4\t X", "N/A\t X"), "its row of GPU1 cannot be read"),
        (TOPO.replace("GPU1\tNV4", "GPU1\tSYS"), "not the same in rows and columns"),
        ("Failed to initialize NVML: Unknown Error\n", "it tells of 0 GPUs, and there are 4"),
        (TOPO + "GPU4" + "\tSYS" * 4 + "\t X \t0\t0\n", "its row of GPU4 cannot be read"),
    ],
    ids=["empty", "cut", "cut in a row", "a cell", "a row", "no word", "sides", "a fault", "more"],
)
def test_table_that_makes_no_sense_says_why(said: str, cause: str) -> None:
    found = matrix_in(said, 4)
    assert not found.rows
    assert cause in found.cause


@given(st.text(alphabet="GPU0123 X\tNVSY\nPIB-,\x1b[m", max_size=200), st.integers(2, 3))
def test_no_text_is_too_strange_to_be_read(said: str, count: int) -> None:
    found = matrix_in(said, count)
    assert bool(found.rows) != bool(found.cause)


@given(st.integers(0, len(TOPO)))
def test_cut_anywhere_the_table_is_whole_or_not_there(cut: int) -> None:
    found, whole = matrix_in(TOPO[:cut], 4), matrix_in(TOPO, 4)
    assert not found.rows or found.rows == whole.rows
    assert all(cpus in ([], whole.cpus[at]) for at, cpus in enumerate(found.cpus))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-2,5", [0, 1, 2, 5]), ("7", [7]), ("", []), ("N/A", []), ("3-", []), ("0-999999999", [])],
)
def test_lists_of_cpus_are_read_or_are_none(text: str, cpus: list[int]) -> None:
    assert cpus_in(text) == cpus
