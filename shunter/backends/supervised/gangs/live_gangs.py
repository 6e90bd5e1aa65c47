"""The gangs that are under way: watched at their agents, told of, and given what is due to them.

At most one of each job. One that has begun is watched until it is over and that was told; one that
was set aside is ended unread, and told lost once nothing of it runs.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from shunter.backends.agents.attempt_records import Known
from shunter.backends.agents.messages import Switch
from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.agents.orders import Shares
from shunter.backends.agents.settings import Limits
from shunter.backends.agents.transport import UnreachedError
from shunter.backends.inbox import Inbox
from shunter.backends.supervised.attempt_locations import STRAYS_S
from shunter.backends.supervised.gangs.delivery import deliver, end_unbelieved
from shunter.backends.supervised.gangs.gang import LOST, Gang, told_of
from shunter.backends.supervised.shares import refusal_in_words
from shunter.backends.timetables import timetables
from shunter.core.effects import Effect, Reshape, SetAside, ShareTurns, Weigh
from shunter.core.performance.gang_slots import Tenant
from shunter.errors import BackendError
from shunter.events.facts.execution import ReshapeRefused
from shunter.events.values.ids import JobId, NodeName

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

    def reshape(self, effect: Reshape, shares: Mapping[NodeName, Shares]) -> None:
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
        errors: list[BackendError] = []

        async def ask(name: NodeName) -> None:
            here = [key for key, gang in there.items() if name in gang.parts]
            question = Switch(
                stops=tuple(key for key in stops if key in here),
                continues=tuple(key for key in continues if key in here),
            )
            told = dict.fromkeys(here, UNKNOWN)
            try:
                answer = await self._agents[name].ask(question)
                told |= {(JobId(each.job), each.attempt): each.stance for each in answer.stands}
            except UnreachedError:
                pass  # it may have been done all the same
            except BackendError as error:
                errors.append(error)
            for key in here:
                stands[key][name] = told[key]

        async with anyio.create_task_group() as tasks:
            for name in sorted({name for gang in there.values() for name in gang.parts}):
                tasks.start_soon(ask, name)
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
        """Make the timetables of gangs anew, and have those told that changed.

        One that was just found again has no weight until the scheduler tells it.
        """
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
