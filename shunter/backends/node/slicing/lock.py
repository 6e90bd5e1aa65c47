"""The lock of the one that rotates, and its sign of life: a supervisor that hangs holds it on.

Who rotates writes every second who it is, and the first number of its orders. Where that was not
renewed for `SILENT_MOST_US`, another puts a new lock in the place of the old one. The one before
finds that out before it does anything more, and no attempt begins a turn by an older number than
the one that stands here, so an order that was still on its way gives nobody a GPU. Only the
standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH108, PTH116

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from shunter.backends.node.records import count_in, get, hold, own_folder
from shunter.backends.node.slicing.members import name_rotating, rotating_in, write

SIGN_US = 1_000_000
SILENT_MOST_US = 5_000_000
AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB


class RotationLock:
    """The lock of a server, as one attempt has it or not.

    Args:
        slices: the folder of those who share the GPUs of the server.
        key: job and number of the attempt.
    """

    def __init__(self, slices: str, key: tuple[str, int]) -> None:
        self._slices, self._key = slices, key
        self._held: int | None = None
        self._number = self._signed_us = 0

    def take(self, now_us: int) -> bool:
        """Take the lock if it is free, or its holder hangs; say if it is ours."""
        own_folder(self._slices)
        self._held = hold(f"{self._slices}/lock", AT_ONCE)
        is_free = self._held is not None
        if not is_free and self._is_silent(now_us):
            self._replace(now_us)
        if self._held is None or not self.is_ours():
            self.release()
            return False
        self._number = now_us
        try:
            self._sign(now_us)
        except OSError:  # a full disk
            if not is_free:  # an order of the one before might yet be believed
                self.release()
                return False
        name_rotating(self._held, self._key)
        return True

    def keep(self, now_us: int) -> bool:
        """Give the sign of life when it is due; False: another has taken our place."""
        if not self.is_ours():
            return False
        if now_us >= self._signed_us + SIGN_US:
            with suppress(OSError):  # a full disk: another takes over if it stays full
                self._sign(now_us)
        return True

    def is_ours(self) -> bool:
        """Say whether the lock that lies there is the one that is held here."""
        if self._held is None:
            return False
        try:
            found = os.stat(f"{self._slices}/lock")
        except OSError:
            return False
        held = os.fstat(self._held)
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)

    def release(self) -> None:
        """Give the lock up, if it is held."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _is_silent(self, now_us: int) -> bool:
        """Say whether the one that is known to hold the lock has given no sign for long."""
        rotating, sign = rotating_in(self._slices), get(_sign_of(self._slices)) or {}
        at_us = sign.get("at_us")
        is_known = rotating is not None and sign.get("by") == f"{rotating[0]}.{rotating[1]}"
        return is_known and isinstance(at_us, int) and now_us > at_us + SILENT_MOST_US

    def _replace(self, now_us: int) -> None:
        """Put a new lock in the place of the old one, unless another just does."""
        alone = hold(f"{self._slices}/lock.replace", AT_ONCE)
        if alone is None:
            return
        try:
            if self._is_silent(now_us):  # as it was: nobody was quicker
                os.unlink(f"{self._slices}/lock")
                self._held = hold(f"{self._slices}/lock", AT_ONCE)
                if self._held is not None:
                    name_rotating(self._held, self._key)  # or the next one would do so again
        finally:
            os.close(alone)

    def _sign(self, now_us: int) -> None:
        by = f"{self._key[0]}.{self._key[1]}"
        record = {"by": by, "number": self._number, "at_us": now_us}
        write(_sign_of(self._slices), record)
        self._signed_us = now_us


def first_number(slices: str) -> int:
    """Return the least number of an order by who rotates; 0: not known."""
    return count_in(_sign_of(slices), "number")


def _sign_of(slices: str) -> str:
    return f"{slices}/rotating"
