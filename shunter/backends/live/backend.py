"""A cluster whose servers have agents: one session with each, one supervisor an attempt and node.

Orders of one job run in sequence, those of different jobs at once. The supervisors' records say
what comes of them. An order whose answer is lost is unknown until the agent answers again or no
supervisor can be alive any more; nothing starts again before that.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter.backends.live.attempt_locations import STRAYS_S, AttemptLocations
from shunter.backends.live.checkpoint_lists import StaysError
from shunter.backends.live.checkpoint_transfer import CheckpointTransfer
from shunter.backends.live.gang import LOST, Gang, Part, deliver, end_unbelieved, told_of
from shunter.backends.live.inbox import Inbox
from shunter.backends.live.launching import DrainingError, Launches, OrderQueue, Reachability
from shunter.backends.live.node_agent import NodeAgent, ask_all
from shunter.backends.live.orders import ShareNotices, refusal_in_words, shares_of, store_all
from shunter.backends.live.samples import SampleCollector
from shunter.backends.live.settings import Limits, Owner, Socket
from shunter.backends.live.transport import NO_DEVICE, Server, Transport, UnreachedError, run_verb
from shunter.backends.live.watch import Watch
from shunter.backends.node import (
    GpuReading,
    Known,
    Sample,
    Shares,
    Switch,
    Wiring,
    failpoint,
    messages,
)
from shunter.backends.turn_timetables import timetables
from shunter.core import (
    Effect,
    Fence,
    Input,
    Launch,
    Migrate,
    ReshapeAttempt,
    Resume,
    SetAside,
    ShareTurns,
    Tenant,
    Terminate,
    Weigh,
)
from shunter.errors import BackendError
from shunter.events import Allocation, AttemptLost, JobId, LaunchFailed, NodeName, ReshapeRefused

# The gangs under way. A gang that was set aside is ended unread, and reported lost at its end.

Key = tuple[JobId, int]
Stands = Mapping[Key, Mapping[NodeName, str]]
UNKNOWN = "unknown"
"""How an attempt stands where its agent did not answer."""


class LiveGangs(Mapping[JobId, Gang]):
    """The gang of each job that has one.

    Args:
        inbox: where what becomes of them is told.
        agents: all of them, by their names.
        tasks: where orders are delivered.
        limits: what attempts are held to.
        tell: told of gangs that keep other shares than they were to have.
        drain_of: returns why a server is about to go; nothing if it is not.
    """

    def __init__(
        self,
        inbox: Inbox,
        agents: Mapping[NodeName, NodeAgent],
        tasks: TaskGroup,
        limits: Limits,
        tell: Callable[[str], None],
        drain_of: Callable[[NodeName], str],
    ) -> None:
        self._inbox = inbox
        self._agents = agents
        self._tasks = tasks
        self._quantum_us = 0 if limits.slicing is None else limits.slicing.quantum_us
        self._tell = tell
        self._drain_of = drain_of
        self._gangs: dict[JobId, Gang] = {}

    def __getitem__(self, job_id: JobId) -> Gang:
        """Return the gang of a job."""
        return self._gangs[job_id]

    def __iter__(self) -> Iterator[JobId]:
        """Iterate over the jobs that have one."""
        return iter(self._gangs)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._gangs)

    def attempt(self, job_id: JobId, number: int) -> Gang | None:
        """Return the gang of an attempt; None if another one, or none, is under way."""
        gang = self._gangs.get(job_id)
        return gang if gang is not None and gang.watch.attempt == number else None

    def add(self, gang: Gang, noted: Mapping[NodeName, int] | None = None) -> None:
        """Take in a gang that is about to begin, or of which so much has been told."""
        self._gangs[gang.watch.job_id] = gang
        for name, part in gang.parts.items():
            own = self._agents[name].nodes
            part.nodes = tuple(node for node in gang.nodes if node in own)
        gang.skip(noted or {})
        self._retime()

    def watch(self, gang: Gang) -> None:
        """Look at a gang from now on; what was told of it before comes again."""
        for name, part in gang.parts.items():
            agent = self._agents[name]
            agent.watch(gang.watch.job_id, gang.watch.attempt, part.reading)
            if agent.is_lost:
                part.is_gone = True

    def ask(self, gang: Gang, effect: Effect) -> None:
        """Have all parts of a gang given an order."""
        gang.ask(effect)
        self._retime()  # who stands still in place leaves its turns to others
        self.settle(gang)

    def reshape(self, effect: ReshapeAttempt, shares: Mapping[NodeName, Shares]) -> None:
        """Have an attempt held to other shares, or take turns on other GPUs as its own."""
        if gang := self.attempt(effect.job_id, effect.attempt):
            gang.given, gang.shares = effect.allocation, shares
            self._retime()
            self.settle(gang)

    def weigh(self, effect: Weigh) -> None:
        """Have an attempt take turns of another weight."""
        if gang := self.attempt(effect.job_id, effect.attempt):
            gang.weight = effect.weight
            self._retime()
            self.settle(gang)

    def share_turns(self, effect: ShareTurns) -> None:
        """Have an attempt take its turns together with others, or alone again."""
        gang = self.attempt(effect.job_id, effect.attempt)
        if gang is None:
            return
        if effect.beside:
            names = (effect.job_id, *effect.beside)
            pack, gangs = f"{effect.job_id}.{effect.attempt}", [self._gangs.get(n) for n in names]
        else:
            pack, gangs = "", [each for each in self._gangs.values() if each.pack == gang.pack]
        for each in gangs:
            if each is not None and each.pack != pack:
                each.pack = pack
                self.settle(each)

    def set_aside(self, effect: SetAside) -> None:
        """Believe nothing more of an attempt, and end it wherever it may run."""
        gang = self.attempt(effect.job_id, effect.attempt)
        if gang is not None:
            gang.watch.is_set_aside = True
            self._unwatch(gang)
            self._tasks.start_soon(self._end_unbelieved, gang)

    def settle(self, gang: Gang) -> None:
        """Tell what is new of a gang, and have given what is due to its parts."""
        if gang.watch.is_over or gang.watch.is_set_aside:
            return
        drain = next((why for node in gang.nodes if (why := self._drain_of(node))), "")
        self._inbox.put_all(told_of(gang, self._inbox, drain))
        watch = gang.watch
        if watch.is_over:
            self._unwatch(gang)
            self._forget(gang)
        elif gang.is_owed and not gang.is_delivering:
            gang.is_delivering = True
            self._tasks.start_soon(deliver, gang, self._agents, self._refused)

    def learn(self, agent: NodeAgent, known: Sequence[Known]) -> None:
        """Take in what has become of attempts under an agent."""
        for record in known:
            gang = self.attempt(JobId(record.job), record.attempt)
            part = gang.parts.get(agent.name) if gang is not None else None
            if gang is not None and part is not None and not part.is_gone:
                part.learn(record)
                self.settle(gang)
                if not record.is_all:
                    agent.look(record.job, record.attempt)

    def give_again(self, agent: NodeAgent) -> None:
        """Give orders again that nobody took under an agent."""
        for gang in list(self._gangs.values()):
            if agent.name in gang.parts:
                self.settle(gang)

    def cut_off(self, agent: NodeAgent) -> None:
        """Know of nothing more under an agent until it tells something again."""
        for gang in self._gangs.values():
            if agent.name in gang.parts:
                gang.parts[agent.name].is_cut_off = True

    def lose(self, agent: NodeAgent) -> None:
        """Take what is not over under an agent for gone: nothing can run there any more."""
        for gang in list(self._gangs.values()):
            part = gang.parts.get(agent.name)
            if part is not None and not part.is_over and not gang.watch.is_set_aside:
                part.is_gone = True
                self.settle(gang)

    def is_to_run(
        self, job_id: JobId, number: int, name: NodeName, launching: Collection[tuple[JobId, int]]
    ) -> bool:
        """Say whether an attempt under an agent is one that is to run there, or may soon."""
        gang = self.attempt(job_id, number)
        if gang is None:
            return (job_id, number) in launching
        return name in gang.parts and not gang.parts[name].is_gone

    async def switch(self, stops: Sequence[Key], continues: Sequence[Key]) -> Stands:
        """Have attempts stand still, and others go on; return how each stands, by agent.

        Each agent is asked one question, all at once: on a node nobody goes on before the others
        there stand still, but nodes do not wait for each other. An attempt that is not under way
        stands nowhere; where an agent does not answer it is `UNKNOWN`, and may be asked again.

        Raises:
            BackendError: an agent cannot do it; others have done what they could.
        """
        keys = (*stops, *continues)
        there = {key: gang for key in keys if (gang := self.attempt(*key)) is not None}
        stands: dict[Key, dict[NodeName, str]] = {key: {} for key in keys}
        questions: dict[NodeAgent, Switch] = {}
        for name in sorted({name for gang in there.values() for name in gang.parts}):
            here = [key for key, gang in there.items() if name in gang.parts]
            for key in here:
                stands[key][name] = UNKNOWN  # it may have been done all the same
            questions[self._agents[name]] = Switch(
                stops=tuple(key for key in stops if key in here),
                continues=tuple(key for key in continues if key in here),
            )
        errors = list[BackendError]()
        for name, answer in (await ask_all(questions)).items():
            if isinstance(answer, BackendError):
                errors += [] if isinstance(answer, UnreachedError) else [answer]
                continue
            for each in answer.stands:
                if name in (of_job := stands.get((JobId(each.job), each.attempt), {})):
                    of_job[name] = each.stance
        for key, gang in there.items():
            gang.note_switch("stop" if key in stops else "continue", stands[key])
        self._retime()
        if errors:
            raise errors[0]
        return stands

    def _refused(self, gang: Gang, fact: ReshapeRefused) -> None:
        """Tell of a gang that keeps other shares than it was to have."""
        self._tell(refusal_in_words(fact))
        self._inbox.put(lambda at_us: replace(fact, at_us=at_us))

    async def _end_unbelieved(self, gang: Gang) -> None:
        await end_unbelieved(gang, self._agents, STRAYS_S)
        self._inbox.put_all(gang.watch.tell(LOST, [], self._inbox))
        self._forget(gang)

    def _forget(self, gang: Gang) -> None:
        if self._gangs.get(gang.watch.job_id) is gang:
            del self._gangs[gang.watch.job_id]
            self._retime()

    def _retime(self) -> None:
        """Make the timetables of gangs anew, and have those told that changed."""
        turning = {
            name: gang
            for name, gang in self._gangs.items()
            if gang.takes_turns and gang.stance != "stop"
        }
        if not any(gang.given.is_spread for gang in turning.values()):
            return
        tenants = {
            name: Tenant(gang.given.shares, gang.weight)
            for name, gang in turning.items()
            if gang.weight is not None
        }
        changed = list[Gang]()
        for name, timetable in timetables(tenants, self._quantum_us).items():
            gang = self._gangs[name]
            if gang.timetable != timetable:
                gang.timetable = timetable.period_us, timetable.first_us, timetable.length_us
                changed.append(gang)
        for gang in changed:  # to settle one may be to forget it, and to make them anew
            self.settle(gang)

    def _unwatch(self, gang: Gang) -> None:
        for name in gang.parts:
            self._agents[name].unwatch(gang.watch.job_id, gang.watch.attempt)


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
        self._is_limited = limits.is_limited
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
        self._reachability = Reachability(self._inbox, self.doubt_of)
        self._is_open = self._has_recovered = False
        self._launches = Launches(
            limits, owner, self.agents, self._agent_of, self._gangs, self._refusal_of
        )
        self._samples = SampleCollector(self._inbox, self._gangs, limits)
        self._orders = OrderQueue(self._tasks, self._obey)
        # What is asked of this backend and one part of it answers.
        self.post, self.now_us = self._inbox.put, self._inbox.now_us
        self.switch, self.share_notice = self._gangs.switch, self._share_notices.take
        self.inventory, self.read_output = self._locations.inventory, self._locations.read_output
        self.old_jobs = self._locations.old_jobs
        self.remove_attempts = self._locations.remove_attempts

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
        """The servers whose agents do not answer, or that take nothing new yet."""
        return frozenset(self.causes)

    @property
    def causes(self) -> Mapping[NodeName, str]:
        """Why servers do not answer, or take nothing new yet, and how to mend it."""
        found: dict[NodeName, str] = {}
        for each in self.agents.values():
            for node in each.nodes:
                if not each.is_up:
                    found[node] = each.transport.reason or each.cause
                elif doubt := self.doubt_of(node):
                    found[node] = doubt
        return found

    def drain_of(self, node: NodeName) -> str:
        """Return why a server that answers is about to go; nothing if it is not."""
        return ""

    def doubt_of(self, node: NodeName) -> str:
        """Return why a server that answers takes nothing new yet; nothing if it does."""
        return ""

    def launch_wait(self, job_id: JobId) -> str:
        """Return what the launch of a job waits for; nothing if it does not."""
        return ""

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Wait for inputs; a live world gathers nothing, it hands over what it sees."""
        return await self._inbox.observe(until_us)

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

    async def store_environments(self, given: Mapping[JobId, Mapping[str, str]]) -> None:
        """Store what only the processes of jobs may see; what was stored before is gone.

        Raises:
            BackendError: it cannot be stored.
        """
        await to_thread.run_sync(store_all, self._owner.root, given)

    async def came_up(self, agent: NodeAgent) -> None:
        """Handle an agent that answers; what became of its attempts follows.

        What was given up while it was silent may run there all the same: until that is over, its
        servers are not reachable for anything new.
        """
        self._share_notices.put_means(agent.name, agent.shares)
        await self.note_up(agent)

    async def note_up(self, agent: NodeAgent) -> None:
        """Have the servers of an agent that answers take new jobs, where they may.

        They may not while something that was given up runs there, nor while they are in doubt.
        """
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

    def _refusal_of(self, node: NodeName) -> str:
        """Return why nothing is started on a server that answers; nothing if it may be."""
        return self.doubt_of(node) or self.drain_of(node)

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
        elif isinstance(effect, ReshapeAttempt):
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
        port = next(iter(orders.values())).port or 0
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
        if not self._is_limited:
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


# How the GPUs of servers are wired.

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
                told = await run_verb(
                    link, agent.name, words, limit_s=WIRING_S, shape=Wiring.decoded
                )
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
