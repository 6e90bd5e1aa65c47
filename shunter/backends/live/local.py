"""This machine as a cluster of one or more nodes: its agent is a child process of the daemon.

Supervisors fork from the agent and outlive it: a daemon with threads and much memory cannot fork
them. If the agent is killed, the daemon begins another one, which reads the records.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shunter.backends.live.backend import SupervisedBackend
from shunter.backends.live.settings import LocalSettings
from shunter.backends.live.transport import AgentProcess, Link, Server, begin_here
from shunter.backends.node import divisible
from shunter.events import NodeName

NAME = NodeName("local")
LOOPBACK = "127.0.0.1"


class LocalTransport:
    """Begins programs of the agent on this machine."""

    def __init__(self, settings: LocalSettings) -> None:
        self.name = NAME
        self.servers: Sequence[Server] = settings.nodes
        self.address = LOOPBACK
        self.environment: Mapping[str, str] = settings.environment
        self.cgroup = settings.cgroup
        self.folder = settings.root
        self.is_on_demand = False
        self.reason = ""
        self.is_here = True

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Reach this machine, which takes nothing."""
        yield self

    async def answers(self) -> bool:
        """Return that it is there."""
        return True

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent.

        Raises:
            OSError: it cannot be begun.
        """
        return await begin_here(verb, *words)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session.

        Raises:
            OSError: it cannot be begun.
        """
        nonce = secrets.token_hex(8)
        return await begin_here("serve", folder, nonce), nonce


class LocalBackend(SupervisedBackend):
    """Runs attempts on this machine; use it as an async context."""

    def __init__(self, settings: LocalSettings, start_us: int = 0) -> None:
        super().__init__(settings, settings.owner, [LocalTransport(settings)], start_us)


# Where this machine lets us limit the memory of jobs.

PROC = Path("/proc/self")
MEND = "under systemd, run the daemon in a unit with Delegate=yes"


@dataclass(frozen=True, slots=True)
class MemoryControl:
    """The group below which attempts get theirs; without one, why."""

    group: str = ""
    why_not: str = ""


def memory_control(*, prepare: bool, proc: Path = PROC) -> MemoryControl:
    """Find the group that we may divide.

    Args:
        prepare: also make it ready, which may move the processes in it one level down.
        proc: where the kernel tells of this process.
    """
    return MemoryControl(*divisible(prepare=prepare, mend=MEND, proc=str(proc)))
