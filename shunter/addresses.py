"""Where a daemon listens: a unix socket or TCP, and where it usually does.

unix:PATH        a socket in the file system; the kernel tells the daemon who connects
unix:            the usual socket of this user
tcp:HOST:PORT    also http://HOST:PORT; https://HOST:PORT for one with TLS
"""

import os
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shunter import clock
from shunter.errors import UnreachableError, UsageError

SYSTEM_SOCKET = "/run/shunter/shunter.sock"
SOCKET_HOST = "shunter"
"""What clients of a socket put where a host must stand."""

SOCKET_BYTES_MOST = 107
"""A longer path does not fit into the kernel's `sun_path`, whose last byte is a zero."""

LATELY_S = 120.0
"""A daemon that was there so long ago may be restarting: it is waited for as long."""

TOUCHED_EVERY_S = 10.0
"""How often a daemon touches the lock beside its socket while it lives."""

SYSTEM_HOME = "/var/lib/shunter"
_CREDENTIALS = struct.Struct("3i")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")

_FORMS = "write unix:PATH, tcp:HOST:PORT, http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    @property
    def url(self) -> str:
        """What requests are made to; the host means little on a socket."""
        return f"http://{SOCKET_HOST}"

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True)
class TcpAddress:
    """A host and a port, with TLS or without."""

    host: str
    port: int
    has_tls: bool = False

    @property
    def url(self) -> str:
        """What requests are made to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


def usual_socket(environ: Mapping[str, str] | None = None, uid: int | None = None) -> str:
    """Return where a daemon of this user listens if nothing else is said."""
    if (os.getuid() if uid is None else uid) == 0:
        return SYSTEM_SOCKET
    variables = os.environ if environ is None else environ
    folder = variables.get("XDG_RUNTIME_DIR") or str(_folder_at_home())
    return f"{folder}/shunter.sock"


def _folder_at_home() -> Path:
    try:
        return Path.home() / ".shunter"
    except RuntimeError as error:
        raise UsageError(
            f"user {os.getuid()} has no home here: set HOME, or SHUNTER_HOME and SHUNTER_URL"
        ) from error


def host_name() -> str:
    """Return the name of this machine, without its domain, as a server may be called."""
    return _NO_NAME.sub("-", socket.gethostname().partition(".")[0]).strip("-._") or "node"


def home_of_up(environ: Mapping[str, str] | None = None, uid: int | None = None) -> Path:
    """Return the folder of the cluster that `shunter up` runs for this user here.

    SHUNTER_HOME, or a folder of the machine's name: many machines may share the home of a user.
    Root's jobs are those of all users, who could not enter its home.
    """
    variables = os.environ if environ is None else environ
    if named := variables.get("SHUNTER_HOME", ""):
        return Path(named).absolute()
    is_root = (os.getuid() if uid is None else uid) == 0
    return (Path(SYSTEM_HOME) if is_root else _folder_at_home()) / host_name()


def socket_of_up(environ: Mapping[str, str] | None = None, uid: int | None = None) -> str:
    """Return where the daemon of `shunter up` listens.

    Not in XDG_RUNTIME_DIR: that folder is removed when the user has logged out everywhere, and the
    daemon lives on. For root it is the socket that the clients of all users look for.
    """
    variables = os.environ if environ is None else environ
    if (os.getuid() if uid is None else uid) == 0 and not variables.get("SHUNTER_HOME", ""):
        return SYSTEM_SOCKET
    return f"{home_of_up(variables, uid)}/shunter.sock"


def usual_sockets(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return where commands look for a daemon that nothing names, in this order."""
    variables = os.environ if environ is None else environ
    if variables.get("SHUNTER_HOME", ""):
        return (socket_of_up(variables),)
    return tuple(dict.fromkeys((usual_socket(variables), socket_of_up(variables), SYSTEM_SOCKET)))


def parse_address(text: str) -> UnixAddress | TcpAddress:
    """Return the address that a text names.

    Raises:
        UsageError: it names none.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:") or usual_socket()
        if not path.startswith("/"):
            raise UsageError(f"{text}: expected an absolute path, such as unix:{SYSTEM_SOCKET}")
        if len(os.fsencode(path)) > SOCKET_BYTES_MOST:
            raise UsageError(
                f"{text}: expected a path of {SOCKET_BYTES_MOST} bytes at most, as sockets allow"
            )
        return UnixAddress(path)
    url = text.replace("tcp:", "http://", 1) if text.startswith("tcp:") else text
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{text!r} is no address of a daemon ({error}): {_FORMS}") from error
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} has no port from 0 to 65535: {_FORMS}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise UsageError(f"{text!r} is no address of a daemon: {_FORMS}")
    has_tls = parts.scheme == "https"
    if port is None:
        raise UsageError(f"{text!r} names no port: {_FORMS}")
    try:
        parts.hostname.encode("idna")
    except UnicodeError as error:
        raise UsageError(f"{text!r} names no host that there can be ({error}): {_FORMS}") from error
    return TcpAddress(parts.hostname, port, has_tls)


def lock_of(socket_path: str) -> str:
    """Return the lock beside a daemon's socket; the file stays when it ends."""
    return f"{socket_path}.lock"


def has_been_used(socket_path: str) -> bool:
    """Say whether a daemon listens on a socket, or did once."""
    return any(map(os.path.exists, (socket_path, lock_of(socket_path))))


def was_there_lately(address: UnixAddress | TcpAddress) -> bool:
    """Say whether a daemon was there a moment ago, and so may be restarting.

    A daemon touches the lock beside its socket as long as it lives. Of one at another machine
    nothing can be seen from here: who names it expects one there.
    """
    if isinstance(address, TcpAddress):
        return True
    try:
        touched_s = Path(lock_of(address.path)).stat().st_mtime
    except OSError:
        return False
    return abs(clock.wall_s() - touched_s) <= LATELY_S  # the clock may have been set back


def find_address(
    given: str | None = None, environ: Mapping[str, str] | None = None, *, own_only: bool = False
) -> UnixAddress | TcpAddress:
    """Return the address to talk to: given, by SHUNTER_URL or SHUNTER_HOME, or usual.

    SHUNTER_HOME means its daemon alone: a typing error in it must end no other one. Without it a
    daemon of one's own comes before that of the whole machine, and one that answers now before one
    that did once and may be restarting.

    Args:
        given: what the command line says.
        environ: the variables.
        own_only: of a user who ever had a daemon of his own, only such a one is meant.
    Raises:
        UsageError: what is given names no address.
        UnreachableError: nothing is given, and no daemon was ever at the usual places.
    """
    variables = os.environ if environ is None else environ
    text = given or variables.get("SHUNTER_URL", "")
    if text:
        return parse_address(text)
    usual = usual_sockets(variables)
    if variables.get("SHUNTER_HOME", ""):
        return parse_address(f"unix:{usual[0]}")
    used = [UnixAddress(path) for path in usual if has_been_used(path)]
    if own_only and used and used[0].path != SYSTEM_SOCKET:
        used = [address for address in used if address.path != SYSTEM_SOCKET]
    if not used:
        raise UnreachableError(
            "no daemon is running on this machine: `shunter up` starts one; one elsewhere is named "
            "with --url or SHUNTER_URL"
        )
    for is_right in (_takes_connections, was_there_lately) if len(used) > 1 else ():
        if found := next(filter(is_right, used), None):
            return found
    return used[0]


def is_listening(address: UnixAddress) -> bool:
    """Say whether a program listens on a socket.

    Raises:
        PermissionError: it is not for this user.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(address.path)
        except BlockingIOError:
            return True  # so many wait to be let in that there is no room for one more
        except PermissionError:
            raise
        except OSError:
            return False
    return True


def listening_process(address: UnixAddress) -> int | None:
    """Return the process that listens on a socket; None: none.

    It is 0 where it is in another container.

    Raises:
        PermissionError: it is not for this user.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address.path)
        except PermissionError:
            raise
        except OSError:  # nobody listens, or no socket can be there
            return None
        said = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(said)[0]
    return pid


def _takes_connections(address: UnixAddress) -> bool:
    """Say whether a program listens on a socket, and this user may connect to it."""
    try:
        return is_listening(address)
    except PermissionError:
        return False
