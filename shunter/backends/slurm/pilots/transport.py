"""An agent inside a pilot: there once the pilot has dialled in, gone when it is lost.

The session runs over the pilot's own connection. What else is asked of an agent needs no node: it
is about files that lie on the folder all nodes share, so it is begun on this machine.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from shunter.backends.live.transport import AgentProcess, Link, Server, UnreachedError, begin_here
from shunter.backends.slurm.pilots.channel import PilotStream
from shunter.backends.slurm.settings import SlurmServer

NOT_ASKED = "Slurm was not asked for node {name} yet"


class PilotTransport:
    """Reaches the agent of one node, while a pilot holds it.

    `reason` says why nobody is there, for people.
    """

    def __init__(self, server: SlurmServer, root: str) -> None:
        self.name = server.name
        self.servers: Sequence[Server] = (server,)
        self.address = str(server.name)
        self.environment: Mapping[str, str] = {}
        self.cgroup: str | None = ""
        self.folder = f"{root}/nodes/{server.name}"
        self.is_here = False
        self.is_on_demand = True
        self.reason = NOT_ASKED.format(name=server.name)
        self._stream: PilotStream | None = None
        self._came = anyio.Event()

    @property
    def pilot(self) -> str:
        """The name of the pilot that is connected; nothing if none is."""
        return "" if self._stream is None else self._stream.name

    async def serve(self, stream: PilotStream) -> None:
        """Have a pilot that dialled in used until its connection is over."""
        self._stream = stream
        self._came.set()
        try:
            await stream.over.wait()
        finally:
            if self._stream is stream:
                self._stream = None
                self._came = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Take the pilot that is there.

        Raises:
            UnreachedError: there is none, and why.
        """
        if self._stream is None:
            raise UnreachedError(self.reason)
        stream = self._stream
        try:
            yield _PilotLink(stream)
        finally:
            await stream.aclose()
            stream.over.set()

    async def answers(self) -> bool:
        """Wait until a pilot has dialled in."""
        await self._came.wait()
        return True


class _PilotLink:
    """What can be begun while a pilot is connected."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream = stream

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent on this machine, which has the same files.

        Raises:
            OSError: it cannot be begun.
        """
        return await begin_here(verb, *words)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Return the session that the pilot has begun."""
        return _PilotSession(self._stream), self._stream.nonce


class _PilotSession:
    """The session of a pilot, as a program of the agent."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream = stream

    async def read(self, most: int) -> bytes:
        try:
            return await self._stream.receive(most)
        except anyio.EndOfStream:
            return b""

    async def write(self, content: bytes) -> None:
        try:
            await self._stream.send(content)
        except anyio.BrokenResourceError as error:
            raise BrokenPipeError("the pilot is gone") from error

    async def end_input(self) -> None:
        await self._stream.send_eof()

    async def complaint(self) -> bytes:
        return self._stream.cause.encode()

    async def status(self) -> int | None:
        return None

    async def aclose(self) -> None:
        await self._stream.aclose()
