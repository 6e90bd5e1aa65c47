"""Where a client connects to and as whom, and what becomes of connections that fail."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shunter import __version__
from shunter.addresses import (
    TcpAddress,
    UnixAddress,
    find_address,
    has_been_used,
    listening_process,
)
from shunter.client.requests import in_a_header, token_from
from shunter.errors import (
    RefusedError,
    ShunterError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_S = 5.0
READ_S = 60.0
WAIT_READ_S = 90.0
SLOW_READ_S = 600.0
"""Longer than a daemon stays silent while somebody waits, follows events, or has much computed."""

_KEEPALIVE = (
    ("SO_KEEPALIVE", socket.SOL_SOCKET, 1),
    ("TCP_KEEPIDLE", socket.IPPROTO_TCP, 60),
    ("TCP_KEEPINTVL", socket.IPPROTO_TCP, 10),
    ("TCP_KEEPCNT", socket.IPPROTO_TCP, 6),
)
"""So that one who follows finds out within two minutes that the daemon's host is gone."""

SLOW_S = 5.0
"""After so long it is said that a daemon has not answered yet."""


class LinkError(Exception):
    """A connection to a daemon failed: what each client makes of its failures."""


class NotConnectedError(LinkError):
    """There was no connection; its cause says why."""


class ConnectTimeoutError(LinkError):
    """There was no connection within CONNECT_S."""


class NoAnswerError(LinkError):
    """What answers was silent for too long."""


class CutError(LinkError):
    """The connection ended before the answer did."""


class NotHttpError(LinkError):
    """What came is no answer of HTTP."""


class Settings:
    """Where a client connects to and as whom; made once for both kinds of client."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        ca_file: str | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        variables = os.environ if environ is None else environ
        self.address: UnixAddress | TcpAddress = find_address(url, variables)
        self._ca_file = ca_file or variables.get("SHUNTER_CA_FILE")
        self._token = token
        if token is None and isinstance(self.address, TcpAddress):
            self._token = token_from(variables)
        if self._token is not None and not in_a_header(self._token):
            raise UsageError("the token: expected printable ASCII, as headers hold it")

    @property
    def headers(self) -> dict[str, str]:
        """What every request says of where it goes and who sends it."""
        host = self.address.url.partition("://")[2]
        if not host.isascii():
            host = host.encode("idna").decode()
        token = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        return {"Host": host, "User-Agent": f"shunter/{__version__}", **token}

    def socket_options(self) -> list[tuple[int, int, int]]:
        """Return what is set of a socket of TCP."""
        alive = [
            (level, getattr(socket, name), value)
            for name, level, value in _KEEPALIVE
            if hasattr(socket, name)
        ]
        return [*alive, (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]

    def tls(self) -> "SSLContext | None":
        """Return how TLS is spoken; None: it is not.

        Raises:
            UsageError: the file of trusted certificates cannot be read.
        """
        if isinstance(self.address, UnixAddress) or not self.address.has_tls:
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise UsageError(f"{self._ca_file}: no certificates to trust: {error}") from error


@contextmanager
def named(address: UnixAddress | TcpAddress, *, changes: bool = False) -> Iterator[None]:
    """Raise errors that say what the failures of a connection are.

    Args:
        address: where the connection leads.
        changes: whether what is asked for changes something.
    Raises:
        UnavailableError: nobody answers now, or who did went away: ask again.
        UnreachableError: it took too long, or what answers is no daemon.
        RefusedError: the socket is not for this user.
    """
    try:
        yield
    except LinkError as error:
        raise _error_of(address, error, changes=changes) from error


def is_open(error: UnreachableError) -> bool:
    """Say whether what was asked for was sent and not answered: it may be done."""
    sent = (NoAnswerError, CutError, NotHttpError)
    return any(isinstance(cause, sent) for cause in _causes(error))


def process_words(address: UnixAddress | TcpAddress) -> str:
    """Return which process listens on a socket, in brackets, if that is known."""
    pid = _process(address)
    return f" (process {pid})" if pid else ""


def _process(address: UnixAddress | TcpAddress) -> int:
    try:
        return (isinstance(address, UnixAddress) and listening_process(address)) or 0
    except PermissionError:
        return 0


def _error_of(
    address: UnixAddress | TcpAddress, error: LinkError, *, changes: bool
) -> ShunterError:
    what, causes = str(error) or type(error).__name__, tuple(_causes(error))
    if any(isinstance(cause, PermissionError) for cause in causes):
        return RefusedError(
            f"{address} may not be opened by this user: its owner lets all in with "
            '`socket_mode = "0666"` below [server] of its config and a restart; `shunter up` '
            "starts a daemon of your own"
        )
    if isinstance(error, ConnectTimeoutError):
        return UnreachableError(
            f"{address} took no connection within {CONNECT_S:g} s: its host is down, or something "
            "between here and there is in the way"
        )
    if isinstance(error, NoAnswerError):
        done = "; it may have done what was asked all the same" if changes else ""
        pid = _process(address)
        remedy = f"; `kill -9 {pid}` ends it and no job, then `shunter up`" if pid else ""
        return UnreachableError(
            f"the daemon on {address} did not answer in time ({what}){done}: it is busy or "
            f"stopped{remedy}"
        )
    if isinstance(error, CutError):
        return UnavailableError(f"the daemon on {address} went away while it answered")
    if not isinstance(error, NotConnectedError):
        return UnreachableError(f"what answers on {address} is no daemon of Shunter's ({what})")
    if any(_is_of_tls(cause) for cause in causes):
        return UnreachableError(
            f"no trusted connection to {address} ({what}); SHUNTER_CA_FILE names certificates to "
            "trust"
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return UnreachableError(f"nobody knows the host of {address} ({what})")
    kind = UnavailableError if _has_been_there(address) else UnreachableError
    return kind(
        f"no daemon answers on {address} ({what}); `shunter up` or `shunter serve CONFIG.toml` "
        "starts one, --url or SHUNTER_URL names another"
    )


def _is_of_tls(error: BaseException) -> bool:
    """Say whether an error is of TLS, for which alone `ssl` is imported."""
    return any(kind.__module__ == "ssl" for kind in type(error).__mro__)


def _has_been_there(address: UnixAddress | TcpAddress) -> bool:
    """Say whether a daemon listened there once, as far as can be seen from here."""
    return isinstance(address, TcpAddress) or has_been_used(address.path)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
