"""Connections: whose they are, how they are cut, and how long one may take to ask.

uvicorn hides a connection's socket from the application, so a protocol class of ours asks the
kernel once for each connection and hands the answer on in the request's scope.
"""

import asyncio
import os
import socket
import struct
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from shunter.api.slow_readers import CUT

PEER = "shunter.peer"
HEAD_S = 20.0
"""Within so many seconds a connection has said what it wants, its body within twice that."""

SHARE = 4
"""One user has at most so great a part, one in so many, of the connections there may be."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a unix socket, as it was when it connected."""

    pid: int
    uid: int
    gid: int


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that tells the application who is at the other end of a unix socket."""

    _timer: asyncio.TimerHandle | None = None
    _unfinished: object = ""
    peer: Peer | None = None

    def connection_made(self, transport: Any) -> None:
        """Ask the kernel, once for all requests of the connection."""
        super().connection_made(transport)
        self._unfinished = self._being_told()
        self._timer = self.loop.call_later(HEAD_S, self._end_if_slow)
        added: dict[str, object] = {CUT: transport.abort}
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            size = _CREDENTIALS.size
            found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            added[PEER] = self.peer = Peer(*_CREDENTIALS.unpack(found))
            self._end_if_many(self.peer)
        app = self.app

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            extensions = {**scope.get("extensions", {}), **added}
            await app({**scope, "extensions": extensions}, receive, send)

        self.app = with_connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a connection that speaks no HTTP is cut."""
        try:
            super().data_received(data)
        except (h11.ProtocolError, ValueError):  # a target that is no ASCII, say
            self.transport.abort()

    def _end_if_slow(self) -> None:
        """End a connection that still tells what it told a while ago; look again later."""
        now = self._being_told()
        if now is not None and now == self._unfinished:
            self.transport.abort()
            return
        self._unfinished = now
        self._timer = self.loop.call_later(HEAD_S, self._end_if_slow)

    def _being_told(self) -> tuple[int, str] | None:
        """Return which head or body is still to come; None: all that is due came."""
        cycle = getattr(self, "cycle", None)  # typed as if there always were one
        if self.flow.read_paused:
            return None
        if self.conn.their_state is h11.SEND_BODY:
            return id(cycle), "body"
        is_begun = cycle is None or bool(self.conn.trailing_data[0])
        return (id(cycle), "head") if self.conn.their_state is h11.IDLE and is_begun else None

    def _end_if_many(self, peer: Peer) -> None:
        """End a connection of a user who has a great part of all there may be."""
        if self.limit_concurrency is None or peer.uid in (0, os.geteuid()):
            return
        others = [one.peer for one in self.connections if isinstance(one, PeerProtocol)]
        if sum(one is not None and one.uid == peer.uid for one in others) > max(
            1, self.limit_concurrency // SHARE
        ):
            self.transport.write(_FULL)
            self.transport.close()
