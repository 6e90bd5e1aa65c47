"""Daemons in the background: start one and wait until it answers, find it, end it."""

import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shunter.addresses import TcpAddress, UnixAddress, lock_of

SLOW_S = 10.0
"""After so long it is said once that a daemon is still at it."""

MESSAGES_MOST = 1_000_000
"""A file of messages that is longer is moved out of the way at the next start."""

_CREDENTIALS = struct.Struct("3i")
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND
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
def one_at_a_time(config: Path) -> Iterator[None]:
    """Wait until no other command starts a daemon of a config; keep others from it."""
    folder = os.open(config.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def start(config: Path, slow: Callable[[int], None]) -> int | Ended:
    """Start a daemon in a session of its own; return its id once it takes commands.

    Args:
        config: an absolute path.
        slow: called once with the process id, if that takes long.
    """
    path = messages_of(config)
    if path.exists() and path.stat().st_size > MESSAGES_MOST:
        path.replace(path.with_suffix(".messages.old"))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
        os.fdopen(os.open(path, _APPENDING, 0o600), "ab") as messages,
    ):
        told.bind("")  # the kernel gives it an abstract name
        begin = messages.seek(0, os.SEEK_END)
        name = told.getsockname().decode("ascii").replace("\0", "@", 1)
        daemon = subprocess.Popen(
            serve_words(config),
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=messages,
            cwd=config.parent,
            env={**os.environ, "NOTIFY_SOCKET": name},
            start_new_session=True,
        )
        ended = os.pidfd_open(daemon.pid)
        try:
            if _is_ready(told, ended, lambda: slow(daemon.pid)):
                return daemon.pid
        finally:
            os.close(ended)
    with path.open("rb") as file:
        file.seek(begin)
        said = file.read().decode("utf-8", "replace").strip()
    return Ended(daemon.wait(), said)


def _is_ready(told: socket.socket, ended: int, slow: Callable[[], None]) -> bool:
    """Wait until a daemon says that it takes commands, or has ended; say which."""
    wait_s: float | None = SLOW_S
    while True:
        happened, _, _ = select.select([told.fileno(), ended], [], [], wait_s)
        if told.fileno() in happened:
            if _READY in told.recv(4096).splitlines():
                return True
        elif happened:
            return False
        else:
            slow()
            wait_s = None


def pid_at(addresses: Sequence[UnixAddress | TcpAddress]) -> tuple[int, UnixAddress] | None:
    """Return the process that listens on one of the sockets, and on which.

    Raises:
        PermissionError: a socket is not for this user.
    """
    for address in addresses:
        if isinstance(address, TcpAddress):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(address.path)
            except (ConnectionRefusedError, FileNotFoundError):
                continue
            told = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return _CREDENTIALS.unpack(told)[0], address
    return None


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
        os.utime(lock_of(address.path), (0, 0))
