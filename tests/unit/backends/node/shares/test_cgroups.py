"""The files by which groups hold an attempt, of both versions: folders stand for the kernel's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.node import (
    LIMIT,
    QUOTA,
    change_group,
    close_group,
    divisible_v1,
    folders_of,
    has_quota,
    held_to,
    joined,
    kills,
    members,
    open_group,
)

SWAP = "memory.memsw.limit_in_bytes"
UNLIMITED = str((1 << 63) - 4096)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group of version 2 whose parent hands both controllers down."""
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    return tmp_path / "own"


@pytest.fixture
def groups(tmp_path: Path) -> tuple[Path, Path]:
    """A group of version 1 for CPU time, and one for memory."""
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    for folder in (cpu, memory):
        folder.mkdir()
    (cpu / QUOTA).write_text("-1\n")
    (cpu / "cpu.cfs_period_us").write_text("50000\n")
    (memory / LIMIT).write_text(UNLIMITED)
    (memory / SWAP).write_text(UNLIMITED)
    return cpu, memory


def test_group_of_version_2_holds_both(group: Path) -> None:
    open_group(str(group), 800, 100)
    assert (group / "cpu.max").read_text() == "80000 100000"
    assert (group / "memory.max").read_text() == str(100_000_000)
    assert (group / "memory.swap.max").read_text() == "0"
    assert has_quota(str(group))
    assert held_to(str(group)) == (800, 100)
    change_group(str(group), 2500, 0)
    assert (group / "memory.max").read_text() == "max"
    assert held_to(str(group)) == (2500, 0)


def test_group_whose_parent_hands_no_cpus_down_has_no_quota(group: Path) -> None:
    (group.parent / "cgroup.subtree_control").write_text("memory\n")
    open_group(str(group), 800, 100)
    assert not (group / "cpu.max").exists()
    assert not has_quota(str(group))
    assert held_to(str(group)) == (0, 100)


def test_memory_that_cannot_be_given_back_is_not_taken(group: Path) -> None:
    """The kernel would kill the job for it."""
    open_group(str(group), 800, 100)
    (group / "memory.stat").write_text(f"anon {60_000_000}\nfile {30_000_000}\n")
    change_group(str(group), 800, 70)
    with pytest.raises(OSError, match="it uses 60 MB that it cannot give back"):
        change_group(str(group), 200, 50)
    assert held_to(str(group)) == (800, 70)


def test_groups_of_version_1_hold_one_each(groups: tuple[Path, Path]) -> None:
    cpu, memory = groups
    group = joined([str(cpu), str(memory)])
    open_group(group, 800, 100)
    assert ((cpu / QUOTA).read_text(), (cpu / "cpu.cfs_period_us").read_text()) == (
        "80000",
        "100000",
    )
    assert (memory / LIMIT).read_text() == (memory / SWAP).read_text() == str(100_000_000)
    assert not (cpu / "memory.max").exists()
    assert not (memory / "cpu.max").exists()
    assert held_to(group) == (800, 100)
    change_group(group, 0, 0)
    assert ((cpu / QUOTA).read_text(), (memory / LIMIT).read_text()) == ("-1", "-1")


def test_pages_that_the_kernel_rounds_down_to_take_nothing_from_a_share(
    groups: tuple[Path, Path],
) -> None:
    _, memory = groups
    for memory_mb in (1, 100, 12_345):
        open_group(str(memory), 0, memory_mb)
        bytes_held = memory_mb * 1_000_000
        (memory / LIMIT).write_text(str(bytes_held - bytes_held % 65536))
        assert held_to(str(memory)) == (0, memory_mb)


def test_least_quota_is_what_the_kernel_takes(group: Path) -> None:
    open_group(str(group), 1, 0)
    assert (group / "cpu.max").read_text() == "1000 100000"


def test_processes_and_kills_of_both_groups_count(groups: tuple[Path, Path]) -> None:
    cpu, memory = groups
    (cpu / "cgroup.procs").write_text("17\n0\n19\n")
    (memory / "cgroup.procs").write_text("17\n")
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    group = joined([str(cpu), str(memory)])
    assert members(group) == [17, 19]
    assert kills(group) == 2


def test_folder_may_have_any_name_that_the_kernel_takes(group: Path) -> None:
    named = group.with_name("unit:a b.service")
    open_group(joined([str(named)]), 800, 100)
    assert held_to(str(named)) == (800, 100)


@pytest.fixture
def ours() -> Iterator[str]:
    """Groups of version 1 of this machine's kernel."""
    parents = [divisible_v1("cpu", QUOTA), divisible_v1("memory", LIMIT)]
    if not all(parents):
        pytest.skip("needs groups of version 1 for cpu and memory that we may make others below")
    group = joined([f"{parent}/shunter-test-{os.getpid()}" for parent in parents])
    yield group
    close_group(group)


def test_kernel_of_this_machine_takes_what_we_write(ours: str) -> None:
    open_group(ours, 300, 64)
    assert held_to(ours) == (300, 64)
    for cpus_milli, memory_mb in ((1500, 128), (200, 32), (0, 0), (5, 64)):
        change_group(ours, cpus_milli, memory_mb)
        assert held_to(ours) == (max(cpus_milli, 10 if cpus_milli else 0), memory_mb)
    assert members(ours) == []
    close_group(ours)
    assert not any(Path(folder).exists() for folder in folders_of(ours))
