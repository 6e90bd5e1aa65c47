"""The control groups of an attempt, which hold its processes to their CPUs and memory.

An attempt has a folder of version 2, or one of version 1 for each of the two controllers: they are
named by a line each, for the path of a group has no line feed. CPU time is held by a quota of each
100 ms.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from shunter.backends.node.records import stat_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PERIOD_US, QUOTA_LEAST_US = 100_000, 1_000
QUOTA, LIMIT = "cpu.cfs_quota_us", "memory.limit_in_bytes"
"""The files of version 1 that hold CPU time and memory."""
NO_LIMIT = 1 << 62
MB = 1_000_000
"""The bytes of a megabyte, as in configs: 1 GB is 1,000 MB. The kernel holds whole pages."""
CLOSE_TRIES, CLOSE_WAIT_S = 50, 0.002
MOVED = "shunter-daemon"
PROC_SELF = "/proc/self"


def joined(folders: list[str]) -> str:
    """Return the name of an attempt's groups; one folder may hold both."""
    return "\n".join(dict.fromkeys(folders))


def folders_of(group: str) -> list[str]:
    """Return the folders that a name of groups joins."""
    return group.split("\n")


def open_group(group: str, cpus_milli: int, memory_mb: int) -> None:
    """Make groups whose processes together have so much; 0 is as much as there is.

    Raises:
        OSError: one cannot be made, or takes no limit.
    """
    for folder in folders_of(group):
        os.makedirs(folder, exist_ok=True)
    for folder in folders_of(group):
        if memory_mb:
            _hold_memory(folder, memory_mb)
        if cpus_milli:
            _hold_cpus(folder, cpus_milli)


def change_group(group: str, cpus_milli: int, memory_mb: int) -> None:
    """Give the processes of groups other amounts; 0 is as much as there is.

    Memory comes first: it is what can fail, and then nothing has changed.

    Raises:
        OSError: a group is gone, or what is in use cannot be given back.
    """
    for folder in folders_of(group):
        _hold_memory(folder, memory_mb)
    for folder in folders_of(group):
        _hold_cpus(folder, cpus_milli)


def held_to(group: str) -> tuple[int, int]:
    """Return the thousandths of CPUs and the MB that groups have; 0: no limit."""
    cpus_milli = memory_mb = 0
    for folder in folders_of(group):
        quota, _, period = _read(f"{folder}/cpu.max").strip().partition(" ")
        if not quota:
            quota, period = _read(f"{folder}/{QUOTA}"), _read(f"{folder}/cpu.cfs_period_us")
        if quota.strip().isdigit() and period.strip().isdigit():
            cpus_milli = int(quota) * 1000 // max(1, int(period))
        limit = (_read(f"{folder}/memory.max") or _read(f"{folder}/{LIMIT}")).strip()
        if limit.isdigit() and int(limit) < NO_LIMIT:
            memory_mb = -(-int(limit) // MB)
    return cpus_milli, memory_mb


def has_quota(group: str) -> bool:
    """Say whether groups can hold CPU time."""
    return any(map(_is_for_cpus, folders_of(group)))


def enter(group: str) -> None:
    """Move this process into groups."""
    for folder in folders_of(group):
        _write(f"{folder}/cgroup.procs", "0")


def members(group: str) -> list[int]:
    """Return the processes of groups.

    One of another process namespace shows as 0, and a signal to 0 would strike ourselves.
    """
    found: set[int] = set()
    for folder in folders_of(group):
        lines = _read(f"{folder}/cgroup.procs").split()
        found.update(int(pid) for pid in lines if pid.isdigit() and int(pid) > 0)
    return sorted(found)


def kills(group: str) -> int:
    """Return how many processes of groups were killed for want of memory."""
    count = 0
    for folder in folders_of(group):
        for name in ("memory.events", "memory.oom_control"):
            count += _counts(f"{folder}/{name}").get("oom_kill", 0)
    return count


def close_group(group: str) -> None:
    """Remove groups whose processes are gone."""
    for folder in folders_of(group):
        for _ in range(CLOSE_TRIES):  # the kernel may take a while to be rid of a process
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno != errno.EBUSY or members(folder):
                    break  # it is empty of processes, and costs nothing
                time.sleep(CLOSE_WAIT_S)
            else:
                break


def _hold_memory(folder: str, memory_mb: int) -> None:
    """Hold a group to so much memory, and no swap, if it is one for memory."""
    if os.path.exists(f"{folder}/{LIMIT}"):
        _limit_memory_v1(folder, memory_mb)
    elif not os.path.exists(f"{folder}/{QUOTA}"):
        least_mb = _kept_mb(folder)
        if memory_mb and least_mb > memory_mb:
            raise OSError(errno.EBUSY, f"it uses {least_mb} MB that it cannot give back", folder)
        _write(f"{folder}/memory.max", str(memory_mb * MB) if memory_mb else "max")
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            try:
                _write(f"{folder}/{name}", value)
            except OSError:
                continue  # without swap accounting, or on an older kernel: the limit holds anyway


def _limit_memory_v1(folder: str, memory_mb: int) -> None:
    """Set both limits of version 1; that with swap may never be the lower one.

    The kernel gives back what it can, and refuses what is in use.
    """
    limit = str(memory_mb * MB) if memory_mb else "-1"
    names = [LIMIT, "memory.memsw.limit_in_bytes"]
    now = _read(f"{folder}/{LIMIT}").strip()
    if not memory_mb or (now.isdigit() and int(now) < memory_mb * MB):
        names.reverse()
    for name in names:
        if name == LIMIT or os.path.exists(f"{folder}/{name}"):  # without swap accounting, none
            _write(f"{folder}/{name}", limit)


def _kept_mb(folder: str) -> int:
    """Return the MB of a group (version 2) that it cannot give back."""
    counts = _counts(f"{folder}/memory.stat")
    return -(-sum(counts.get(name, 0) for name in ("anon", "shmem", "slab_unreclaimable")) // MB)


def _hold_cpus(folder: str, cpus_milli: int) -> None:
    """Hold a group to so many thousandths of CPUs, if it is one for CPU time."""
    quota_us = max(QUOTA_LEAST_US, cpus_milli * PERIOD_US // 1000)
    if os.path.exists(f"{folder}/{QUOTA}"):
        _write(f"{folder}/cpu.cfs_period_us", str(PERIOD_US))
        _write(f"{folder}/{QUOTA}", str(quota_us) if cpus_milli else "-1")
    elif _is_for_cpus(folder):
        _write(f"{folder}/cpu.max", f"{quota_us if cpus_milli else 'max'} {PERIOD_US}")


def _is_for_cpus(folder: str) -> bool:
    if os.path.exists(f"{folder}/{LIMIT}"):
        return False
    return os.path.exists(f"{folder}/{QUOTA}") or is_handed(os.path.dirname(folder), "cpu")


def is_handed(folder: str, controller: str, *, is_divided: bool = True) -> bool:
    """Say whether groups (version 2) below a folder have a controller, or could."""
    file = "cgroup.subtree_control" if is_divided else "cgroup.controllers"
    return controller in _read(f"{folder}/{file}").split()


def _counts(path: str) -> dict[str, int]:
    """Return the counts of a file of lines, each a name and a number."""
    lines = (line.split() for line in _read(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def _read(path: str) -> str:
    """Return what a file of a group says; nothing where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


# Which control group may be divided. In version 2 a group with processes of its own cannot give
# controllers to groups below it, so its processes first move into a group below (`Delegate=yes`).
# In version 1 who may write to a group may make others below it.


def divisible(
    *,
    prepare: bool,
    mend: str,
    group: str = "",
    proc: str = PROC_SELF,
    may_move: Callable[[int], bool] = bool,
    with_cpus: bool = False,
) -> tuple[str, str]:
    """Return the folder of the group we may divide, or none and why.

    Args:
        prepare: also make it ready, which may move the processes in it one level down.
        mend: what to do where there is none.
        group: the folder of one that was handed over; empty: the one this process is in.
        proc: where the kernel tells of this process.
        may_move: which processes, by id, may be moved; all, unless it is said.
        with_cpus: make it ready to limit CPU time as well, where that was handed to it.
    """
    own = group or _own_group(proc)
    if not own:
        return "", "this machine has no control groups of version 2"
    try:
        handed = _content_of(f"{own}/cgroup.controllers").split()
        if "memory" not in handed:
            told = " ".join(handed) or "none"
            return "", f"the memory controller is not handed to {own} (it has: {told}); {mend}"
        if not os.access(own, os.W_OK) or not os.access(f"{own}/cgroup.subtree_control", os.W_OK):
            return "", f"{own} belongs to somebody else; {mend}"
        wanted = ["memory", "cpu"] if with_cpus and "cpu" in handed else ["memory"]
        strangers = [pid for pid in _processes_in(own) if not may_move(pid)]
        if strangers and not is_handed(own, "memory"):
            return "", f"{own} has other processes, such as {strangers[0]}; {mend}"
        if prepare:
            _hand_down(own, [each for each in wanted if not is_handed(own, each)])
    except OSError as error:
        return "", f"{own} cannot be divided: {error}"
    return own, ""


def _hand_down(own: str, missing: list[str]) -> None:
    """Let groups below use controllers; what runs in this one moves down if it must."""
    if not missing:
        return
    told = " ".join(f"+{each}" for each in missing)
    try:
        _write(f"{own}/cgroup.subtree_control", told)
    except OSError:
        os.makedirs(f"{own}/{MOVED}", exist_ok=True)
        for pid in _processes_in(own):
            _write(f"{own}/{MOVED}/cgroup.procs", str(pid))
        _write(f"{own}/cgroup.subtree_control", told)


def _processes_in(own: str) -> list[int]:
    return [int(pid) for pid in _content_of(f"{own}/cgroup.procs").split()]


def _own_group(proc: str) -> str:
    """Return the folder of the group this process is in; nothing where there is none."""
    try:
        mounts, groups = _content_of(f"{proc}/mountinfo"), _content_of(f"{proc}/cgroup")
    except OSError:
        return ""
    where = _mounted(line.split() for line in mounts.splitlines())
    paths = [line[3:] for line in groups.splitlines() if line.startswith("0::")]
    if where is None or not paths:
        return ""
    own = _inside(*where, paths[0])
    # Once moved, we are in a group of our own, and it is the one above that is divided.
    return own.rpartition("/")[0] if own.endswith(f"/{MOVED}") else own


def _mounted(mounts: Iterable[list[str]]) -> tuple[str, str] | None:
    """Return which part of the groups of version 2 is mounted where."""
    for fields in mounts:
        if "-" in fields and fields[fields.index("-") + 1] == "cgroup2":
            return fields[3], fields[4]
    return None


def is_of_session(pid: int) -> bool:
    """Say whether a process is of our session: not the sshd that serves all."""
    one = os.getpid()
    while one > 1:
        said = stat_of(one)
        if not said:
            return False
        parent = int(said[1])
        if one == pid:
            return parent != 1 or one == os.getpid()
        one = parent
    return False


def divisible_v1(controller: str, file: str, proc: str = PROC_SELF) -> str:
    """Return our group (version 1) of a controller; nothing if it is not ours.

    Args:
        controller: its name.
        file: what each of its groups has, if the kernel can do what is wanted.
        proc: where the kernel tells of this process.
    """
    try:
        mounts, groups = _content_of(f"{proc}/mountinfo"), _content_of(f"{proc}/cgroup")
    except OSError:
        return ""
    own = [line.split(":", 2) for line in groups.splitlines()]
    paths = [line[2] for line in own if len(line) == 3 and controller in line[1].split(",")]
    for fields in map(str.split, mounts.splitlines()):
        told = fields[fields.index("-") + 1 :] if "-" in fields else []
        if paths and told[:1] == ["cgroup"] and controller in told[-1].split(","):
            folder = _inside(fields[3], fields[4], paths[0])
            is_ours = os.path.exists(f"{folder}/{file}") and os.access(folder, os.W_OK)
            return folder if is_ours else ""
    return ""


def _inside(root: str, point: str, path: str) -> str:
    """Return the folder of a group; of its tree `root` is mounted at a point."""
    if root != "/" and path.startswith(root):
        path = path[len(root) :]
    return f"{point}/{path.strip('/')}".rstrip("/")


def _content_of(path: str) -> str:
    """Return what a file of the kernel says; raise OSError where there is none."""
    with open(path, encoding="utf-8") as file:
        return file.read()
