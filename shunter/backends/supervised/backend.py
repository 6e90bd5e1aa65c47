"""A cluster whose servers have agents: one session with each, one supervisor an attempt and node.

Orders of one job are carried out one after the other, those of different jobs side by side. What
comes of them is what the supervisors' records say, reported as it happens and read once a period.
An order whose answer is lost is unknown: it is settled when the agent answers again, or when no
supervisor under it can be alive any more. Nothing is started again before that.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter.backends.agents import messages
from shunter.backends.agents.attempt_records import GpuReading, Known, Sample
from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.orders import Shares
from shunter.backends.agents.settings import Limits, Owner
from shunter.backends.agents.transport import Transport
from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.messages.wire import Found
from shunter.backends.supervised import environment as environments
from shunter.backends.supervised.attempt_locations import AttemptLocations
from shunter.backends.supervised.checkpoints.transfer import CheckpointTransfer, StaysError
from shunter.backends.supervised.gangs.gang import Gang, Part
from shunter.backends.supervised.gangs.live_gangs import Key, LiveGangs, Stands
from shunter.backends.supervised.launching import DrainingError, Launches
from shunter.backends.supervised.order_queue import OrderQueue
from shunter.backends.supervised.reachability import Reachability
from shunter.backends.supervised.samples import Samples
from shunter.backends.supervised.shares import ShareNotices, shares_of
from shunter.backends.supervised.watch import Watch
from shunter.core.effects import (
    Effect,
    Fence,
    Launch,
    Migrate,
    Reshape,
    Resume,
    SetAside,
    ShareTurns,
    Terminate,
    Weigh,
)
from shunter.core.intake.inputs import Input
from shunter.errors import BackendError
from shunter.events.facts.execution import AttemptLost, LaunchFailed
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId, NodeName


class SupervisedBackend:
    """Runs attempts under the agents of servers; use it as an async context.

    Args:
        limits: what supervisors and agents are held to.
        owner: who schedules.
        transports: how the agent of each node is reached.
        start_us: the instant at which this term begins.
    """

    def __init__(
        self, limits: Limits, owner: Owner, transports: Sequence[Transport], start_us: int = 0
    ) -> None:
        self._owner = owner
        self._is_sized = limits.is_sized
        self._inbox = Inbox(start_us)
        self.agents = {each.name: NodeAgent(each, limits, owner, self) for each in transports}
        self._agent_of = {server.name: each.name for each in transports for server in each.servers}
        self._locations = AttemptLocations(self.agents, self._agent_of)
        self._transfer = CheckpointTransfer(limits, owner, self.agents)
        self._tasks: TaskGroup = anyio.create_task_group()
        self._share_notices = ShareNotices()
        self._gangs = LiveGangs(
            self._inbox, self.agents, self._tasks, limits, self._share_notices.put, self.drain_of
        )
        self._newest: dict[JobId, int] = {}
        self._launching: set[tuple[JobId, int]] = set()
        self._moved_from: dict[JobId, tuple[NodeName, ...]] = {}
        self._reachability = Reachability(self._inbox)
        self._is_open = self._has_recovered = False
        self._launches = Launches(
            limits, owner, self.agents, self._agent_of, self._gangs, self.drain_of
        )
        self._samples = Samples(self._inbox, self._gangs, limits)
        self._orders = OrderQueue(self._tasks, self._obey)

    async def __aenter__(self) -> Self:
        """Reach every agent for the first time; those that do not answer are unreachable.

        Raises:
            BackendError: a node is another scheduler's.
        """
        await self._tasks.__aenter__()
        for agent in self.agents.values():
            self._tasks.start_soon(agent.run)
        try:
            for agent in self.agents.values():
                await agent.tried.wait()
                if agent.taken is not None:
                    raise agent.taken
            self._is_open = True
        finally:
            if not self._is_open:
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the agents; what runs under them runs on."""
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    @property
    def instant(self) -> bool:
        """Real processes take time."""
        return False

    @property
    def unreachable(self) -> frozenset[NodeName]:
        """The servers whose agents do not answer."""
        return frozenset(self.causes)

    @property
    def causes(self) -> Mapping[NodeName, str]:
        """Why servers do not answer, and how to mend it, of those that do not."""
        silent = [agent for agent in self.agents.values() if not agent.is_up]
        return {node: each.transport.reason or each.cause for each in silent for node in each.nodes}

    def drain_of(self, node: NodeName) -> str:
        """Return why nothing is started on a server that answers; nothing if it may be."""
        return ""

    def launch_wait(self, job_id: JobId) -> str:
        """Return what the launch of a job waits for; nothing if it does not."""
        return ""

    async def share_notice(self) -> str:
        """Wait for the next thing to be told of what jobs are held to, in words."""
        return await self._share_notices.take()

    def post(self, stamped: Stamped) -> None:
        """Put a command of somebody into the inbox, where it gets its instant."""
        self._inbox.put(stamped)

    def now_us(self) -> int:
        """Return the instant it is."""
        return self._inbox.now_us()

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Wait for inputs; a live world gathers nothing, it hands over what it sees."""
        return await self._inbox.observe(until_us)

    async def inventory(self, wanted: Collection[tuple[JobId, int]] | None = None) -> list[Found]:
        """Return the records of all attempts, or some and all that run, gangs as one.

        An attempt of which an agent knows that does not answer counts as running.
        """
        return await self._locations.inventory(wanted)

    def recall(self, unreachable: Sequence[NodeName]) -> None:
        """Say which servers an earlier term found unreachable or lost."""
        for agent in self.agents.values():
            self._reachability.recall(agent, unreachable)

    def adopt(
        self,
        job_id: JobId,
        attempt: int,
        *,
        started: bool,
        noted: Mapping[NodeName, int] | None = None,
        on: Allocation | None = None,
        is_set_aside: bool = False,
    ) -> None:
        """Watch an attempt of an earlier term, of which some has been told already.

        Args:
            job_id: whose.
            attempt: its number.
            started: whether the log has its start.
            noted: how many facts of its journals the log has, by the first server of each.
            on: what it was to be given, where no record says on which servers it runs.
            is_set_aside: whether it is only to be ended.
        """
        nodes = self._locations.of(job_id, attempt)
        if not nodes and on is not None:
            nodes = tuple(share.node for share in on.shares)
            self._locations.note(job_id, attempt, nodes)
        self._newest[job_id] = attempt
        watch = Watch(job_id, attempt, told_start=started, planned=on, is_set_aside=is_set_aside)
        gang = Gang(watch, {name: Part() for name in self._locations.agents_of(nodes)}, nodes)
        if on is not None:
            gang.given, gang.shares = on, self._held_to(on)  # whatever it is held to by now
        self._gangs.add(gang, noted)
        if not is_set_aside:
            self._gangs.watch(gang)

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Accept orders; what comes of them is observed.

        With the first, all attempts of earlier terms have been adopted that are to go on.
        """
        self._orders.give(effects)
        if not self._has_recovered:
            self._has_recovered = True
            for agent in self.agents.values():
                if agent.is_up:
                    self._tasks.start_soon(self._end_strays, agent)

    async def switch(self, stops: Sequence[Key], continues: Sequence[Key]) -> Stands:
        """Have attempts stand still where they are, and others go on in their place.

        Raises:
            BackendError: an agent cannot do it.
        """
        return await self._gangs.switch(stops, continues)

    async def store_environments(self, given: Mapping[JobId, Mapping[str, str]]) -> None:
        """Store what only the processes of jobs may see; what was stored before is gone.

        Raises:
            BackendError: it cannot be stored.
        """
        await to_thread.run_sync(environments.store_all, self._owner.root, given)

    async def old_jobs(self, keep_s: float) -> list[JobId]:
        """Return the jobs unchanged for so long; none while an agent is silent."""
        return await self._locations.old_jobs(keep_s)

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended."""
        await self._locations.remove_attempts(jobs)

    async def read_output(
        self, job_id: JobId, attempt: int, rank: int, stream: str, offset: int, size: int
    ) -> tuple[bytes, int | None]:
        """Return a piece of what a rank printed, and how much there is; None: nothing is.

        Raises:
            BackendError: its agent does not answer.
        """
        return await self._locations.read_output(job_id, attempt, rank, stream, offset, size)

    async def came_up(self, agent: NodeAgent) -> None:
        """Handle an agent that answers; what became of its attempts follows.

        What was given up while it was silent may run there all the same: until that is over, its
        servers are not reachable for anything new.
        """
        self._share_notices.put_means(agent.name, agent.shares)
        if self._has_recovered and await self._locations.strays(agent, self._is_watched):
            self._tasks.start_soon(self._end_strays, agent)
        else:
            self._reachability.note_up(agent)

    def became_unreachable(self, agent: NodeAgent) -> None:
        """Handle an agent that does not answer; its jobs have not failed."""
        self._reachability.note_silent(agent)
        self._gangs.cut_off(agent)

    def was_lost(self, agent: NodeAgent) -> None:
        """Handle a node on which nothing can run any more."""
        self._reachability.note_lost(agent)
        self._gangs.lose(agent)

    def was_replaced(self, cause: str) -> None:
        """Handle a newer scheduler: this one must not go on."""
        if self._is_open:  # else whoever opens this is told
            self._tasks.start_soon(_give_up, cause)

    def changed(self, agent: NodeAgent, known: Sequence[Known]) -> None:
        """Receive what has become of attempts under an agent."""
        self._gangs.learn(agent, known)
        if known:
            failpoint("attempts seen")

    def looked(
        self, agent: NodeAgent, samples: Sequence[Sample], gpus: Sequence[GpuReading] | None
    ) -> None:
        """Receive samples of a node; orders that nobody took are given again."""
        self._samples.take(agent.name, samples, gpus, agent.transport.servers)
        self._gangs.give_again(agent)

    async def _obey(self, effect: Effect) -> None:
        if isinstance(effect, Launch | Resume):
            key = effect.job_id, effect.attempt
            self._launching.add(key)
            try:
                await self._launch(effect)
            finally:
                self._launching.discard(key)
        elif isinstance(effect, SetAside):
            self._gangs.set_aside(effect)
        elif isinstance(effect, Reshape):
            self._gangs.reshape(effect, self._held_to(effect.allocation))
        elif isinstance(effect, Weigh):
            self._gangs.weigh(effect)
        elif isinstance(effect, ShareTurns):
            self._gangs.share_turns(effect)
        elif isinstance(effect, Fence):
            if not effect.is_alone:  # what is ended alone each host is asked for: `_end_strays`
                await self._fence(effect)
        else:
            self._send(effect)

    async def _launch(self, effect: Launch | Resume) -> None:
        job_id, attempt = effect.job_id, effect.attempt
        if attempt <= self._newest.get(job_id, 0):
            return
        self._newest[job_id] = attempt
        nodes = tuple(share.node for share in effect.allocation.shares)
        source: tuple[NodeName, ...] = ()
        try:
            orders = await self._launches.orders_of(effect)
            if isinstance(effect, Resume):
                sources = await self._locations.sources(effect)
                source = sources[0] if sources else ()
                user = effect.spec.user
                await self._transfer.bring(job_id, attempt, user, sources, tuple(orders))
                self._launches.check_drains(nodes)  # again: that may have taken long
        except DrainingError as error:  # the server goes, and no launch of the job has failed
            self._launches.settle(job_id)
            drain = str(error)
            self._inbox.put(lambda at_us: AttemptLost(at_us, job_id, attempt, drain))
            return
        except BackendError as error:
            self._launches.settle(job_id)
            why = str(error), error.retryable, source, False, type(error) is StaysError
            self._inbox.put(lambda at_us: LaunchFailed(at_us, job_id, attempt, *why))
            return
        self._locations.note(job_id, attempt, nodes)
        watch = Watch(job_id, attempt, self._moved_from.pop(job_id, ()), planned=effect.allocation)
        port = next(iter(orders.values())).port
        parts = {name: Part.starting(own) for name, own in orders.items()}
        gang = Gang(watch, parts, nodes, port=port, given=effect.allocation)
        gang.shares, gang.weight = self._held_to(effect.allocation), effect.spec.weight
        self._gangs.add(gang)
        self._launches.settle(job_id)
        await self._launches.start(gang, orders)
        if not watch.is_over:  # by news that came right behind the answers
            self._gangs.watch(gang)
            self._gangs.settle(gang)

    async def _fence(self, effect: Fence) -> None:
        """Let nothing up to an attempt run, wherever it may."""
        job_id, attempt = effect.job_id, effect.attempt
        gang = self._gangs.get(job_id)
        if gang is not None and gang.watch.attempt <= attempt:
            self._gangs.ask(gang, effect)
        for name in self._locations.up_to(job_id, attempt):
            if (host := self.agents[name]).is_up:  # one that was silent ends what is not watched
                with suppress(BackendError):
                    await host.ask(messages.Fence(job=job_id, attempt=attempt))

    def _send(self, effect: Effect) -> None:
        job_id, gang = effect.job_id, self._gangs.get(effect.job_id)
        if gang is None and isinstance(effect, Terminate):
            self._newest[job_id] = max(effect.attempt, 1, self._newest.get(job_id, 0))
        elif gang is not None and gang.watch.attempt == effect.attempt:
            if isinstance(effect, Migrate):
                self._moved_from[job_id] = gang.nodes
            self._gangs.ask(gang, effect)

    def _held_to(self, allocation: Allocation) -> dict[NodeName, Shares]:
        """Return what an attempt is to be held to under each agent, where jobs are sized."""
        if not self._is_sized:
            return {}
        named = {share.node: self._agent_of.get(share.node) for share in allocation.shares}
        agents = {node: self.agents[name].transport for node, name in named.items() if name}
        return shares_of(allocation, agents)

    async def _end_strays(self, agent: NodeAgent) -> None:
        try:
            await self._locations.end_strays(agent, self._is_watched)
        except BackendError:
            return  # its return begins this anew
        self._reachability.note_up(agent)

    def _is_watched(self, job_id: JobId, attempt: int, name: NodeName) -> bool:
        """Say whether an attempt under an agent is one that is to run there."""
        return self._gangs.is_to_run(job_id, attempt, name, self._launching)


async def _give_up(cause: str) -> None:
    raise BackendError(cause)
