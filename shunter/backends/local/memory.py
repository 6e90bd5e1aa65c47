"""Where this machine lets us limit the memory of jobs: a control group (v2) that we may divide.

A process belongs to one group, and a group with processes of its own cannot hand controllers to
groups below it. So a daemon that was given a group (systemd: `Delegate=yes`) first moves itself
into a group of its own there. Without such a group jobs run all the same, with no limit.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryControl", "memory_control"]

OURS = "shunter-daemon"
PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class MemoryControl:
    """The group below which attempts get theirs; without one, why."""

    group: str = ""
    why_not: str = ""


def memory_control(*, prepare: bool, proc: Path = PROC) -> MemoryControl:
    """Find the group that we may divide.

    Args:
        prepare: also make it ready, which may move the processes in it one level down.
        proc: where the kernel tells of this process.
    """
    own = _own_group(proc)
    if own is None:
        return MemoryControl(why_not="this machine has no control groups of version 2")
    try:
        handed = (own / "cgroup.controllers").read_text().split()
        if "memory" not in handed:
            told = " ".join(handed) or "none"
            return MemoryControl(
                why_not=f"the memory controller is not handed to {own} (it has: {told}); under "
                "systemd, run the daemon in a unit with Delegate=yes"
            )
        if not os.access(own, os.W_OK) or not os.access(own / "cgroup.subtree_control", os.W_OK):
            return MemoryControl(
                why_not=f"{own} belongs to somebody else; under systemd, run the daemon in a unit "
                "with Delegate=yes"
            )
        if prepare:
            _hand_down(own)
    except OSError as error:
        return MemoryControl(why_not=f"{own} cannot be divided: {error}")
    return MemoryControl(group=str(own))


def _hand_down(own: Path) -> None:
    """Let groups below limit memory; what runs in this one moves down if it must."""
    control = own / "cgroup.subtree_control"
    if "memory" in control.read_text().split():
        return
    try:
        control.write_text("+memory")
    except OSError:
        (own / OURS).mkdir(exist_ok=True)
        for pid in (own / "cgroup.procs").read_text().split():
            (own / OURS / "cgroup.procs").write_text(pid)
        control.write_text("+memory")


def _own_group(proc: Path) -> Path | None:
    """Return the folder of the group this process is in."""
    try:
        mounts = (proc / "mountinfo").read_text().splitlines()
        groups = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return None
    where = _mounted(line.split() for line in mounts)
    paths = [line[3:] for line in groups if line.startswith("0::")]
    if where is None or not paths:
        return None
    root, point = where
    inside = paths[0].removeprefix(root) if root != "/" else paths[0]
    own = Path(point) / inside.strip("/")
    # Once moved, we are in a group of our own, and it is the one above that is divided.
    return own.parent if own.name == OURS else own


def _mounted(mounts: Iterable[list[str]]) -> tuple[str, str] | None:
    """Return which part of the groups of version 2 is mounted where."""
    for fields in mounts:
        if "-" in fields and fields[fields.index("-") + 1] == "cgroup2":
            return fields[3], fields[4]
    return None
