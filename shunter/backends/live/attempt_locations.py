"""Where attempts have run: noted since the start, and asked of the agents where it is older.

Checkpoints and output lie there, and what runs unwatched must be found to be ended.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import anyio

from shunter.backends.live.node_agent import NodeAgent, ask_all
from shunter.backends.live.transport import UnreachedError, run_verb
from shunter.backends.node import Inventory, Known, Read, SetAside, Shape, State
from shunter.backends.node.host import Ages, Removed
from shunter.core import Resume
from shunter.errors import BackendError
from shunter.events import JobId, NodeName

T = TypeVar("T")
IsWatched = Callable[[JobId, int, NodeName], bool]
ALIVE = ("starting", "running", "lost")  # what is lost may have left processes behind
STRAYS_S = 0.1
AGES_S = 600.0  # for looking through all attempts there ever were, and removing many


class AttemptLocations:
    """The servers of each attempt in order of rank, and their agents."""

    def __init__(
        self, agents: Mapping[NodeName, NodeAgent], agent_of: Mapping[NodeName, NodeName]
    ) -> None:
        self._agents = agents
        self._agent_of = agent_of
        self._locations: dict[JobId, dict[int, tuple[NodeName, ...]]] = {}

    def note(self, job_id: JobId, attempt: int, nodes: tuple[NodeName, ...]) -> None:
        """Note where an attempt runs."""
        self._locations.setdefault(job_id, {})[attempt] = nodes

    def of(self, job_id: JobId, attempt: int) -> tuple[NodeName, ...]:
        """Return the servers of an attempt; none if nobody knows of it."""
        return self._locations.get(job_id, {}).get(attempt, ())

    def agents_of(self, nodes: Sequence[NodeName]) -> tuple[NodeName, ...]:
        """Return the agents of servers; an only one is that of unknown ones too."""
        if not nodes and len(self._agents) == 1:
            return tuple(self._agents)
        return tuple(dict.fromkeys(self._agent_of.get(node, node) for node in nodes))

    def up_to(self, job_id: JobId, attempt: int) -> tuple[NodeName, ...]:
        """Return all agents under which attempts up to one have run."""
        known = self._locations.get(job_id, {})
        nodes = [node for number in sorted(known) if number <= attempt for node in known[number]]
        return self.agents_of(nodes)

    async def read_output(
        self, job_id: JobId, attempt: int, rank: int, stream: str, offset: int, size: int
    ) -> tuple[bytes, int | None]:
        """Return a piece of what a rank printed, and how much there is; None: nothing is.

        Raises:
            BackendError: its agent does not answer.
        """
        found = await self._of_rank(job_id, attempt, rank)
        if found is None:
            return b"", None
        agent, number = found
        name = f"{stream}.{number}"
        question = Read(job=job_id, attempt=attempt, name=name, offset=offset, bytes=size)
        answer = await agent.ask(question)
        return answer.data.encode("latin-1"), answer.size

    async def _of_rank(
        self, job_id: JobId, attempt: int, rank: int
    ) -> tuple[NodeAgent, int] | None:
        """Return under which agent a rank of an attempt ran, and which it was there.

        Of a job that ended long ago too; None if nobody knows of it.

        Raises:
            BackendError: an agent that may know does not answer.
        """
        if not self.of(job_id, attempt):
            await self._ask_about(job_id)
            silent = [agent.cause for agent in self._agents.values() if not agent.is_up]
            if silent and not self.of(job_id, attempt):
                raise BackendError(silent[0], retryable=True)
        named = [self._agent_of.get(node, node) for node in self.of(job_id, attempt)]
        if rank >= len(named):
            return None
        return self._agents[named[rank]], named[:rank].count(named[rank])

    async def before(self, job_id: JobId, attempt: int) -> list[tuple[NodeName, ...]]:
        """Return the hosts of earlier attempts, newest first, as far as they are known.

        Raises:
            BackendError: a host does not answer any more.
        """
        if any(not self.of(job_id, number) for number in range(1, attempt)):
            await self._ask_about(job_id)  # of an earlier term, say
        known = self._locations.get(job_id, {})
        return [known[number] for number in sorted(known, reverse=True) if number < attempt]

    async def sources(self, effect: Resume) -> list[tuple[NodeName, ...]]:
        """Return the hosts that may have checkpoints of a job, the newest first.

        Where the log does not say (it is of an older version), the hosts are asked.

        Raises:
            BackendError: a host does not answer any more.
        """
        if len(self._agents) == 1:  # which has all there are
            return []
        if effect.checkpoints is not None:
            told = [self.agents_of(nodes) for nodes in effect.checkpoints]
            return [names for names in told if all(name in self._agents for name in names)]
        before = await self.before(effect.job_id, effect.attempt)
        return [
            names
            for names in map(self.agents_of, before)
            if all(name in self._agents and not self._agents[name].is_lost for name in names)
        ]

    async def old_jobs(self, keep_s: float) -> list[JobId]:
        """Return the jobs of which nothing has changed for so long on any host.

        None while a host does not answer: it may have something younger of any job.

        Raises:
            BackendError: a host does not answer any more, or cannot say what it has.
        """
        old, young = set[str](), set[str]()
        for found in await self._run_verb("ages", {"keep_s": keep_s}, Ages.decoded):
            old.update(found.old)
            young.update(found.young)
        return [JobId(job) for job in sorted(old - young)]

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended, on all hosts or on none.

        Raises:
            BackendError: a host does not answer any more, or cannot remove something.
        """
        answers = await self._run_verb("prune", {"jobs": jobs}, Removed.decoded)
        told = [answer.error for answer in answers if answer.error]
        if told:
            raise BackendError(told[0], retryable=True)

    async def _run_verb(self, verb: str, told: Mapping[str, object], shape: Shape[T]) -> list[T]:
        """Ask all hosts in processes of their own; nobody while one of them is silent."""
        if not all(agent.is_up for agent in self._agents.values()):
            return []
        found = []
        for agent in self._agents.values():
            async with agent.programs() as link:
                words = [verb, agent.root]
                found.append(
                    await run_verb(link, agent.name, words, limit_s=AGES_S, shape=shape, told=told)
                )
        return found

    async def strays(self, agent: NodeAgent, is_watched: IsWatched) -> list[Known]:
        """Return what runs under an agent, and is not watched there.

        Raises:
            BackendError: it does not answer.
        """
        found = (await agent.ask(Inventory(wanted=()))).attempts
        return [
            each
            for each in found
            if each.state in ALIVE and not is_watched(JobId(each.job), each.attempt, agent.name)
        ]

    async def end_strays(self, agent: NodeAgent, is_watched: IsWatched) -> None:
        """End what was given up, also in an earlier term, and wait for its end.

        No fence is raised: what is found may have a number that its job has yet to get.

        Raises:
            BackendError: the agent does not answer any more.
        """
        while strays := await self.strays(agent, is_watched):
            for each in strays:
                await agent.ask(SetAside(job=each.job, attempt=each.attempt, is_stray=True))
            await anyio.sleep(STRAYS_S)

    async def inventory(self, wanted: Collection[tuple[JobId, int]] | None = None) -> list[Known]:
        """Return the records of all attempts, or some and all that run, gangs as one.

        An attempt of which an agent knows that does not answer counts as running.
        """
        found: dict[tuple[str, int], dict[NodeName, Known]] = {}
        keys = None if wanted is None else list(wanted)
        for name, told in (await self._told(wanted=keys)).items():
            if isinstance(told, UnreachedError):
                continue  # what the log says of it is all there is
            records = [record for record in told if record.state != "absent"]
            self._note_all(name, records)
            for record in records:
                found.setdefault((record.job, record.attempt), {})[name] = record
        return [
            self._joined(JobId(job), attempt, parts)
            for (job, attempt), parts in sorted(found.items())
        ]

    async def _ask_about(self, job_id: JobId) -> None:
        """Ask all hosts that answer about one job."""
        for name, told in (await self._told(job=job_id)).items():
            if isinstance(told, UnreachedError):
                raise told
            self._note_all(name, told)

    async def _told(
        self, job: JobId | None = None, wanted: list[tuple[JobId, int]] | None = None
    ) -> dict[NodeName, list[Known] | UnreachedError]:
        """Ask all hosts that answer, at once; return what each tells, if it does."""
        asked = Inventory(job=job, wanted=None if wanted is None else tuple(wanted))
        up = [agent for agent in self._agents.values() if agent.is_up]
        told: dict[NodeName, list[Known] | UnreachedError] = {}
        for name, answer in (await ask_all(dict.fromkeys(up, asked))).items():
            if isinstance(answer, BackendError) and not isinstance(answer, UnreachedError):
                raise answer
            told[name] = answer if isinstance(answer, UnreachedError) else [*answer.attempts]
        return told

    def _joined(self, job_id: JobId, attempt: int, parts: Mapping[NodeName, Known]) -> Known:
        """Return what the hosts of an attempt know, with the records of the first."""
        first = next(iter(parts.values()))
        return first.replaced(state=self._state(job_id, attempt, parts))

    def _state(self, job_id: JobId, attempt: int, parts: Mapping[NodeName, Known]) -> State:
        names = self.agents_of(self.of(job_id, attempt)) or tuple(parts)
        if any(not self._agents[name].is_up for name in names if name in self._agents):
            return "running"
        states = [parts[name].state if name in parts else "absent" for name in names]
        order = ("running", "starting", "absent", "lost", "ended")
        return min(states, key=order.index)

    def _note_all(self, name: NodeName, records: list[Known]) -> None:
        own = [server.name for server in self._agents[name].transport.servers]
        for record in records:
            started = record.started
            named = [NodeName(node) for node, _ in started.placement] if started else []
            # One that names servers which are none of ours ran here at least.
            is_ours = bool(named) and all(node in self._agent_of for node in named)
            job_id = JobId(record.job)
            if started or not self.of(job_id, record.attempt):
                self.note(job_id, record.attempt, tuple(named if is_ours else own))
