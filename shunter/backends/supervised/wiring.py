"""How the GPUs of servers are wired: asked of their agents, and kept where orders look it up."""

from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.settings import Socket
from shunter.backends.agents.transport import NO_DEVICE, Server, run_verb
from shunter.backends.agents.wiring import Wiring, wiring_in
from shunter.errors import BackendError
from shunter.events.values import NodeName

WIRING_S = 15.0
"""How long an agent may take; a driver in trouble may never answer."""


@dataclass(frozen=True, slots=True)
class _Wired:
    """A server with the sockets that were found."""

    name: NodeName
    gpus: tuple[str, ...]
    cpus: tuple[int, ...]
    sockets: tuple[Socket, ...]


async def ask_wirings(agents: Mapping[NodeName, NodeAgent]) -> dict[NodeName, Wiring]:
    """Ask the agents of servers with several GPUs how these are wired.

    One that does not answer gives a wiring of which nothing is known but the cause.

    Args:
        agents: by name.
    Returns:
        the wirings, by server.
    """
    found: dict[NodeName, Wiring] = {}

    async def ask(agent: NodeAgent, names: list[NodeName]) -> None:
        try:
            async with agent.programs() as link:
                words = ["wiring", agent.transport.folder]
                told = await run_verb(link, agent.name, words, limit_s=WIRING_S, shape=wiring_in)
        except BackendError as error:
            told = Wiring(cause=str(error))
        found.update(dict.fromkeys(names, told))

    async with anyio.create_task_group() as tasks:
        for agent in agents.values():
            if names := [each.name for each in agent.transport.servers if _has_several(each)]:
                tasks.start_soon(ask, agent, names)
    return found


def set_sockets(
    agents: Mapping[NodeName, NodeAgent], sockets: Mapping[NodeName, tuple[Socket, ...]]
) -> None:
    """Set the sockets of servers.

    One whose CPUs nobody numbered has those of its sockets.
    """
    for agent in agents.values():
        agent.transport.servers = [
            _wired(server, sockets[server.name]) if sockets.get(server.name) else server
            for server in agent.transport.servers
        ]


def _has_several(server: Server) -> bool:
    return sum(gpu != NO_DEVICE for gpu in server.gpus) > 1


def _wired(server: Server, sockets: tuple[Socket, ...]) -> _Wired:
    cpus = server.cpus or tuple(sorted({cpu for socket in sockets for cpu in socket.cpus}))
    return _Wired(server.name, server.gpus, cpus, sockets)
