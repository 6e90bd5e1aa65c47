"""Which control group may be divided, so that each attempt below gets limits of its own.

In version 2 a process belongs to one group, and a group with processes of its own cannot hand
controllers to groups below it. So who was given a group (systemd: `Delegate=yes`) first moves what
is in it into a group below. In version 1 each controller has a tree of its own, and whoever may
write to a group may make others below it. Only the standard library of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH103, PTH110, PTH123

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shunter.backends.node.shares.cgroups import is_handed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOVED = "shunter-daemon"
PROC_SELF = "/proc/self"


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
        handed = _read(f"{own}/cgroup.controllers").split()
        if "memory" not in handed:
            told = " ".join(handed) or "none"
            return "", f"the memory controller is not handed to {own} (it has: {told}); {mend}"
        if not os.access(own, os.W_OK) or not os.access(f"{own}/cgroup.subtree_control", os.W_OK):
            return "", f"{own} belongs to somebody else; {mend}"
        wanted = ["memory", "cpu"] if with_cpus and "cpu" in handed else ["memory"]
        strangers = [pid for pid in _members(own) if not may_move(pid)]
        if strangers and not is_handed(own, "memory"):
            return "", f"{own} has other processes, such as {strangers[0]}; {mend}"
        if prepare:
            _hand_down(own, [each for each in wanted if not is_handed(own, each)])
    except OSError as error:
        return "", f"{own} cannot be divided: {error}"
    return own, ""


def is_of_session(pid: int) -> bool:
    """Say whether a process is of our session: not the sshd that serves all."""
    one = os.getpid()
    while one > 1:
        try:
            parent = int(_read(f"/proc/{one}/stat").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return False
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
        mounts, groups = _read(f"{proc}/mountinfo"), _read(f"{proc}/cgroup")
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


def _hand_down(own: str, missing: list[str]) -> None:
    """Let groups below use controllers; what runs in this one moves down if it must."""
    if not missing:
        return
    told = " ".join(f"+{each}" for each in missing)
    try:
        _told_to(f"{own}/cgroup.subtree_control", told)
    except OSError:
        os.makedirs(f"{own}/{MOVED}", exist_ok=True)
        for pid in _members(own):
            _told_to(f"{own}/{MOVED}/cgroup.procs", str(pid))
        _told_to(f"{own}/cgroup.subtree_control", told)


def _members(own: str) -> list[int]:
    return [int(pid) for pid in _read(f"{own}/cgroup.procs").split()]


def _own_group(proc: str) -> str:
    """Return the folder of the group this process is in; nothing where there is none."""
    try:
        mounts, groups = _read(f"{proc}/mountinfo"), _read(f"{proc}/cgroup")
    except OSError:
        return ""
    where = _mounted(line.split() for line in mounts.splitlines())
    paths = [line[3:] for line in groups.splitlines() if line.startswith("0::")]
    if where is None or not paths:
        return ""
    own = _inside(*where, paths[0])
    # Once moved, we are in a group of our own, and it is the one above that is divided.
    return own.rpartition("/")[0] if own.endswith(f"/{MOVED}") else own


def _inside(root: str, point: str, path: str) -> str:
    """Return the folder of a group; of its tree `root` is mounted at a point."""
    if root != "/" and path.startswith(root):
        path = path[len(root) :]
    return f"{point}/{path.strip('/')}".rstrip("/")


def _mounted(mounts: Iterable[list[str]]) -> tuple[str, str] | None:
    """Return which part of the groups of version 2 is mounted where."""
    for fields in mounts:
        if "-" in fields and fields[fields.index("-") + 1] == "cgroup2":
            return fields[3], fields[4]
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _told_to(path: str, text: str) -> None:
    """Write to a file of the kernel."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
