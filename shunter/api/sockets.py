"""The sockets of a daemon: taken before anything else is touched, and by one daemon only.

A socket in the file system stays behind when its daemon is killed, and does not show whether
somebody still listens. So a daemon holds a lock file while it lives, and only its holder may
replace the socket. A new socket is made under another name and moved into place, so that it never
has a wrong mode.
"""

import errno
import fcntl
import grp
import os
import socket
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shunter import clock
from shunter.addresses import LATELY_S, TOUCHED_EVERY_S, TcpAddress, UnixAddress, lock_of
from shunter.backends.node import make_folder
from shunter.config import ServerSection
from shunter.errors import ConfigError, RefusedError

BACKLOG = 2048
FOLDER_MODE = 0o700
SYSTEM_FOLDER_MODE = 0o755
_PROBE_S = 1.0


@dataclass(frozen=True)
class Listening:
    """A bound socket, and what clients call it by."""

    connection: socket.socket
    address: UnixAddress | TcpAddress
    was_up: threading.Event = field(default_factory=threading.Event)
    """Set once its daemon takes commands."""


@contextmanager
def listening(server: ServerSection) -> Iterator[Sequence[Listening]]:
    """Bind all addresses of a daemon; they take no connections yet.

    Raises:
        RefusedError: another daemon has one of them.
        ConfigError: one cannot be had.
    """
    with ExitStack() as held:
        bound = []
        for address in server.addresses:
            if isinstance(address, UnixAddress):
                bound.append(held.enter_context(_unix(address, server)))
            else:
                bound.append(
                    held.enter_context(listening_on(address, has_tls=server.tls is not None))
                )
        yield bound


@contextmanager
def _unix(address: UnixAddress, server: ServerSection) -> Iterator[Listening]:
    path = Path(address.path)
    _make_folder(path.parent)
    was_up = threading.Event()
    with _locked(path, was_up):
        _refuse_what_is_there(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            made = path.with_name(f".{path.name}.{os.getpid()}")
            made.unlink(missing_ok=True)
            try:
                connection.bind(str(made))
                _let_in(made, server)
                made.replace(path)
            except OSError as error:
                made.unlink(missing_ok=True)
                raise ConfigError(
                    f"server.listen: {address} cannot be had: {error.strerror or error}"
                ) from error
            ours = path.lstat().st_ino
            try:
                yield Listening(connection, address, was_up)
            finally:
                if path.exists() and path.lstat().st_ino == ours:
                    path.unlink()


def _make_folder(folder: Path) -> None:
    mode = SYSTEM_FOLDER_MODE if os.geteuid() == 0 else FOLDER_MODE
    try:
        make_folder(str(folder), mode)
    except OSError as error:
        raise ConfigError(f"server.listen: no folder {folder}: {error.strerror}") from error


@contextmanager
def _locked(path: Path, was_up: threading.Event) -> Iterator[None]:
    """Hold the lock beside a socket; it goes with the process, however that ends.

    The time of its file says when a daemon was there last (`addresses.was_there_lately`): a thread
    touches it, for the loop may be busy with a long log while clients ask. One that ends before it
    was up leaves the time that it found.
    """
    lock = lock_of(str(path))
    long_ago_ns = int((clock.wall_s() - 2 * LATELY_S) * 1e9)
    before_ns = Path(lock).stat().st_mtime_ns if Path(lock).exists() else long_ago_ns
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"server.listen: no lock {lock}: {error.strerror}") from error
    if not take_lock(descriptor):
        os.close(descriptor)
        raise RefusedError(
            f"another daemon listens on unix:{path}; talk to that one, stop it, "
            "or give this one another server.listen"
        )
    has_ended = threading.Event()
    touching = threading.Thread(target=_touch, args=(descriptor, has_ended), daemon=True)
    touching.start()
    try:
        yield
    finally:
        has_ended.set()
        touching.join()
        if not was_up.is_set():
            os.utime(descriptor, ns=(before_ns, before_ns))
        os.close(descriptor)


def take_lock(descriptor: int) -> bool:
    """Lock a file for this process alone; say whether no other daemon has it.

    Who only looks whether a daemon is there (`shunter up`) shares it for an instant.
    """
    while not _locks(descriptor, fcntl.LOCK_EX):
        if not _locks(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _locks(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _touch(descriptor: int, has_ended: threading.Event) -> None:
    """Say by the time of a file that its daemon lives, until that ends."""
    while True:
        with suppress(OSError):  # the disk is full: who asks takes the daemon for gone
            os.utime(descriptor)
        if has_ended.wait(TOUCHED_EVERY_S):
            return


def _refuse_what_is_there(path: Path) -> None:
    """Leave alone what is no socket, or one on which another program listens."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"server.listen: {path} is there and is no socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return  # whoever made it is gone
        except OSError as error:
            raise RefusedError(f"unix:{path} is somebody's: {error.strerror or error}") from error
    raise RefusedError(f"another program listens on unix:{path}; give this one another place")


def _let_in(path: Path, server: ServerSection) -> None:
    """Set who may open a socket, before it stands in its place."""
    if server.socket_group is not None:
        try:
            group = grp.getgrnam(server.socket_group).gr_gid
        except KeyError as error:
            raise ConfigError(
                f"server.socket_group: this machine has no group {server.socket_group!r}"
            ) from error
        os.chown(path, -1, group)
    path.chmod(int(server.socket_mode, 8))


@contextmanager
def listening_on(address: TcpAddress, *, has_tls: bool) -> Iterator[Listening]:
    """Bind a port; it takes no connections yet.

    Raises:
        RefusedError: another program has it.
        ConfigError: it cannot be had.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        connection = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"server.listen: {address}: {error}") from error
    with connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind(where)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise RefusedError(
                    f"another program listens on {address}; stop it, or take another port"
                ) from error
            raise ConfigError(f"server.listen: {address}: {error.strerror or error}") from error
        port = connection.getsockname()[1]
        yield Listening(connection, TcpAddress(address.host, port, has_tls))
