"""Where pilots dial in: a listener that speaks TLS 1.3 with holders of our certificates only.

    pilot ──TCP──▶ TLS, both certificates ──▶ name and serial wanted? ──▶ hello ──▶ nonce, session

Who the pilot is, its certificate says; what it says itself decides nothing but which process of it
is there. The bytes that follow are those of the RPC session (`node.remote.session`), handed over as
a stream that ends as an SSH channel does: a connection that is lost raises nothing by itself.

One pilot has one connection. A second one of the same process proves that the first is dead, since
a pilot opens none before it has closed the other: it wins at once. One of another process (a copied
file, a job that Slurm has requeued) is refused while the first lives, and wins once nothing has
come from that for `silent_s`; else two of them would take the node from each other for ever.

Who knows no key costs little: a connection must be authenticated within `handshake_s`, and of
`half_open_max` that are not, the oldest makes room for the next.
"""

import json
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio
import msgspec
from anyio.abc import (
    ByteStream,
    Listener,
    SocketAttribute,
    SocketListener,
    SocketStream,
    TaskStatus,
)
from anyio.streams.tls import TLSAttribute, TLSStream

from shunter import clock
from shunter.backends.node.pilots.pilot_connection import PILOT_LINE_BYTES_MOST, PILOT_VERSION
from shunter.backends.slurm.pilots.certificates import (
    ClusterAuthority,
    PilotCertificate,
    subject_of,
)

READ_BYTES = 1 << 16
ACCEPT_PAUSE_S = 0.1
YOUNG_S = 1.0
SHOWN_CHARACTERS = 200
LOST = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class PilotHello(msgspec.Struct, frozen=True):
    """What a pilot says first: what it wants, and which process and Slurm job it is."""

    version: int
    do: Literal["serve", "drain"]
    instance: str
    job: str = ""
    node: str = ""
    why: str = ""
    left_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Where to listen, and the bounds on who knows no key.

    Args:
        host: the address to listen on; None for all.
        port: 0 for any that is free.
        handshake_s: within which a connection is authenticated, or closed.
        silent_s: a pilot from which nothing came for so long may be replaced by another process.
        half_open_max: how many connections may be unauthenticated at once.
    """

    host: str | None = None
    port: int = 0
    handshake_s: float = 10.0
    silent_s: float = 20.0
    half_open_max: int = 256


class PilotObserver(Protocol):
    """Receives what becomes of pilots."""

    async def connected(self, stream: "PilotStream") -> None:
        """Serve a pilot; its connection is closed on return.

        For one pilot this is never under way twice.
        """

    def draining(self, name: str, why: str, left_s: float) -> None:
        """Handle a pilot that Slurm is about to end: it suspends its jobs by itself."""

    def refused(self, peer: str, cause: str) -> None:
        """Handle somebody who was not let in; for a log that bounds itself."""


class PilotStream(ByteStream):
    """The bytes of one pilot's RPC session; any end of them is `EndOfStream`."""

    def __init__(self, tls: TLSStream, name: str, hello: PilotHello, rest: bytes) -> None:
        self.name, self.hello = name, hello
        self.nonce = secrets.token_hex(8)
        self.cause = ""
        self.heard_s = clock.monotonic_s()
        self.over = anyio.Event()
        self._tls, self._rest = tls, rest
        self._sending = anyio.Lock()

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        if self._rest:
            found, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
            return found
        try:
            found = await self._tls.receive(max_bytes)
        except LOST as error:
            self.cause = self.cause or f"the connection to pilot {self.name} was lost"
            raise anyio.EndOfStream from error
        self.heard_s = clock.monotonic_s()
        return found

    async def send(self, item: bytes) -> None:
        try:
            async with self._sending:  # TLS takes one at a time
                await self._tls.send(item)
        except (OSError, anyio.ClosedResourceError) as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """End the session: its input ends with the connection."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close at once; no answer is waited for."""
        self.cause = self.cause or "the channel was closed"
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._tls)

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of TLS and of the socket."""
        return self._tls.extra_attributes


class PilotListener:
    """Listens for the pilots that are wanted, and hands their streams over."""

    def __init__(
        self, authority: ClusterAuthority, observer: PilotObserver, settings: ListenerSettings
    ) -> None:
        self._context = authority.server_context()
        self._observer, self._settings = observer, settings
        self._wanted: dict[str, int] = {}
        self._live: dict[str, PilotStream] = {}
        self._half_open: dict[anyio.CancelScope, float] = {}

    def admit(self, certificate: PilotCertificate) -> None:
        """Let a pilot in from now on, with this certificate and none before it."""
        self._wanted[certificate.name] = certificate.serial

    async def revoke(self, name: str) -> None:
        """Let a pilot in no more, and close its connection."""
        self._wanted.pop(name, None)
        stream = self._live.get(name)
        if stream is not None:
            stream.cause = f"pilot {name} is not wanted any more"
            await stream.aclose()

    def stream_of(self, name: str) -> PilotStream | None:
        """Return the stream of a pilot; None if it is not connected."""
        return self._live.get(name)

    async def serve(self, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled; `started` tells the port.

        Raises:
            OSError: the port cannot be had.
        """
        settings = self._settings
        multi = await anyio.create_tcp_listener(
            local_host=settings.host, local_port=settings.port, reuse_port=False
        )
        async with multi, anyio.create_task_group() as tasks:
            for listener in multi.listeners:
                tasks.start_soon(self._accept_all, listener)
            task_status.started(multi.listeners[0].extra(SocketAttribute.local_port))

    async def _accept_all(self, listener: Listener[SocketStream]) -> None:
        assert isinstance(listener, SocketListener), "those of TCP are"
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await listener.accept()
                except OSError:  # no file is left, say: those that are open go on
                    await anyio.sleep(ACCEPT_PAUSE_S)
                    continue
                tasks.start_soon(self._receive, stream)

    async def _receive(self, raw: SocketStream) -> None:
        """Let a connection in, if it is a pilot's, and have it served to its end."""
        try:
            stream = await self._authenticated(raw)
            if stream is not None:
                await self._serve(stream)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(raw)

    async def _authenticated(self, raw: SocketStream) -> PilotStream | None:
        """Return the stream of a pilot that is to be served; None for all others."""
        peer = str(raw.extra(SocketAttribute.remote_address, ("somebody",))[0])
        limit_s = self._settings.handshake_s
        cause = f"it did not prove within {limit_s:g} s who it is"
        with anyio.move_on_after(limit_s) as scope:
            if not self._make_room():
                self._observer.refused(peer, f"{len(self._half_open)} others prove who they are")
                return None
            self._half_open[scope] = clock.monotonic_s()
            try:
                return await self._let_in(raw, peer)
            except (msgspec.MsgspecError, anyio.TypedAttributeLookupError, *LOST) as error:
                cause = f"it is no pilot of ours: {str(error)[:SHOWN_CHARACTERS] or repr(error)}"
            finally:
                if self._half_open.pop(scope, None) is None:
                    cause = "it took long to prove who it is, and others waited"
        self._observer.refused(peer, cause)
        return None

    def _make_room(self) -> bool:
        """Close the oldest half-open connection if need be; say if one may come.

        None that is young is closed: of pilots that all come back at once, each would close
        another, and none get in.
        """
        if len(self._half_open) < self._settings.half_open_max:
            return True
        oldest, since_s = next(iter(self._half_open.items()))
        if clock.monotonic_s() - since_s < YOUNG_S:
            return False
        del self._half_open[oldest]
        oldest.cancel()
        return True

    async def _let_in(self, raw: SocketStream, peer: str) -> PilotStream | None:
        _keep_alive(raw.extra(SocketAttribute.raw_socket))
        tls = await TLSStream.wrap(
            raw, server_side=True, ssl_context=self._context, standard_compatible=False
        )
        name, serial = subject_of(tls.extra(TLSAttribute.peer_certificate_binary))
        hello, rest = await _hello_of(tls)
        stream = PilotStream(tls, name, hello, rest)
        refusal = await self._refusal_once_free(stream, serial)
        if refusal is not None:
            self._observer.refused(peer, f"pilot {name}: {refusal['refused']}")
            await _say(stream, refusal)
            return None
        if hello.why:
            self._observer.draining(name, hello.why, hello.left_s)
        if hello.do == "serve":
            return stream
        await _say(stream, {})
        return None

    async def _refusal_once_free(
        self, stream: PilotStream, serial: int
    ) -> Mapping[str, object] | None:
        """Return why a pilot is not let in; what it replaces has ended before."""
        while True:
            refusal, before = self._refusal(stream, serial), self._live.get(stream.name)
            if refusal is not None or before is None or stream.hello.do != "serve":
                return refusal
            before.cause = f"pilot {stream.name} has connected again"
            await before.aclose()
            await before.over.wait()

    def _refusal(self, stream: PilotStream, serial: int) -> Mapping[str, object] | None:
        """Return why a pilot is not let in; None if it is."""
        hello, wanted = stream.hello, self._wanted.get(stream.name)
        if hello.version != PILOT_VERSION:
            said = f"it speaks version {hello.version}, expected {PILOT_VERSION}"
            return {"refused": said, "is_over": True}
        if wanted is None:
            return {"refused": "it is not wanted any more", "is_over": True}
        if wanted != serial:
            return {"refused": "its certificate has been replaced by another", "is_over": False}
        before = self._live.get(stream.name)
        if hello.do == "serve" and before is not None and before.hello.instance != hello.instance:
            silent_s = clock.monotonic_s() - before.heard_s
            if silent_s < self._settings.silent_s:
                said = f"another process of it is connected, heard of {silent_s:.0f} s ago"
                return {"refused": said, "is_over": False}
        return None

    async def _serve(self, stream: PilotStream) -> None:
        """Have a pilot served; nothing is awaited between its being let in and this."""
        assert stream.name not in self._live, "who is replaced has ended"
        self._live[stream.name] = stream
        try:
            with suppress(anyio.BrokenResourceError):
                await _say(stream, {"nonce": stream.nonce})
                await self._observer.connected(stream)
        finally:
            del self._live[stream.name]
            await stream.aclose()
            stream.over.set()


async def _hello_of(tls: TLSStream) -> tuple[PilotHello, bytes]:
    """Return the first line of a pilot, and what came behind it."""
    said = b""
    while b"\n" not in said:
        if len(said) >= PILOT_LINE_BYTES_MOST:
            raise msgspec.ValidationError(f"it says a line beyond {PILOT_LINE_BYTES_MOST} bytes")
        said += await tls.receive(PILOT_LINE_BYTES_MOST - len(said))
    line, _, rest = said.partition(b"\n")
    return msgspec.json.decode(line, type=PilotHello), rest


async def _say(stream: PilotStream, answer: Mapping[str, object]) -> None:
    await stream.send(json.dumps(answer).encode() + b"\n")


def _keep_alive(raw: socket.socket) -> None:
    """Have the kernel find out within half a minute that nobody is there any more."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("IDLE", 15), ("INTVL", 5), ("CNT", 3)):
        raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{option}"), value)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
