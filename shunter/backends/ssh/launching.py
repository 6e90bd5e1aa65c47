"""How a gang is started: its orders, a port that is its own, and a start on every host at once.

An answer that is lost leaves a part unknown, until its host tells or is lost. A part that cannot
begin is the cause for which the whole gang is fenced.
"""

from collections import Counter
from collections.abc import Mapping

import anyio

from shunter.backends.node.messages.wire import Order, Reply
from shunter.backends.ssh.connecting import UnreachedError
from shunter.backends.ssh.gangs import NEVER, Gang
from shunter.backends.ssh.host_connection import HostConnection
from shunter.backends.ssh.orders import orders_for
from shunter.backends.ssh.settings import SshSettings
from shunter.backends.supervised.environment import given_to
from shunter.core.effects import Launch, Resume
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName

__all__ = ["Launches"]

PORTS_ASKED = 64
REFUSALS = ("refused", "failed", "late")


class Launches:
    """Starts gangs on hosts, beside those that run there."""

    def __init__(
        self,
        settings: SshSettings,
        connections: Mapping[NodeName, HostConnection],
        gangs: Mapping[JobId, Gang],
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._gangs = gangs
        self._turn = 0
        self._promised: dict[JobId, tuple[NodeName, int]] = {}

    async def orders_of(self, effect: Launch | Resume) -> dict[NodeName, Order]:
        """Return the orders of an attempt, in order of rank.

        Raises:
            BackendError: a host does not answer, or the attempt cannot run there; nothing was
                begun.
        """
        nodes = [share.node for share in effect.allocation.shares]
        for node in nodes:
            if node not in self._connections:
                raise BackendError(f"job {effect.job_id} was given {node}, which is no host")
            if not self._connections[node].is_up:
                raise BackendError(self._connections[node].cause, retryable=True)
        given = given_to(self._settings.root, effect.job_id)
        roots = {node: self._connections[node].root for node in nodes}
        port = await self._port(effect.job_id, self._connections[nodes[0]])
        return orders_for(effect, self._settings, roots, self._cpu_tenants(), given, port)

    def settle(self, job_id: JobId) -> None:
        """Release the port promised to a launch, which has a gang by now or failed."""
        self._promised.pop(job_id, None)

    async def start(self, gang: Gang, orders: Mapping[NodeName, Order]) -> None:
        """Start all parts of a gang."""
        async with anyio.create_task_group() as starts:
            for node, order in orders.items():
                starts.start_soon(self._start, gang, node, order)

    async def _start(self, gang: Gang, node: NodeName, order: Order) -> None:
        part, connection = gang.parts[node], self._connections[node]
        if not connection.is_up:  # nothing was sent, so nothing is unknown
            gang.cause = gang.cause or connection.cause
            part.learn(NEVER)
            part.is_refused, part.is_starting = True, False
            return

        def on_reply(answer: Reply) -> None:
            part.learn(connection.localised(answer["known"]) if "known" in answer else NEVER)

        try:
            answer = await connection.start(order, on_reply)
            if "known" not in answer or answer["known"]["started"] is None:
                gang.cause = gang.cause or answer.get("cause", "its supervisor did not start")
                part.is_refused = answer["answer"] in REFUSALS
        except UnreachedError as error:
            gang.doubt = str(error)  # unknown: its host will tell, or be lost
        except BackendError as error:  # the host says that it did not even begin to start it
            gang.cause = gang.cause or str(error)
            part.learn(NEVER)
            part.is_refused = True
        finally:
            part.is_starting = False

    async def _port(self, job_id: JobId, connection: HostConnection) -> int:
        """Return a port of a host that no other attempt there has, and nobody listens on."""
        first, end = self._settings.gang_ports
        count = end - first
        node = connection.host.name
        while True:
            ports = [first + (self._turn + offset) % count for offset in range(count)]
            self._turn = (self._turn + 1) % count  # in turn: one given back rests for long
            free = [port for port in ports if port not in self._taken_on(node)]
            answer = await connection.ask("port", ports=free[:PORTS_ASKED])
            if answer["port"] is None or answer["port"] not in self._taken_on(node):
                break  # or another launch was told of the same one meanwhile
        if answer["port"] is None:
            raise BackendError(
                f"host {connection.name}: no port of {first} to {end - 1} is free for the ranks "
                "of a job: name more ports",
                retryable=True,
            )
        self._promised[job_id] = node, answer["port"]
        return int(answer["port"])

    def _taken_on(self, node: NodeName) -> set[int]:
        """Return the ports of attempts on a host, and of launches on their way."""
        taken = {gang.port for gang in self._gangs.values() if node in gang.parts}
        return taken | {port for name, port in self._promised.values() if name == node}

    def _cpu_tenants(self) -> Mapping[NodeName, Counter[int]]:
        tenants: dict[NodeName, Counter[int]] = {node: Counter() for node in self._connections}
        for gang in self._gangs.values():
            for node, part in gang.parts.items():
                for rank in part.started["ranks"] if part.started is not None else ():
                    if rank["pinned"]:
                        tenants[node].update(rank["cpus"])
        return tenants
