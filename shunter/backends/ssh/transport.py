"""An agent on a host that sshd lets us into: installed if it must be, begun over one connection."""

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from shunter.backends.agents.transport import AgentProcess, Link, Server
from shunter.backends.ssh.agent_install import installed
from shunter.backends.ssh.connecting import connected, quoted, told_as_lost
from shunter.backends.ssh.settings import SshHost, SshSettings

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess


COMPLAINT_BYTES, COMPLAINT_S = 1 << 16, 1.0
WINDOW_BYTES = 2 << 20
"""A host sends so much at most before it is told that some of it was read."""


class SshTransport:
    """Reaches the agent of a host.

    Args:
        host: which.
        settings: of the cluster.
        limit: how many connections may be opening at once; sshd drops some of many (MaxStartups).
    """

    def __init__(self, host: SshHost, settings: SshSettings, limit: anyio.Semaphore) -> None:
        self.name = host.name
        self.servers: Sequence[Server] = (host,)
        self.address = host.gang_address or host.address
        self.environment: Mapping[str, str] = host.environment
        self.cgroup: str | None = host.cgroup
        self.folder = host.base
        self.is_on_demand = False
        self.reason = ""
        self.is_here = False
        self._host = host
        self._settings = settings
        self._limit = limit

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Connect, and make sure that the agent is there.

        Raises:
            UnreachedError: why that cannot be done.
        """
        async with connected(self._host, self._settings, self._limit) as ssh:
            yield SshLink(
                ssh, self._host, await installed(ssh, self._host, self._settings.connect_s)
            )

    async def answers(self) -> bool:
        """Return whether anybody listens where the host's sshd should."""
        if self._settings.access.config:  # it may name a host that no plain connection reaches
            return True
        try:
            stream = await anyio.connect_tcp(self._host.address, self._host.port)
        except OSError:
            return False
        await stream.aclose()
        return True


class SshLink:
    """A connection to a host, and where its agent lies."""

    def __init__(self, ssh: "SSHClientConnection", host: SshHost, path: str) -> None:
        self._ssh = ssh
        self._host = host
        self._path = path

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent in a channel of its own.

        Raises:
            OSError: it cannot be begun.
            UnreachedError: the connection was lost.
        """
        every = [self._host.python, "-I", "-S", self._path, verb, *words]
        with told_as_lost(self._host.name), _told_as_os_error():
            process = await self._ssh.create_process(
                "exec " + quoted(every), encoding=None, window=WINDOW_BYTES
            )
        return _RemoteProcess(process)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session in a channel of its own.

        Raises:
            OSError: it cannot be begun.
            UnreachedError: the connection was lost.
        """
        nonce = secrets.token_hex(8)
        return await self.begin("serve", folder, nonce), nonce


class _RemoteProcess:
    """A program of the agent that runs on a host."""

    def __init__(self, process: "SSHClientProcess[bytes]") -> None:
        self._process = process
        self._held = memoryview(b"")

    async def read(self, most: int) -> bytes:
        # All that asyncssh holds, each time: once a packet of it is taken, it lets the host send a
        # whole window more, so that a reader of small pieces would have it hold all of the output.
        if not self._held:
            with _told_as_os_error():
                self._held = memoryview(await self._process.stdout.read(2 * WINDOW_BYTES))
        piece, self._held = self._held[:most], self._held[most:]
        return bytes(piece)

    async def write(self, content: bytes) -> None:
        with _told_as_os_error():
            self._process.stdin.write(content)
            await self._process.stdin.drain()

    async def end_input(self) -> None:
        with suppress(OSError):
            self._process.stdin.write_eof()

    async def complaint(self) -> bytes:
        with anyio.move_on_after(COMPLAINT_S), _told_as_os_error():
            return await self._process.stderr.read(COMPLAINT_BYTES)
        return b""

    async def status(self) -> int | None:
        await self._process.wait_closed()
        return self._process.exit_status

    async def aclose(self) -> None:
        self._process.close()


@contextmanager
def _told_as_os_error() -> Iterator[None]:
    """Turn an error of asyncssh's into one of the system's."""
    import asyncssh

    try:
        yield
    except asyncssh.Error as error:
        raise ConnectionError(str(error)) from error
