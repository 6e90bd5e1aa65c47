"""Where a daemon listens: a unix socket or TCP, and where it usually does.

unix:PATH        a socket in the file system; the kernel tells the daemon who connects
unix:            the usual socket of this user
tcp:HOST:PORT    also http://HOST:PORT; https://HOST:PORT for one with TLS
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shunter.errors import UnreachableError, UsageError

__all__ = [
    "SOCKET_HOST",
    "SYSTEM_SOCKET",
    "TcpAddress",
    "UnixAddress",
    "find_address",
    "has_been_used",
    "lock_of",
    "parse_address",
    "usual_socket",
]

SYSTEM_SOCKET = "/run/shunter/shunter.sock"
SOCKET_HOST = "shunter"
"""What clients of a socket put where a host must stand."""

SOCKET_BYTES_MOST = 107
"""A longer path does not fit into the kernel's `sun_path`, whose last byte is a zero."""

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
    folder = variables.get("XDG_RUNTIME_DIR") or str(Path.home() / ".shunter")
    return f"{folder}/shunter.sock"


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
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} has no port from 0 to 65535: {_FORMS}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise UsageError(f"{text!r} is no address of a daemon: {_FORMS}")
    has_tls = parts.scheme == "https"
    if port is None:
        raise UsageError(f"{text!r} names no port: {_FORMS}")
    return TcpAddress(parts.hostname, port, has_tls)


def lock_of(socket_path: str) -> str:
    """Return the lock beside a daemon's socket; the file stays when it ends."""
    return f"{socket_path}.lock"


def has_been_used(socket_path: str) -> bool:
    """Say whether a daemon listens on a socket, or did once."""
    return any(map(os.path.exists, (socket_path, lock_of(socket_path))))


def find_address(
    given: str | None = None, environ: Mapping[str, str] | None = None
) -> UnixAddress | TcpAddress:
    """Return the address to talk to: as given, by SHUNTER_URL, or the usual socket.

    A daemon of one's own comes before that of the whole machine, and one that answers now before
    one that did once and may be starting anew.

    Raises:
        UsageError: what is given names no address.
        UnreachableError: nothing is given, and no daemon was ever at the usual places.
    """
    variables = os.environ if environ is None else environ
    text = given or variables.get("SHUNTER_URL", "")
    if text:
        return parse_address(text)
    usual = tuple(dict.fromkeys((usual_socket(variables), SYSTEM_SOCKET)))
    for path in (*filter(os.path.exists, usual), *filter(has_been_used, usual)):
        return UnixAddress(path)
    raise UnreachableError(
        f"no daemon is running: there is no socket {' or '.join(usual)}; start one with "
        "`shunter serve CONFIG.toml`, or name one with --url or SHUNTER_URL"
    )
