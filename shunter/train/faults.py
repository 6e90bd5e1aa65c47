"""What goes wrong in a run without an error, so that its owner has to be warned of it.

A run that is asked to leave and comes to no boundary is ended, and loses work. Checkpoints that
grow without end take longer each time, and fill the disk at last.
"""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FEW_BATCHES = 8  # that loaders and trainers may fetch ahead
MANY_PARTS = 256  # of a mini-batch: nobody adds up the gradients of more
SIZES = 4  # so many in a row tell growth from the first steps of an optimizer
_GROWTH = 1.2
_LEAST_BYTES = 1 << 20
_FULL_BYTES = 1 << 20  # what a full disk may still have, in pieces
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Overdue:
    """Whether more batches have passed without a boundary than before."""

    def __init__(self) -> None:
        self.since = 0
        self._most = 0
        self._steps = -1

    def passes(self, steps_done: int) -> bool:
        """Count a batch that is handed out, and say whether a boundary is overdue."""
        if steps_done != self._steps:
            self._most = max(self._most, self.since)
            self._steps, self.since = steps_done, 0
        self.since += 1
        return self.since > max(FEW_BATCHES, 2 * self._most)


class Incomplete:
    """How many mini-batches in a row were counted while gradients waited for others."""

    def __init__(self) -> None:
        self.count = 0
        self._at = -1

    def passes(self, steps_done: int) -> bool:
        """Count one, and say whether they are more than gradients are added up over."""
        self.count = self.count + 1 if steps_done == self._at + 1 else 1
        self._at = steps_done
        return self.count >= MANY_PARTS


def is_growing(sizes: Sequence[int]) -> bool:
    """Say whether the last checkpoints, in bytes, are each far larger."""
    last = sizes[-SIZES:]
    if len(last) < SIZES or last[-1] < _LEAST_BYTES:
        return False
    return all(after >= _GROWTH * before for before, after in zip(last, last[1:]))


def in_words(size: int) -> str:
    """Return bytes as people read them."""
    if size < 1_000_000:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.0f} MB" if size < 1_000_000_000 else f"{size / 1e9:.1f} GB"


def lack_of_space(folder: Path, error: BaseException) -> str | None:
    """Return what to tell if a full disk has ended the writing; else None.

    The error itself may not say so: torch raises a RuntimeError that names a place in its code.
    """
    try:
        free = shutil.disk_usage(str(folder)).free
    except OSError:
        return None
    if getattr(error, "errno", None) not in _FULL and free >= _FULL_BYTES:
        return None
    return f"no space left on device: the disk of {folder} has {in_words(free)} free"
