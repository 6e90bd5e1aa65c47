"""A daemon that listens for pilots on loopback, and pilots that dial it as the agent does."""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from shunter.backends.node import PilotAnswer, PilotFile, dial, read_pilot_file
from shunter.backends.slurm import (
    ClusterAuthority,
    ListenerSettings,
    PilotCertificate,
    PilotListener,
    PilotStream,
)

PATIENCE_S = 20.0
HOUR_S = 3600.0
Serve = Callable[[PilotStream], Awaitable[None]]


async def echo(stream: PilotStream) -> None:
    """Send back what comes, to the end."""
    while data := await stream.read(1 << 16):
        await stream.write(data)


@dataclass
class Told:
    """Serves pilots as a test says, and records what is told of them."""

    serve: Serve = echo
    streams: list[PilotStream] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    drains: list[tuple[str, str, float]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    async def connected(self, stream: PilotStream) -> None:
        assert self.streams.count(stream) == 0
        self.streams.append(stream)
        try:
            await self.serve(stream)
        finally:
            self.over.append(stream.cause)

    def draining(self, name: str, why: str, left_s: float) -> None:
        self.drains.append((name, why, left_s))

    def refused(self, peer: str, cause: str) -> None:
        self.refusals.append(cause)


@dataclass
class Daemon:
    """One that listens, with the files of its pilots in a folder."""

    folder: Path
    authority: ClusterAuthority
    listener: PilotListener
    told: Told
    port: int
    open: ExitStack = field(default_factory=ExitStack)

    def issue(self, name: str = "p1", valid_s: float = HOUR_S, **fields: Any) -> PilotCertificate:
        """Write the file of a pilot, and let it in."""
        reach: dict[str, Any] = {"addresses": ("127.0.0.1",), "port": self.port, "cluster": "c1"}
        told = PilotFile(name=name, **{**reach, **fields})
        path = self.folder / f"{name}.pilot"
        found = self.authority.issue(path, told, valid_s=valid_s, wall_s=time.time())
        self.listener.admit(found)
        return found

    async def dial(
        self, path: Path, instance: str = "i1", do: str = "serve", **fields: object
    ) -> tuple[ssl.SSLSocket, PilotAnswer]:
        """Dial as a pilot with this file does; what is left open is closed at the end."""

        def reach() -> tuple[ssl.SSLSocket, PilotAnswer]:
            said, context = read_pilot_file(str(path))
            found = dial(said, context, {"do": do, "instance": instance, **fields}, PATIENCE_S)
            found[0].settimeout(PATIENCE_S)
            return found

        tls, answer = await anyio.to_thread.run_sync(reach)
        self.open.enter_context(tls)
        return tls, answer


@asynccontextmanager
async def daemon(
    folder: Path, serve: Serve = echo, settings: ListenerSettings | None = None
) -> AsyncIterator[Daemon]:
    """Have a daemon listen below a folder, on a port of its own."""
    authority, told = ClusterAuthority.load(folder, time.time()), Told(serve)
    settings = settings or ListenerSettings("127.0.0.1")
    listener = PilotListener(authority, told, settings)
    async with anyio.create_task_group() as tasks:
        port = await tasks.start(listener.serve)
        assert isinstance(port, int)
        with ExitStack() as open_:
            yield Daemon(folder, authority, listener, told, port, open_)
        tasks.cancel_scope.cancel()


async def exchanged(tls: ssl.SSLSocket, data: bytes) -> bytes:
    """Send something; return what comes next."""

    def exchange() -> bytes:
        tls.sendall(data)
        return tls.recv(1 << 16)

    return await anyio.to_thread.run_sync(exchange)


async def ended(tls: ssl.SSLSocket) -> bool:
    """Say whether the daemon closes a connection, having said nothing more."""

    def read() -> bool:
        try:
            return tls.recv(1 << 16) == b""
        except OSError:
            return True

    return await anyio.to_thread.run_sync(read)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  what a test waits for sets no event
            await anyio.sleep(0.01)
