"""One writer a file: an advisory lock that dies with its process, whatever kills it.

Terms fence a writer that lost its log to another; this keeps two from starting at all. The lock
is on a file of its own, because closing any descriptor of a database drops SQLite's own locks.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from shunter.errors import LogError

SUFFIX = ".lock"


class WriterLock:
    """Holds `PATH.lock` for one writer, from construction to `release`."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            LogError: another process (or another writer of this one) has it, or the directory
                cannot be written.
        """
        self._path = path.with_name(path.name + SUFFIX)
        self._file: int | None = None
        while self._file is None:
            self._file = self._try_take(path)

    def release(self) -> None:
        """Give the lock back and remove its file; releasing twice is allowed."""
        if self._file is not None:
            # Removed before it is unlocked: whoever waits for it then notices and starts over.
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _try_take(self, path: Path) -> int | None:
        """Return the locked descriptor; None if its file was removed in between."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogError(f"the log {path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise LogError(
                f"the log {path} is being written by another process; stop it first, "
                "or write to another file"
            ) from error
        try:
            ours = os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            ours = False
        if ours:
            return file
        os.close(file)
        return None
