"""Which control group is divided for whom: a tree of our own making stands for the kernel's."""

import os
from pathlib import Path

import pytest

from shunter.backends.live import MemoryControl, memory_control
from shunter.backends.node import MOVED, divisible, is_of_session, members

MEND = "name one"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group with nobody but this process and the one that started it."""
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    (group / "cgroup.subtree_control").write_text("")
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    return group


def divided(group: Path, *, prepare: bool = False) -> tuple[str, str]:
    return divisible(prepare=prepare, mend=MEND, group=str(group), may_move=is_of_session)


def test_group_that_was_handed_over_is_divided(group: Path) -> None:
    assert divided(group) == (str(group), "")
    assert (group / "cgroup.subtree_control").read_text() == ""
    assert divided(group, prepare=True) == (str(group), "")
    assert (group / "cgroup.subtree_control").read_text() == "+memory"


def test_cpus_are_handed_down_where_they_are_wanted_and_there(group: Path) -> None:
    def divided_with_cpus() -> str:
        divisible(prepare=True, mend=MEND, group=str(group), with_cpus=True)
        return (group / "cgroup.subtree_control").read_text()

    assert divided_with_cpus() == "+memory +cpu"
    (group / "cgroup.subtree_control").write_text("memory\n")
    assert divided_with_cpus() == "+cpu"
    (group / "cgroup.controllers").write_text("memory\n")
    (group / "cgroup.subtree_control").write_text("")
    assert divided_with_cpus() == "+memory"


def test_group_in_which_somebody_else_is_stays_as_it_is(group: Path) -> None:
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n1\n")
    found, why = divided(group, prepare=True)
    assert found == ""
    assert why == f"{group} has other processes, such as 1; {MEND}"
    assert (group / "cgroup.subtree_control").read_text() == ""
    assert not (group / MOVED).exists()


def test_group_that_is_divided_already_may_have_whom_it_will(group: Path) -> None:
    (group / "cgroup.procs").write_text("1\n")
    (group / "cgroup.subtree_control").write_text("memory\n")
    assert divided(group, prepare=True) == (str(group), "")


def test_group_without_the_controller_says_what_to_do(group: Path) -> None:
    (group / "cgroup.controllers").write_text("pids\n")
    assert divided(group) == (
        "",
        f"the memory controller is not handed to {group} (it has: pids); {MEND}",
    )


def test_folder_that_is_no_group_is_a_reason_and_no_error(tmp_path: Path) -> None:
    found, why = divided(tmp_path / "nowhere")
    assert found == ""
    assert "cannot be divided" in why


@pytest.mark.parametrize(
    ("kind", "below", "found", "why_not"),
    [
        ("cgroup2", "", True, ""),
        ("cgroup2", f"/{MOVED}", True, ""),  # a daemon that has moved down divides the one above
        ("cgroup", "", False, "this machine has no control groups of version 2"),
    ],
)
def test_group_of_a_process_is_found_where_groups_are_mounted(
    group: Path, kind: str, below: str, *, found: bool, why_not: str
) -> None:
    proc = group.parent
    line = f"31 23 0:27 / {proc} rw,relatime shared:4 - {kind} cgroup rw\n"
    (proc / "mountinfo").write_text("24 1 8:1 / / rw - ext4 /dev/root rw\n" + line)
    (proc / "cgroup").write_text(f"4:memory:/other\n0::/group{below}\n")
    expected = MemoryControl(str(group) if found else "", why_not)
    assert memory_control(prepare=False, proc=proc) == expected
    (group / "cgroup.controllers").write_text("hugetlb\n")
    assert not found or "Delegate=yes" in memory_control(prepare=False, proc=proc).why_not


@pytest.mark.needs("another user than root")
def test_group_of_somebody_else_says_so(group: Path) -> None:
    group.chmod(0o500)
    assert "belongs to somebody else" in divided(group)[1]


def test_this_machine_has_a_group_or_a_reason() -> None:
    found = memory_control(prepare=False)
    assert bool(found.group) != bool(found.why_not)


def test_session_ends_below_the_first_process() -> None:
    assert is_of_session(os.getpid())
    assert not is_of_session(1)
    assert not is_of_session(0)


def test_process_of_another_namespace_is_no_member_to_be_signalled(group: Path) -> None:
    """It shows as 0, and a signal to 0 strikes whoever sends it."""
    (group / "cgroup.procs").write_text("0\n17\n")
    assert members(str(group)) == [17]
