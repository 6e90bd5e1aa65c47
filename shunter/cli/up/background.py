"""Daemons in the background: start one and wait until it answers, find it, end it."""

import errno
import fcntl
import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shunter import clock
from shunter.addresses import LATELY_S, TcpAddress, UnixAddress, listening_process, lock_of

LOOK_S = 0.1
"""How often a daemon that starts or ends by itself is looked at."""

SLOW_S = 10.0
"""After so long it is said once that a daemon is still at it."""

MESSAGES_MOST = 1_000_000
"""A file of messages that is longer is moved out of the way at the next start."""

NO_FILE = "expected a file for what the daemon says: move away what is there"

_CREDENTIALS = struct.Struct("3i")
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ACCEPTS = 0x10000
_BOUND = re.compile(r"(/.*)/\.[^/]+\.([0-9]{1,9})")
_READY = b"READY=1"


@dataclass(frozen=True)
class Ended:
    """A daemon that ended before it took commands."""

    exit_code: int
    messages: str


def messages_of(config: Path) -> Path:
    """Return the file beside a config into which a daemon in the background writes."""
    return config.with_suffix(".messages")


def serve_words(config: Path) -> list[str]:
    """Return the command that serves a config with this Python."""
    return [sys.executable, "-P", "-m", "shunter", "serve", str(config)]


@contextmanager
def one_at_a_time(config: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Wait until no other command starts a daemon of this folder; keep others off.

    Args:
        config: an absolute path.
        busy: called if there is one.
    """
    folder = os.open(config.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def start(config: Path, slow: Callable[[int], None]) -> int | Ended:
    """Start a daemon in a session of its own; return its id once it takes commands.

    Args:
        config: an absolute path.
        slow: called once with the process id, if that takes long.
    Raises:
        OSError: its messages cannot be written, or no process be started.
    """
    path = messages_of(config)
    if path.exists() and path.stat().st_size > MESSAGES_MOST:
        path.replace(path.with_suffix(".messages.old"))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
        os.fdopen(_opened(path), "ab") as messages,
    ):
        told.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        told.bind("")  # the kernel gives it an abstract name, which all users may send to
        begin = messages.seek(0, os.SEEK_END)
        name = told.getsockname().decode("ascii").replace("\0", "@", 1)
        daemon = subprocess.Popen(
            serve_words(config),
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            cwd=config.parent,
            env={**os.environ, "NOTIFY_SOCKET": name},
            umask=_umask() | stat.S_IWOTH,
            start_new_session=True,
        )
        ended = os.pidfd_open(daemon.pid)
        try:
            if _is_ready(told, ended, daemon.pid, lambda: slow(daemon.pid)):
                return daemon.pid
        finally:
            os.close(ended)
    with path.open("rb") as file:
        file.seek(begin)
        said = file.read().decode("utf-8", "replace").strip()
    return Ended(daemon.wait(), said)


def _opened(path: Path) -> int:
    """Open the file into which a daemon writes, without waiting where it is a pipe.

    Raises:
        OSError: it cannot be written, or is a pipe or a folder.
    """
    try:
        descriptor = os.open(path, _APPENDING | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.EISDIR):
            raise
        raise OSError(error.errno, NO_FILE, str(path)) from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISCHR(kind):  # as /dev/null is
        os.close(descriptor)
        raise OSError(errno.ENXIO, NO_FILE, str(path))
    os.set_blocking(descriptor, True)
    return descriptor


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def _is_ready(told: socket.socket, ended: int, pid: int, slow: Callable[[], None]) -> bool:
    """Wait until a daemon says that it takes commands, or has ended; say which."""
    wait_s: float | None = SLOW_S
    while True:
        happened, _, _ = select.select([told.fileno(), ended], [], [], wait_s)
        if told.fileno() in happened:
            said, added, _, _ = told.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
            by = [_CREDENTIALS.unpack(data)[0] for _, _, data in added]
            if by == [pid] and _READY in said.splitlines():
                return True
        elif happened:
            return False
        else:
            slow()
            wait_s = None


def found_at(
    addresses: Sequence[UnixAddress | TcpAddress], busy: Callable[[], None]
) -> tuple[int, UnixAddress] | None:
    """Return what `pid_at` does, but wait for a daemon that is starting or ending.

    Args:
        addresses: where it may listen.
        busy: called once if there is such a daemon.
    Raises:
        PermissionError: a socket is not for this user.
    """
    sockets = [each for each in addresses if isinstance(each, UnixAddress)]
    is_first = True
    while (found := pid_at(sockets)) is None and any(map(_is_taken, sockets)):
        if is_first:
            busy()
        is_first = False
        time.sleep(LOOK_S)
    return found


def _is_taken(address: UnixAddress) -> bool:
    """Say whether a daemon holds the lock of a socket, whether or not it listens."""
    try:
        lock = os.open(lock_of(address.path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def pid_at(addresses: Sequence[UnixAddress | TcpAddress]) -> tuple[int, UnixAddress] | None:
    """Return the process that listens on one of the sockets, and on which.

    The process is 0 where it is in another container.

    Raises:
        PermissionError: a socket is not for this user.
    """
    for address in addresses:
        if isinstance(address, UnixAddress) and (pid := listening_process(address)) is not None:
            return pid, address
    return None


def others(pid: int) -> list[tuple[int, str]]:
    """Return the other daemons that listen here: process, and folder of the socket.

    Any user may read of all sockets by what name they were bound (`serving.sockets`): with the
    process, since they are moved into place. Those of other containers are not among them.
    """
    found = []
    for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]:
        parts = line.split(maxsplit=7)
        bound = _BOUND.fullmatch(parts[-1]) if len(parts) == 8 else None
        if bound is None or not int(parts[3], 16) & _ACCEPTS or int(bound[2]) == pid:
            continue
        with suppress(OSError):
            words = Path(f"/proc/{bound[2]}/cmdline").read_bytes().split(b"\0")
            if b"serve" in words:
                found.append((int(bound[2]), bound[1]))
    return sorted(found)


def end(pid: int, slow: Callable[[], None]) -> None:
    """Ask a daemon to end, and wait until it has.

    Raises:
        PermissionError: it is another user's.
    """
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        happened, _, _ = select.select([ended], [], [], SLOW_S)
        if not happened:
            slow()
            select.select([ended], [], [])
    except ProcessLookupError:
        return
    finally:
        os.close(ended)


def forget(address: UnixAddress) -> None:
    """Let clients no longer wait for a daemon, which was ended for good."""
    with suppress(OSError):  # another user's, or gone: they wait for two minutes
        long_ago_s = clock.wall_s() - 2 * LATELY_S
        os.utime(lock_of(address.path), (long_ago_s, long_ago_s))
