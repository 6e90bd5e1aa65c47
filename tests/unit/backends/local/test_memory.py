"""Which control group may be divided: a tree of our own making stands for the kernel's."""

from pathlib import Path

import pytest

from shunter.backends.live import MemoryControl, memory_control
from shunter.backends.node import MOVED


class Machine:
    """A mount of control groups, and a process in one of them."""

    def __init__(self, path: Path, own: str = "/unit") -> None:
        self.proc, self.mount = path / "proc", path / "cgroup"
        self.own = self.mount / own.strip("/")
        self.proc.mkdir()
        self.own.mkdir(parents=True)
        self.mounted("cgroup2")
        (self.proc / "cgroup").write_text(f"4:memory:/other\n0::{own}\n")
        (self.own / "cgroup.controllers").write_text("cpu memory pids\n")
        (self.own / "cgroup.subtree_control").write_text("")
        (self.own / "cgroup.procs").write_text("17\n")

    def mounted(self, kind: str) -> None:
        line = f"31 23 0:27 / {self.mount} rw,relatime shared:4 - {kind} cgroup rw\n"
        (self.proc / "mountinfo").write_text("24 1 8:1 / / rw - ext4 /dev/root rw\n" + line)

    def control(self, *, prepare: bool = False) -> MemoryControl:
        return memory_control(prepare=prepare, proc=self.proc)


def test_group_with_the_memory_controller_is_found_and_made_ready(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.control() == MemoryControl(group=str(machine.own))
    assert (machine.own / "cgroup.subtree_control").read_text() == ""
    machine.control(prepare=True)
    assert (machine.own / "cgroup.subtree_control").read_text() == "+memory"


def test_daemon_that_moved_down_divides_the_group_above(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.proc / "cgroup").write_text(f"0::/unit/{MOVED}\n")
    assert machine.control().group == str(machine.own)


def test_machine_without_version_2_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.mounted("cgroup")
    assert machine.control().why_not == "this machine has no control groups of version 2"


def test_group_without_the_controller_says_what_it_has(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.own / "cgroup.controllers").write_text("hugetlb\n")
    found = machine.control()
    assert found.group == ""
    assert f"not handed to {machine.own} (it has: hugetlb)" in found.why_not
    assert "Delegate=yes" in found.why_not


@pytest.mark.needs("another user than root")
def test_group_of_somebody_else_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.own.chmod(0o500)
    assert "belongs to somebody else" in machine.control().why_not


def test_group_that_cannot_be_read_is_a_reason_and_no_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (machine.own / "cgroup.controllers").unlink()
    assert "cannot be divided" in machine.control().why_not


def test_this_machine_has_a_group_or_a_reason() -> None:
    found = memory_control(prepare=False)
    assert bool(found.group) != bool(found.why_not)
