"""Connections: whose they are, how they are cut, and how long one may say nothing.

uvicorn hides a connection's socket from the application, so a protocol class of ours asks the
kernel once for each connection and hands the answer on in the request's scope.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from shunter.app.api.slow_readers import CUT

__all__ = ["PEER", "Peer", "PeerProtocol"]

PEER = "shunter.peer"
HEAD_S = 20.0
"""Within so many seconds a connection has said what it wants."""

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a unix socket, as it was when it connected."""

    pid: int
    uid: int
    gid: int


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application who is at the other end of a unix socket."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Ask the kernel, once for all requests of the connection."""
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD_S, self._end_if_silent)
        added: dict[str, Any] = {CUT: transport.abort}
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            size = _CREDENTIALS.size
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            added[PEER] = Peer(*_CREDENTIALS.unpack(found))
        app = self.app

        async def with_connection(scope: Any, receive: Any, send: Any) -> None:
            extensions = {**scope.get("extensions", {}), **added}
            await app({**scope, "extensions": extensions}, receive, send)

        self.app = with_connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._head is not None:
            self._head.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a connection that speaks no HTTP is cut."""
        try:
            super().data_received(data)
        except (h11.ProtocolError, ValueError):  # a target that is no ASCII, say
            self.transport.abort()

    def _end_if_silent(self) -> None:
        if getattr(self, "cycle", None) is None:  # typed as if there always were one
            self.transport.abort()
