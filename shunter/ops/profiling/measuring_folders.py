"""The folders of measurements: each is held by a lock as long as it is used.

One that nobody holds was left by a `shunter profile` that was killed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shunter.backends.node.attempts import alive_below

_PREFIX = "shunter-profile-"


@contextmanager
def measuring_folder() -> Iterator[str]:
    """Make a folder for one measurement; it is removed after the block."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        lock = _locked(path)
        if lock is not None:  # else it was taken for one that was left
            break
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> list[str]:
    """Remove the folders of measurements that were killed.

    A folder of which processes still run is left as it is. Returns what is to be known, in words.
    """
    notes = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        lock = _locked(str(path))
        if lock is None:
            continue
        try:
            running = sorted(
                pid for each in alive_below(str(path)).values() for pids in each for pid in pids
            )
            if running:
                named = ", ".join(map(str, running))
                notes.append(
                    f"a `shunter profile` that was killed has left processes that run: {named}; "
                    f"end them, its files are in {path}"
                )
            else:
                shutil.rmtree(path, ignore_errors=True)
                notes.append(f"removed {path}, which a `shunter profile` that was killed has left")
        finally:
            os.close(lock)
    return notes


def _locked(path: str) -> int | None:
    """Lock a folder; None: another process holds it, or it is not ours."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(folder)
        if found.st_uid == os.geteuid() and os.path.samestat(found, Path(path).stat()):
            return folder
    except OSError:
        pass
    os.close(folder)
    return None
