"""The supervisor's requests as one rank sees them: a `stat` a look.

Each file that appears, and each signal, is one more request, unless one is open already. Every
rank counts the same ones, since all of them close a request together.
"""

from __future__ import annotations

import os

from shunter.train import channel


class Requests:
    """Which request is open; they count from 1."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._asked = 0
        self._closed = 0
        self._acknowledged = 0
        self._rung = 0

    def open_number(self) -> int:
        """Return the number of the request that is not yet answered, or 0."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  half the price, and once a mini-batch
        except OSError:
            found = None
        is_asked = found is not None and self._seen != (found.st_ino, found.st_mtime_ns)
        if is_asked and found is not None:
            self._seen = (found.st_ino, found.st_mtime_ns)
        if channel.BELL.rung != self._rung:
            self._rung = channel.BELL.rung
            is_asked = True
        if is_asked:
            self._asked = self._closed + 1
        return self._asked if self._asked > self._closed else 0

    def is_new(self, number: int) -> bool:
        """Say once for each request that it was not acknowledged before."""
        is_new = number > self._acknowledged
        self._acknowledged = max(self._acknowledged, number)
        return is_new

    def close(self, number: int) -> None:
        """Count a request as answered: its checkpoint failed, and the run goes on."""
        self._closed = max(self._closed, number)
