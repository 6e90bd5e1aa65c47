"""A host in memory: its agent answers at once, on clocks of its own, until it is silent."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from shunter import clock
from shunter.backends.live import AgentProcess, Link, Server, Socket, UnreachedError
from shunter.backends.node import PROTOCOL, messages
from shunter.events import NodeName

AHEAD_NS = 5 * 10**9
NONCE = "nonce"


@dataclass(frozen=True, slots=True)
class MemoryServer:
    """A server without GPUs."""

    name: NodeName
    gpus: tuple[str, ...] = ()
    cpus: tuple[int, ...] = (0,)
    sockets: tuple[Socket, ...] = ()


class MemoryHost:
    """A transport to an agent that lives in this process.

    `is_silent` says that nothing it is asked is answered, and that nobody can connect; `asked` are
    the questions that reached it, each with the reading of our monotonic clock.
    """

    def __init__(self, name: str) -> None:
        self.name = NodeName(name)
        self.servers: Sequence[Server] = (MemoryServer(self.name),)
        self.address = name
        self.environment: Mapping[str, str] = {}
        self.cgroup: str | None = ""
        self.folder = f"/memory/{name}"
        self.is_here = False
        self.is_on_demand = False
        self.reason = ""
        self.is_silent = False
        self.asked: list[tuple[float, str]] = []

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        if self.is_silent:
            raise UnreachedError(f"host {self.name} cannot be reached")
        yield _MemoryLink(self)

    async def answers(self) -> bool:
        await anyio.lowlevel.checkpoint()
        return not self.is_silent


class _MemoryLink:
    def __init__(self, host: MemoryHost) -> None:
        self._host = host

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        raise OSError(f"a host in memory has no programs: {verb}")

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        return _MemorySession(self._host), NONCE


class _MemorySession:
    """A session with the agent, as a program that it has begun."""

    def __init__(self, host: MemoryHost) -> None:
        self._host = host
        self._said = bytearray()
        self._spoke = anyio.Event()
        greeting = messages.Greeting(
            **_clocks(),
            base="/b",
            boot="b0",
            wall_s=0.0,
            python=(3, 8, 0),
            uid=0,
            protocol=PROTOCOL,
        )
        self._say(f"\n{NONCE} ".encode() + msgspec.json.encode(greeting))

    async def read(self, most: int) -> bytes:
        while not self._said:
            self._spoke = anyio.Event()
            await self._spoke.wait()
        found = bytes(self._said[:most])
        del self._said[:most]
        return found

    async def write(self, content: bytes) -> None:
        question = json.loads(content)
        self._host.asked.append((clock.monotonic_s(), question["do"]))
        if not self._host.is_silent:
            told = msgspec.json.encode(_answer(question["do"]))[1:]
            self._say(b'{"id":%d,%b' % (question["id"], told))
        await anyio.lowlevel.checkpoint()

    async def end_input(self) -> None: ...

    async def complaint(self) -> bytes:
        return b""

    async def status(self) -> int | None:
        return None

    async def aclose(self) -> None: ...

    def _say(self, line: bytes) -> None:
        self._said += line + b"\n"
        self._spoke.set()


def _clocks() -> dict[str, Any]:
    return {"now_ns": clock.monotonic_ns() + AHEAD_NS, "up_ns": clock.uptime_ns() + AHEAD_NS}


def _answer(do: str) -> messages.Answer:
    if do == "claim":
        return messages.Claimed(**_clocks(), root="/b/clusters/c0", term=1)
    if do == "look":
        return messages.Looked(**_clocks(), changed=(), samples=(), gpus=None)
    if do == "beat":
        return messages.Beaten(**_clocks())
    return messages.InventoryAnswer(**_clocks(), attempts=())
