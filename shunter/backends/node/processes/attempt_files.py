"""What tells of a running attempt: made anew by its supervisor where somebody has removed it.

A scratch folder may be purged under a running job, whole or file by file. Its supervisor looks now
and then whether the lock that it holds is still the one in its folder. Only the standard library of
Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH116

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from shunter.backends.node.records import get, hold, make_folder, put

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANNELS = ("orders", "channel")


class AttemptFiles:
    """The lock and the record by which an attempt is known to run."""

    def __init__(self, folder: str, lock: int, started: Mapping[str, object]) -> None:
        self._folder, self._lock, self._started = folder, lock, started
        self._replaced: list[int] = []

    def are_there(self) -> bool:
        """Say whether others can tell by the folder that this attempt runs."""
        names = ("started", *CHANNELS)
        return self._is_locked() and all(os.path.exists(f"{self._folder}/{name}") for name in names)

    def restore(self) -> bool:
        """Make what lacks; False on a full disk, say: it is to be tried again."""
        try:
            make_folder(self._folder)
            if not self._is_locked() and not self._lock_anew():
                return False
            if get(f"{self._folder}/started") is None:
                put(f"{self._folder}/started", self._started)
        except OSError:
            return False
        return True

    def _is_locked(self) -> bool:
        held = os.fstat(self._lock)
        try:
            found = os.stat(f"{self._folder}/lock")
        except OSError:
            return False
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)

    def _lock_anew(self) -> bool:
        lock = hold(f"{self._folder}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock is None:  # somebody looks just now
            return False
        self._replaced.append(self._lock)  # kept open: by it we were known until now
        self._lock = lock
        return True
