"""Tells that output was written to, by inotify, so that its time is known to some milliseconds.

The kernel wakes the supervisor at the first write, and after that once in `PAUSE_S` at most while
output goes on: a job that prints all the time costs twenty looks a second, a silent one nothing.
Where inotify is not to be had (its instances are bounded for each user), output is looked at once a
second, as ever. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

PAUSE_S = 0.05
_IN_MODIFY = 0x2
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_READ_BYTES = 1 << 16


class Writes:
    """Watches files; `fd` (None: it cannot) is readable after a write."""

    def __init__(self, paths: Iterable[str]) -> None:
        import ctypes  # the supervisor has it already, for prctl

        self.fd: int | None = None
        self._quiet_until_s = 0.0
        try:
            libc = ctypes.CDLL(None)
            fd = libc.inotify_init1(_FLAGS)
        except (OSError, AttributeError):
            return
        if fd < 0:
            return
        self.fd = fd
        for path in paths:
            libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY)

    def wait_s(self, now_s: float) -> float | None:
        """Return how long not to listen for writes; None: there is nothing to listen to."""
        return None if self.fd is None else max(0.0, self._quiet_until_s - now_s)

    def take(self, now_s: float) -> None:
        """Take in what was told; from now on there is a pause."""
        self._quiet_until_s = now_s + PAUSE_S
        if self.fd is None:
            return
        try:
            while len(os.read(self.fd, _READ_BYTES)) > _READ_BYTES // 2:
                pass
        except OSError:  # all is read
            return
