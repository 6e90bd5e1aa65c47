"""What holds attempts to their shares on a node: whole CPUs of their own, or groups."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node import (
    QUOTA,
    Enforcement,
    Means,
    ReshapeAnswer,
    Shares,
    boot_id,
    divisible_v1,
    folder_of,
    put,
    shares as shares_module,
    spread,
)
from tests.unit.backends.node.orders import started_of

CPUS = [0, 1, 2, 3]
KEY = ("j1", 1)


def test_each_has_cpus_of_its_own_as_far_as_there_are() -> None:
    assert spread({"a": [], "b": []}, {"a": 2, "b": 1}, CPUS) == {"a": [0, 1], "b": [2]}
    assert spread({"a": [], "b": []}, {"a": 3, "b": 2}, CPUS) == {"a": [0, 1, 2], "b": [0, 3]}


def test_who_keeps_his_number_keeps_his_cpus() -> None:
    bound = {"a": [1, 3], "b": [2]}
    assert spread(bound, {"a": 2, "b": 1}, CPUS) == bound
    assert spread(bound, {"a": 1, "b": 1}, CPUS) == {"a": [1], "b": [2]}


def test_what_was_shared_for_a_while_is_parted_once_there_is_room() -> None:
    """One grew before the other had shrunk; the change of the other parts them."""
    assert spread({"a": [0, 1, 2, 3], "b": [0]}, {"a": 2, "b": 1}, CPUS) == {"a": [0, 1], "b": [2]}


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.sampled_from(CPUS), unique=True), max_size=6),
    st.data(),
)
def test_cpus_are_used_evenly(bound: dict[int, list[int]], data: st.DataObject) -> None:
    counts = {key: data.draw(st.integers(1, 6)) for key in bound}
    given_out = spread(bound, counts, CPUS)
    used = [cpu for own in given_out.values() for cpu in own]
    tenants = [used.count(cpu) for cpu in CPUS]
    assert all(len(own) == min(counts[key], 4) for key, own in given_out.items())
    assert all(len(set(own)) == len(own) for own in given_out.values())
    assert max(tenants) - min(tenants) <= 1


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.sampled_from(CPUS), unique=True), max_size=4),
    st.lists(st.sampled_from(CPUS), max_size=6),
)
def test_cpus_of_who_stays_are_taken_last(bound: dict[int, list[int]], taken: list[int]) -> None:
    """One each: what others have counts as if it had been given out before."""
    given_out = spread(bound, dict.fromkeys(bound, 1), CPUS, taken)
    loads = [taken.count(cpu) for cpu in CPUS]
    for own in given_out.values():
        assert loads[own[0]] == min(loads)
        loads[own[0]] += 1


def test_attempt_with_a_quota_follows_to_the_cpus_it_may_use_now(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder stands for its group. What it bound to some of its CPUs by itself stays."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    ranks = [{"cpus": cpus, "pinned": False}]
    group = tmp_path / "group"
    group.mkdir()
    (group / QUOTA).write_text("-1")
    started = started_of(boot=boot_id(), pid=os.getpid(), ranks=ranks, cgroup=str(group))
    put(f"{folder_of(root, *KEY)}/started", started)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            monkeypatch.setattr(shares_module, "pids_of", lambda *_: [child.pid])
            held = affinity_only(root)
            for allowed, has in ((cpus[1:], cpus[1:]), (cpus, cpus)):
                held.change(KEY, sized(700, allowed), [KEY])
                assert sorted(os.sched_getaffinity(child.pid)) == has
            os.sched_setaffinity(child.pid, cpus[:1])
            held.change(KEY, sized(700, cpus), [KEY])
            assert sorted(os.sched_getaffinity(child.pid)) == cpus[:1]
        finally:
            child.kill()


def test_words_say_what_holds_what(tmp_path: Path) -> None:
    assert Means().words == "CPUs by affinity, whole ones only; memory is not held"
    (tmp_path / QUOTA).write_text("-1")
    assert Means(str(tmp_path), str(tmp_path / "two")).words == (
        "CPUs by quotas of control groups (version 1); memory by control groups (version 2)"
    )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A root with an attempt that runs, whose supervisor is this process."""
    folder = folder_of(str(tmp_path), *KEY)
    os.makedirs(folder)  # noqa: PTH103 a text, as in all records of attempts
    put(f"{folder}/started", started_of(boot=boot_id(), pid=os.getpid()))
    with Path(f"{folder}/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield str(tmp_path)


def sized(cpus_milli: int, cpus: list[int]) -> Shares:
    return Shares(cpus_milli=cpus_milli, memory_mb=0, cpus=tuple(cpus))


def affinity_only(root: str) -> Enforcement:
    held = Enforcement(root, "c0", "/nowhere", is_limited=True)
    held.means = Means()
    return held


def test_all_threads_of_an_attempt_are_bound_also_in_sessions_of_their_own(root: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    program = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()"
    command = [sys.executable, "-I", "-S", "-c", f"{program}; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, bufsize=0
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            held = affinity_only(root)
            now = held.change(KEY, sized(700, cpus), [KEY])
            assert now == ReshapeAnswer(cpus_milli=1000, memory_mb=0, cpus=tuple(cpus[:1]))
            threads = [int(task.name) for task in sorted(Path(f"/proc/{child.pid}/task").iterdir())]
            assert len(threads) == 2
            assert [os.sched_getaffinity(thread) for thread in threads] == 2 * [{cpus[0]}]
            now = held.change(KEY, sized(2000, cpus), [KEY])
            assert now.cpus == tuple(cpus[:2])
            assert os.sched_getaffinity(child.pid) == set(cpus[:2])
        finally:
            child.kill()


def test_attempt_that_does_not_run_is_held_to_nothing(root: str) -> None:
    now = affinity_only(root).change(("j2", 1), sized(700, [0]), [])
    assert now.cause == "it is not running, but absent"


def test_group_that_a_killed_supervisor_left_is_removed_and_that_of_others_stays(
    root: str, tmp_path: Path
) -> None:
    """Folders stand for the kernel's groups: of an attempt that is over, of one that runs."""
    group = tmp_path / "group"
    group.mkdir()
    held = affinity_only(root)
    held.means = Means(str(group), "")
    names = [f"{held._limited}j1.1", f"{held._limited}j0.3", "shunter-other-j0.3", "user"]
    for name in names:
        (group / name).mkdir()
    held.tidy()
    left = sorted(each.name for each in group.iterdir())
    assert left == sorted(name for name in names if name != f"{held._limited}j0.3")


def test_version_1_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    """`/proc` as another machine has it: its group lies below what is mounted."""
    mounted = tmp_path / "mounted"
    (mounted / "own").mkdir(parents=True)
    (mounted / "own" / QUOTA).write_text("-1")
    line = f"30 25 0:26 /above {mounted} rw - cgroup cgroup rw,cpu,cpuacct\n"
    (tmp_path / "mountinfo").write_text(line)
    (tmp_path / "cgroup").write_text("4:cpu,cpuacct:/above/own\n3:memory:/\n0::/\n")
    assert divisible_v1("cpu", QUOTA, str(tmp_path)) == f"{mounted}/own"
    assert divisible_v1("memory", QUOTA, str(tmp_path)) == ""
    assert divisible_v1("cpu", "cpu.other", str(tmp_path)) == ""
