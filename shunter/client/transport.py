"""Connections to a daemon, and what becomes of those that fail."""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from shunter.addresses import TcpAddress, UnixAddress, find_address
from shunter.client.asks import token_from
from shunter.errors import RefusedError, UnreachableError, UsageError

__all__ = ["TIMEOUT", "WAIT_READ_S", "Settings", "named"]

CONNECT_S = 5.0
READ_S = 60.0
WAIT_READ_S = 90.0
"""Longer than a daemon stays silent while somebody waits or follows."""

TIMEOUT = httpx.Timeout(READ_S, connect=CONNECT_S)


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

    def of_client(self) -> dict[str, Any]:
        """Return what httpx clients of both kinds are made with.

        Proxies of the environment are passed by: they are for the world, not for this machine.
        """
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        return {
            "base_url": self.address.url,
            "headers": headers,
            "timeout": TIMEOUT,
            "trust_env": False,
        }

    def of_transport(self) -> dict[str, Any]:
        """Return what transports of both kinds are made with.

        Raises:
            UsageError: the file of trusted certificates cannot be read.
        """
        if isinstance(self.address, UnixAddress):
            return {"uds": self.address.path, "verify": False}
        if not self.address.has_tls:
            return {"verify": False}
        try:
            return {"verify": ssl.create_default_context(cafile=self._ca_file)}
        except OSError as error:
            raise UsageError(f"{self._ca_file}: no certificates to trust: {error}") from error


@contextmanager
def named(address: UnixAddress | TcpAddress) -> Iterator[None]:
    """Turn failures to reach a daemon into errors of ours, which say what to do.

    Raises:
        UnreachableError: nobody answers.
        RefusedError: the socket is not for this user.
    """
    try:
        yield
    except httpx.TransportError as error:
        if _is_forbidden(error):
            raise RefusedError(
                f"{address} may not be opened by this user; see server.socket_mode"
            ) from error
        what = str(error) or type(error).__name__
        raise UnreachableError(
            f"no daemon answers on {address} ({what}); start one with `shunter serve CONFIG.toml`, "
            "or name another one with --url or SHUNTER_URL"
        ) from error


def _is_forbidden(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PermissionError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
