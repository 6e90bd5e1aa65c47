"""The memory limit of an attempt: a control group (v2) of its own, where we may make one.

Only the standard library of Python 3.8 or later, as in supervisor.py. Whether groups can be made on
a machine, and below which one, division.py finds out.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH103, PTH106, PTH123

from __future__ import annotations

import os


def open_group(path: str, memory_mb: int) -> None:
    """Make a group whose processes together have so much memory, and no swap.

    Raises:
        OSError: it cannot be made, or takes no limit.
    """
    os.makedirs(path, exist_ok=True)
    _write(f"{path}/memory.max", str(memory_mb << 20))
    for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        try:
            _write(f"{path}/{name}", value)
        except OSError:
            continue  # without swap accounting, or on an older kernel: the limit holds anyway


def enter(path: str) -> None:
    """Move this process into a group."""
    _write(f"{path}/cgroup.procs", "0")


def members(path: str) -> list[int]:
    """Return the processes of a group.

    One of another process namespace shows as 0, and a signal to 0 would strike ourselves.
    """
    try:
        with open(f"{path}/cgroup.procs", encoding="ascii") as file:
            return [pid for pid in map(int, file) if pid > 0]
    except OSError:
        return []


def kills(path: str) -> int:
    """Return how many processes of a group were killed for want of memory."""
    try:
        with open(f"{path}/memory.events", encoding="ascii") as file:
            counts = dict(line.split() for line in file)
    except (OSError, ValueError):
        return 0
    return int(counts.get("oom_kill", 0))


def close_group(path: str) -> None:
    """Remove a group whose processes are gone."""
    try:
        os.rmdir(path)
    except OSError:
        return  # it is empty of processes, and costs nothing


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
