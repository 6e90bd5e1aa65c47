"""What all processes of a node share: records, locks, FIFOs, and a look at other processes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ctypes import CDLL

LINE_BYTES_MAX = 4096
RECORD_BYTES_MOST = 1 << 20
_SPARE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_FRESH = _SPARE | os.O_CREAT | os.O_TRUNC


class NotRegularError(OSError):
    """What should be a plain file is something else."""


def put(path: str, record: Mapping[str, object], spare: str | None = None) -> None:
    """Write a record so that it is there whole, or not at all, after any crash.

    Args:
        path: where.
        record: what.
        spare: a file of ours that is to become the record: a full disk has room for what fits in
            it. It is gone afterwards, also where this fails.

    Raises:
        OSError: it cannot be written.
    """
    temporary = spare or f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        file = os.open(temporary, _SPARE if spare else _FRESH, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NotRegularError(f"{temporary} is no plain file")
            os.fchmod(file, 0o600)  # whatever the umask
            left = content = json.dumps(record).encode()  # `dump` is not written in C
            while left:
                left = left[os.write(file, left) :]
            os.ftruncate(file, len(content))
            os.fsync(file)
        finally:
            os.close(file)
        failpoint(f"put {path.rsplit('/', 1)[1]}")
        os.replace(temporary, path)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def put_unsynced(path: str, record: Mapping[str, object], mode: int = 0o600) -> None:
    """Write a record that need not outlive the machine: none of its processes does.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    with create_private(f"{path}.new") as file:
        file.write(json.dumps(record))  # `dump` is not written in C
        os.fchmod(file.fileno(), mode)
    os.replace(f"{path}.new", path)


def create_private(path: str) -> TextIO:
    """Open a file to write that nobody else can read, whatever the umask."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    os.fchmod(file, 0o600)
    return open(file, "w", encoding="utf-8")


def get(path: str) -> dict[str, object] | None:
    """Read a record; None if there is none, or what lies there is no record."""
    try:
        file = open_regular(path)
        try:
            size = min(os.fstat(file).st_size, RECORD_BYTES_MOST)
            content = os.read(file, size + 1)
        finally:
            os.close(file)
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


def is_at(file: int, path: str) -> bool:
    """Say whether an open file is the one that lies at a path."""
    held = os.fstat(file)
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)


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


def stat_of(pid: object, proc: str = "/proc") -> list[bytes]:
    """Return what /proc says of a process, from its state on; none: it is gone."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold blanks and parentheses.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def stands_still(pid: int) -> bool:
    """Say whether a process is stopped; one that has just ended is."""
    said = stat_of(pid)
    return not said or said[0] in b"TtZXx"


def processes(proc: str = "/proc") -> dict[int, int]:
    """Return the parents of all processes that live; a zombie does not."""
    parents = {}
    for name in filter(str.isdigit, sorted(os.listdir(proc))):
        said = stat_of(name, proc)
        if said and said[0] not in (b"Z", b"X", b"x"):
            parents[int(name)] = int(said[1])
    return parents


def below(pid: int, parents: Mapping[int, int]) -> list[int]:
    """Return all processes below one, given the parents of those of this machine."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found, todo = [], children.get(pid, [])
    while todo:
        found += todo
        todo = [child for each in todo for child in children.get(each, [])]
    return found


def listed_below(pid: int, proc: str = "/proc") -> list[int]:
    """Return the processes below one as the kernel lists them, maybe ended ones too.

    Raises:
        FileNotFoundError: this kernel does not list them.
    """
    found, todo = [], [pid]
    while todo:
        todo = [child for each in todo for child in _children(each, proc)]
        found += todo
    return found


def _children(pid: int, proc: str) -> list[int]:
    """Return the children of all threads of a process; none if it is gone."""
    found: list[int] = []
    try:
        threads = sorted(os.listdir(f"{proc}/{pid}/task"))
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"{proc}/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
        except FileNotFoundError:
            if os.path.exists(f"{proc}/{pid}/task/{thread}/stat"):
                raise
        except OSError:
            continue
    return found


def signal_pipe() -> int:
    """Return a pipe that gets readable with each signal that this process handles."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def reap_children() -> bool:
    """Bury the children that have ended; say whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return True
    return False


@lru_cache(maxsize=None)
def libc() -> CDLL:
    """Return the C library; a process that is forked has it from its parent."""
    import ctypes

    return ctypes.CDLL(None)


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


@lru_cache(maxsize=None)
def boot_id() -> str:
    """Return what tells this boot of the machine from all others."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


# Failpoints, before and after all that lasts, where tests make a process die.
#
#     SHUNTER_CRASH=NAME:FILE   the first process at point NAME makes FILE and kills itself
#     SHUNTER_CRASH=:FILE       all write into FILE which points they reach

_armed: list[str] = []


def arm_failpoint(setting: str) -> None:
    """Take a setting of SHUNTER_CRASH; an empty one disarms this process."""
    _armed[:] = setting.rpartition(":")[::2] if setting else ()


def is_armed() -> bool:
    """Say whether points mean anything, where naming them would cost something."""
    return bool(_armed)


def failpoint(name: str) -> None:
    """Mark a point; see above."""
    if _armed:
        _reached(name)


def _reached(name: str) -> None:
    wanted, path = _armed
    flags = os.O_WRONLY | os.O_CREAT
    if not wanted:
        file = os.open(path, flags | os.O_APPEND, 0o666)
        os.write(file, name.encode() + b"\n")
        os.close(file)
    elif name == wanted:
        try:
            file = os.open(path, flags | os.O_EXCL, 0o666)
        except FileExistsError:
            return
        os.write(file, str(os.getpid()).encode())
        os.kill(os.getpid(), signal.SIGKILL)


arm_failpoint(os.environ.get("SHUNTER_CRASH", ""))
