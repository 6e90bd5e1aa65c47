"""How a gang is started: its orders, a port that is its own, and a start on all nodes at once.

A lost answer leaves a part unknown until its agent answers or is lost. A part that cannot begin
fences the whole gang.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

import anyio
from anyio.abc import TaskGroup

from shunter.backends.live.gang import NEVER, Gang
from shunter.backends.live.inbox import Inbox
from shunter.backends.live.node_agent import NodeAgent
from shunter.backends.live.orders import Where, given_to, orders_for
from shunter.backends.live.settings import Limits, Owner
from shunter.backends.live.transport import UnreachedError
from shunter.backends.node import Order, Port, StartAnswer, failpoint
from shunter.core import Effect, Launch, Resume
from shunter.errors import BackendError
from shunter.events import JobId, NodeLost, NodeName, NodeReachable, NodeUnreachable

# Orders on their way: those of one job in sequence, of different jobs at once.


class OrderQueue:
    """Has orders carried out in the tasks of a backend."""

    def __init__(self, tasks: TaskGroup, obey: Callable[[Effect], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._obey = obey
        self._waiting: dict[JobId, deque[Effect]] = {}

    def give(self, effects: Iterable[Effect]) -> None:
        """Accept orders; whoever gave them does not wait."""
        for effect in effects:
            waiting = self._waiting.get(effect.job_id)
            if waiting is not None:
                waiting.append(effect)
                continue
            self._waiting[effect.job_id] = deque([effect])
            self._tasks.start_soon(self._carry_out, effect.job_id)

    async def _carry_out(self, job_id: JobId) -> None:
        waiting = self._waiting[job_id]
        while waiting:
            effect = waiting.popleft()
            failpoint(f"to {type(effect).__name__}")
            await self._obey(effect)
            failpoint(f"done {type(effect).__name__}")
        del self._waiting[job_id]


class Reachability:
    """The servers that the log has as unreachable, and what it is told of them.

    Args:
        inbox: where it is told.
        doubt_of: why a server that answers takes nothing new yet, nothing if it does: one of which
            that is in doubt is unreachable for the log, whatever runs there.
    """

    def __init__(self, inbox: Inbox, doubt_of: Callable[[NodeName], str]) -> None:
        self._inbox = inbox
        self._doubt_of = doubt_of
        self._unreachable: set[NodeName] = set()
        self._spoken_of: set[NodeName] = set()

    def recall(self, agent: NodeAgent, unreachable: Sequence[NodeName]) -> None:
        """Take in which servers an earlier term found unreachable or lost."""
        own = [node for node in agent.nodes if node in unreachable]
        # What was told of one in this term brings the log up to date.
        self._unreachable.update(node for node in own if node not in self._spoken_of)
        self.note_up(agent)

    def note_up(self, agent: NodeAgent) -> None:
        """Tell that the servers of an agent answer, where they do and that is new."""
        for node in agent.nodes if agent.is_up else ():
            if self._doubt_of(node):
                if node not in self._unreachable:
                    self._note_unreachable(node)
            elif node in self._unreachable:
                self._unreachable.discard(node)
                self._inbox.put(partial(NodeReachable, node=node))

    def note_silent(self, agent: NodeAgent) -> None:
        """Tell that the servers of an agent do not answer."""
        for node in agent.nodes:
            self._note_unreachable(node)

    def note_lost(self, agent: NodeAgent) -> None:
        """Tell that nothing can run on the servers of an agent any more."""
        for node in agent.nodes:
            self._inbox.put(partial(NodeLost, node=node, cause=agent.cause))

    def _note_unreachable(self, node: NodeName) -> None:
        self._unreachable.add(node)
        self._spoken_of.add(node)
        self._inbox.put(partial(NodeUnreachable, node=node))


PORTS_ASKED = 64
REFUSALS = ("refused", "failed", "late")


class DrainingError(BackendError):
    """A server answers, but may be about to end, and what it would be given with it."""


class Launches:
    """Starts gangs, beside those that run already.

    Args:
        limits: of the backend.
        owner: who schedules.
        agents: all of them, by their names.
        agent_of: the name of the agent of each server.
        gangs: what runs.
        refusal_of: why nothing is started on a server that answers; nothing if it may be.
    """

    def __init__(
        self,
        limits: Limits,
        owner: Owner,
        agents: Mapping[NodeName, NodeAgent],
        agent_of: Mapping[NodeName, NodeName],
        gangs: Mapping[JobId, Gang],
        refusal_of: Callable[[NodeName], str],
    ) -> None:
        self._limits = limits
        self._owner = owner
        self._agents = agents
        self._agent_of = agent_of
        self._gangs = gangs
        self._refusal_of = refusal_of
        self._turn = 0
        self._promised: dict[JobId, tuple[NodeName, int]] = {}
        self._bound: dict[JobId, dict[NodeName, tuple[int, ...]]] = {}

    async def orders_of(self, effect: Launch | Resume) -> dict[NodeName, Order]:
        """Return the orders of an attempt by agent, in order of rank.

        Raises:
            DrainingError: a server is about to end, or may be.
            BackendError: an agent does not answer, or the attempt cannot run there; nothing was
                begun.
        """
        nodes = [share.node for share in effect.allocation.shares]
        for node in nodes:
            if node not in self._agent_of:
                raise BackendError(f"job {effect.job_id} was given {node}, which is no host")
        by_node = {node: self._agents[self._agent_of[node]] for node in nodes}
        for agent in by_node.values():
            if not agent.is_up:
                raise BackendError(agent.cause, retryable=True)
        self.check_drains(nodes)
        given = given_to(self._owner.root, effect.job_id)
        port = await self._port(effect.job_id, by_node[nodes[0]])
        where = {
            node: Where(agent.transport, agent.root, self._cpu_tenants(agent.name))
            for node, agent in by_node.items()
        }
        orders = orders_for(effect, self._limits, self._owner, where, given, port)
        self._bound[effect.job_id] = {
            name: tuple([cpu for rank in order.ranks if rank.pinned for cpu in rank.cpus])
            for name, order in orders.items()
        }
        return orders

    def check_drains(self, nodes: Iterable[NodeName]) -> None:
        """Hold that nothing which would be started now had to leave at once.

        Raises:
            DrainingError: a server is about to end, or may be.
        """
        for node in nodes:
            if cause := self._refusal_of(node):
                raise DrainingError(f"it was not started: {cause}", retryable=True)

    def settle(self, job_id: JobId) -> None:
        """Release the port promised to a launch, which has a gang by now or failed."""
        self._promised.pop(job_id, None)

    async def start(self, gang: Gang, orders: Mapping[NodeName, Order]) -> None:
        """Start all parts of a gang."""
        async with anyio.create_task_group() as starts:
            for name, order in orders.items():
                starts.start_soon(self._start, gang, name, order)
        failpoint("supervisors answered")

    async def _start(self, gang: Gang, name: NodeName, order: Order) -> None:
        part, agent = gang.parts[name], self._agents[name]
        if not agent.is_up:  # nothing was sent, so nothing is unknown
            gang.cause = gang.cause or agent.cause
            part.learn(NEVER)
            part.is_refused, part.is_starting = True, False
            return

        def on_reply(answer: StartAnswer) -> None:
            part.learn(NEVER if answer.known is None else agent.localised(answer.known))

        try:
            answer = await agent.start(order, on_reply)
            known = answer.known
            waits = known is not None and answer.answer == "known" and known.state == "starting"
            if not waits and (known is None or known.started is None):
                gang.cause = gang.cause or answer.cause or "its supervisor did not start"
                part.is_refused = answer.answer in REFUSALS
        except UnreachedError as error:
            gang.doubt = str(error)  # unknown: its agent will tell, or be lost
        except BackendError as error:  # the agent says that it did not even begin to start it
            gang.cause = gang.cause or str(error)
            part.learn(NEVER)
            part.is_refused = True
        finally:
            part.is_starting = False

    async def _port(self, job_id: JobId, agent: NodeAgent) -> int:
        """Return a port of a node that no other attempt there has, and nobody listens on."""
        first, end = self._limits.gang_ports
        count = end - first
        while True:
            turn, taken = self._turn, self._taken_on(agent.name)
            self._turn = (turn + 1) % count
            ports = (first + (turn + offset) % count for offset in range(count))
            free = [*islice((port for port in ports if port not in taken), PORTS_ASKED)]
            answer = await agent.ask(Port(ports=tuple(free)))
            if answer.port is None or answer.port not in self._taken_on(agent.name):
                break  # or another launch was told of the same one meanwhile
        if answer.port is None:
            raise BackendError(
                f"host {agent.name}: no port of {first} to {end - 1} is free for the ranks "
                "of a job: name more ports",
                retryable=True,
            )
        self._promised[job_id] = agent.name, answer.port
        # In turn, also past those that others listen on: one that is given back rests for long.
        self._turn = max(self._turn, answer.port + 1 - first) % count
        return int(answer.port)

    def _taken_on(self, name: NodeName) -> set[int]:
        """Return the ports of attempts on a node, and of launches on their way."""
        taken = {gang.port for gang in self._gangs.values() if name in gang.parts}
        return taken | {port for at, port in self._promised.values() if at == name}

    def _cpu_tenants(self, name: NodeName) -> Counter[int]:
        """Return how many ranks have each CPU of a node, launches under way too."""
        tenants: Counter[int] = Counter()
        for job_id in [each for each in self._bound if each not in self._promised]:
            if job_id not in self._gangs:
                del self._bound[job_id]
        bound = {job_id: by_agent.get(name, ()) for job_id, by_agent in self._bound.items()}
        for job_id, gang in self._gangs.items():
            started = gang.parts[name].started if name in gang.parts else None
            if started is not None:
                ranks = [rank.cpus for rank in started.ranks if rank.pinned]
                bound[job_id] = tuple([cpu for cpus in ranks for cpu in cpus])
        for cpus in bound.values():
            tenants.update(cpus)
        return tenants
