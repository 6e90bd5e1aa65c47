"""Records, locks, channels and processes: what supervisor and daemon know each other by.

Only the standard library of Python 3.8 or later, as in supervisor.py, which says what lies where.
"""

# Importing pathlib would cost more than all the rest of the start, so paths are strings here.
# ruff: noqa: PTH101, PTH102, PTH105, PTH108, PTH110, PTH112, PTH120, PTH123, PTH208

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from typing import TYPE_CHECKING, TextIO

from shunter.backends.node.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE_BYTES_MAX = 4096
RECORD_BYTES_MOST = 1 << 20


class NotRegularError(OSError):
    """What should be a plain file is something else."""


def put(path: str, record: Mapping[str, object]) -> None:
    """Write a record so that it is there whole, or not at all, after any crash."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        with create_private(temporary) as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        failpoint(f"put {path.rsplit('/', 1)[1]}")
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def create_private(path: str) -> TextIO:
    """Open a file to write that nobody else can read, whatever the umask."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    os.fchmod(file, 0o600)
    return open(file, "w", encoding="utf-8")


def get(path: str) -> dict[str, object] | None:
    """Read a record; None if there is none, or what lies there is no record."""
    try:
        with open(open_regular(path), "rb") as file:
            content = file.read(RECORD_BYTES_MOST + 1)
        found = json.loads(content) if len(content) <= RECORD_BYTES_MOST else None
    except (FileNotFoundError, NotADirectoryError, NotRegularError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def count_in(path: str, name: str) -> int:
    """Return a whole number of a record; 0 if there is none."""
    found = (get(path) or {}).get(name, 0)
    return found if isinstance(found, int) else 0


def open_regular(path: str) -> int:
    """Open a plain file to read; who finds something else there never waits.

    Raises:
        NotRegularError: it is a link, a FIFO, a device.
        OSError: it cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotRegularError(f"{path} is no plain file") from None
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NotRegularError(f"{path} is no plain file")
    return file


def make_folder(path: str, mode: int = 0o711) -> None:
    """Make a folder and what lacks above it, with this mode whatever the umask.

    Users of jobs pass through it, and neither list it nor write to it.
    """
    if os.path.isdir(path):
        return
    make_folder(os.path.dirname(path), mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:  # somebody else was quicker
        return
    os.chmod(path, mode)


def own_folder(path: str) -> None:
    """Make a folder as above; let nobody else write to one that is there."""
    make_folder(path)
    found = os.lstat(path)
    if found.st_uid == os.geteuid() and found.st_mode & 0o022 and stat.S_ISDIR(found.st_mode):
        os.chmod(path, stat.S_IMODE(found.st_mode) & 0o755)


def folder_of(root: str, job: str, attempt: int) -> str:
    """Return where an attempt lives."""
    return f"{root}/jobs/{job}/{attempt}"


def hold(path: str, kind: int) -> int | None:
    """Return an open file with a flock on it; None if somebody else holds it."""
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, kind)
    except BlockingIOError:
        os.close(held)
        return None
    return held


def fifo(path: str, writer: int | None = None) -> int:
    """Return a FIFO to read from that never ends, since we could write to it too.

    Nobody else may write to it, but for the user with the id `writer`.
    """
    if not os.path.exists(path):
        os.mkfifo(path, 0o600)
    os.chmod(path, 0o600)
    if writer is not None:
        os.chown(path, writer, -1)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def tell(fifo: str, line: bytes) -> bool:
    """Write a line for whoever reads a FIFO; False if nobody does, or it is full."""
    try:
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(writer, line) == len(line)
        finally:
            os.close(writer)
    except OSError:
        return False


def kill(pid: int, number: int) -> bool:
    """Send a signal to a process or, if negative, a group; False if it is gone."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def processes(proc: str = "/proc") -> dict[int, int]:
    """Return the parents of all processes that live; a zombie does not."""
    parents = {}
    for name in sorted(os.listdir(proc)):
        if name.isdigit():
            try:
                with open(f"{proc}/{name}/stat", "rb") as file:
                    state, parent = file.read().rsplit(b")", 1)[1].split()[:2]
            except (OSError, IndexError):
                continue
            if state not in (b"Z", b"X", b"x"):
                parents[int(name)] = int(parent)
    return parents


def catches(pid: int, number: int) -> bool:
    """Say whether a process has a handler for a signal, or blocks it.

    srun blocks those that it waits for; and a signal that is blocked kills nobody.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            lines = [line.split() for line in file if line.startswith(("SigCgt:", "SigBlk:"))]
    except OSError:
        return False
    return any(int(mask, 16) >> (number - 1) & 1 for _, mask in lines)


def boot_id() -> str:
    """Return what tells this boot of the machine from all others."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
