"""Switches and sockets by sysfs: a tree of our own making stands for the kernel's."""

from pathlib import Path

import pytest

from shunter.backends.node.remote import wiring
from shunter.backends.node.remote.wiring import links, numa_node


class Machine:
    """PCI devices below host bridges, as sysfs shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bus/pci/devices").mkdir(parents=True)

    def gpu(self, path: str, node: int) -> str:
        """Hang a GPU on bridges; return how NVML calls it."""
        place = self.root / "devices" / path
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
        bus = place.name
        (self.root / "bus/pci/devices" / bus).symlink_to(place)
        return f"0000{bus}".upper()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(wiring, "said_by", lambda *_: ("", "nvidia-smi is not installed"))
    return Machine(tmp_path)


def test_gpus_below_one_switch_are_near_and_others_as_far_as_they_are(machine: Machine) -> None:
    switch = "pci0000:40/0000:40:01.1/0000:41:00.0"
    buses: list[str | None] = [
        machine.gpu(f"{switch}/0000:42:04.0/0000:43:00.0", 0),
        machine.gpu(f"{switch}/0000:42:08.0/0000:44:00.0", 0),
        machine.gpu(f"{switch}/0000:42:0c.0/0000:45:00.0/0000:46:00.0/0000:47:00.0", 0),
        machine.gpu("pci0000:40/0000:40:03.1/0000:48:00.0", 0),
        machine.gpu("pci0000:60/0000:60:01.1/0000:61:00.0", 0),
        machine.gpu("pci0000:c0/0000:c0:01.1/0000:c1:00.0", 1),
    ]
    assert links(buses, str(machine.root)) == [
        ["X", "PIX", "PXB", "PHB", "NODE", "SYS"],
        ["PIX", "X", "PXB", "PHB", "NODE", "SYS"],
        ["PXB", "PXB", "X", "PHB", "NODE", "SYS"],
        ["PHB", "PHB", "PHB", "X", "NODE", "SYS"],
        ["NODE", "NODE", "NODE", "NODE", "X", "SYS"],
        ["SYS", "SYS", "SYS", "SYS", "SYS", "X"],
    ]
    assert [numa_node(bus, str(machine.root)) for bus in buses] == [0, 0, 0, 0, 0, 1]


def test_device_that_nobody_finds_leaves_the_wiring_open(machine: Machine) -> None:
    known = machine.gpu("pci0000:40/0000:40:03.1/0000:48:00.0", -1)
    assert links([known, "00000000:99:00.0"], str(machine.root)) == []
    assert links([known, None], str(machine.root)) == []
    assert numa_node(known, str(machine.root)) is None
    assert numa_node(None, str(machine.root)) is None
