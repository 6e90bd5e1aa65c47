"""A scheduler's sign of life, and the deadline after which its jobs end without one.

The file of a heartbeat holds the instant for which it was written, not the one at which it was: a
sign that was under way for long, or lay waiting in a host that was stopped, is as old as it is. Its
clock counts from the boot and runs on while the machine sleeps, which the monotonic one does not.

A remote scheduler goes on while we sleep, and gives us up: its deadline counts from what it sent.
One on this machine sleeps when we do, so its signs count from their being seen, awake. The wall
clock means nothing here. Only the standard library of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import os
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Heartbeat:
    """What a supervisor knows of its scheduler's life."""

    def __init__(self, path: str, deadline_s: float, *, is_remote: bool) -> None:
        self._path = path
        self._deadline_ns = int(deadline_s * 1e9)
        self._is_remote = is_remote
        self._moved = -1
        self._beat_ns = 0

    def is_over(self) -> bool:
        """Say whether the last sign is too old; the first time, count from now."""
        now_ns = uptime_ns() if self._is_remote else time.monotonic_ns()
        moved = _moved_ns(self._path)
        if moved not in (-1, self._moved):
            self._moved = moved
            told_ns = _sent_ns(self._path) if self._is_remote else None
            # One that cannot be read, or is of an earlier boot, counts from its being seen.
            self._beat_ns = max(self._beat_ns, now_ns if told_ns is None else min(told_ns, now_ns))
        self._beat_ns = self._beat_ns or now_ns
        return now_ns - self._beat_ns > self._deadline_ns


def uptime_ns() -> int:
    """Return how long ago this machine was booted, in ns, its sleep included."""
    return time.clock_gettime_ns(_CLOCK)


def write_beat(path: str, for_ns: int | None = None) -> None:
    """Move a heartbeat; not synced, since it means nothing after a crash.

    Args:
        path: its file.
        for_ns: the uptime at which it was asked for; now, if that is not said or is yet to come.
    """
    now_ns = uptime_ns()
    line = f"{now_ns if for_ns is None else min(for_ns, now_ns):020}\n".encode()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, line, 0)  # in its place, for which a full disk has room
        finally:
            os.close(file)
    except OSError:
        if os.path.exists(path):  # noqa: PTH110 as above
            os.utime(path)  # a full disk after all, which has room for the time of a change


def silence_s(path: str) -> float | None:
    """Return how old the last sign is, in seconds; None if there never was one."""
    if _moved_ns(path) == -1:
        return None
    now_ns, told_ns = uptime_ns(), _sent_ns(path)
    if told_ns is None:
        return 0.0
    # One that is yet to come is of an earlier boot: in this one there was none.
    return (now_ns - told_ns if told_ns <= now_ns else now_ns) / 1e9


def _moved_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _sent_ns(path: str) -> int | None:
    """Return the instant that a sign tells; None if it is unreadable."""
    try:
        with open(path, "rb") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return None
