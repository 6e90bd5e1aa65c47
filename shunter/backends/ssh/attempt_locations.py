"""Where attempts have run: noted since the start, and asked of the hosts where it is older.

A job's newest checkpoints lie where its last attempt ran, its output where each one did, and what
runs somewhere though nobody watches it must be found to be ended.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import anyio

from shunter.backends.node.messages.shapes import COUNT_MOST, a_list, a_record, a_text, a_whole
from shunter.backends.node.messages.wire import Ages, Found, Known, Removed, Shape, State
from shunter.backends.ssh.connecting import UnreachedError
from shunter.backends.ssh.host_connection import HostConnection
from shunter.backends.ssh.rpc import run_verb
from shunter.core.effects import Resume
from shunter.errors import BackendError
from shunter.events.values.ids import JobId, NodeName

__all__ = ["AttemptLocations"]

T = TypeVar("T")
_NAMES = a_list(a_text(256), COUNT_MOST)
_AGES: Shape[Ages] = a_record({"old": _NAMES, "young": _NAMES})
_REMOVED: Shape[Removed] = a_record({"removed": a_whole(), "error": a_text(COUNT_MOST)})
IsWatched = Callable[[JobId, int, NodeName], bool]
ALIVE = ("starting", "running", "lost")  # what is lost may have left processes behind
STRAYS_S = 0.1
AGES_S = 600.0  # for looking through all attempts there ever were, and removing many


class AttemptLocations:
    """The hosts of each attempt, in order of rank."""

    def __init__(self, connections: Mapping[NodeName, HostConnection]) -> None:
        self._connections = connections
        self._locations: dict[JobId, dict[int, tuple[NodeName, ...]]] = {}

    def note(self, job_id: JobId, attempt: int, nodes: tuple[NodeName, ...]) -> None:
        """Note where an attempt runs."""
        self._locations.setdefault(job_id, {})[attempt] = nodes

    def of(self, job_id: JobId, attempt: int) -> tuple[NodeName, ...]:
        """Return the hosts of an attempt; none if nobody knows of it."""
        return self._locations.get(job_id, {}).get(attempt, ())

    def up_to(self, job_id: JobId, attempt: int) -> list[NodeName]:
        """Return all hosts on which attempts up to one have run."""
        known = self._locations.get(job_id, {})
        nodes = [node for number in sorted(known) if number <= attempt for node in known[number]]
        return list(dict.fromkeys(nodes))

    async def of_rank(self, job_id: JobId, attempt: int, rank: int) -> NodeName | None:
        """Return where a rank of an attempt ran, of a job that ended long ago too.

        None if no host knows of it.

        Raises:
            BackendError: a host that may know does not answer.
        """
        if not self.of(job_id, attempt):
            await self._ask_about(job_id)
            silent = [
                connection.cause
                for connection in self._connections.values()
                if not connection.is_up
            ]
            if silent and not self.of(job_id, attempt):
                raise BackendError(silent[0], retryable=True)
        nodes = self.of(job_id, attempt)
        return nodes[rank] if rank < len(nodes) else None

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
        connections = self._connections
        if effect.checkpoints is not None:
            return [
                nodes for nodes in effect.checkpoints if all(one in connections for one in nodes)
            ]
        before = await self.before(effect.job_id, effect.attempt)
        return [
            nodes
            for nodes in before
            if all(one in connections and not connections[one].is_lost for one in nodes)
        ]

    async def old_jobs(self, keep_s: float) -> list[JobId]:
        """Return the jobs of which nothing has changed for so long on any host.

        None while a host does not answer: it may have something younger of any job.

        Raises:
            BackendError: a host does not answer any more, or cannot say what it has.
        """
        old, young = set[str](), set[str]()
        for found in await self._run_verb("ages", {"keep_s": keep_s}, _AGES):
            old.update(found["old"])
            young.update(found["young"])
        return [JobId(job) for job in sorted(old - young)]

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended, on all hosts or on none.

        Raises:
            BackendError: a host does not answer any more, or cannot remove something.
        """
        answers = await self._run_verb("prune", {"jobs": jobs}, _REMOVED)
        told = [answer["error"] for answer in answers if answer["error"]]
        if told:
            raise BackendError(told[0], retryable=True)

    async def _run_verb(self, verb: str, told: Mapping[str, object], shape: Shape[T]) -> list[T]:
        """Ask all hosts in processes of their own; nobody while one of them is silent."""
        if not all(connection.is_up for connection in self._connections.values()):
            return []
        found = []
        for connection in self._connections.values():
            async with connection.channel() as ssh:
                words = [connection.path, verb, connection.root]
                found.append(
                    await run_verb(
                        ssh, connection.host, words, limit_s=AGES_S, shape=shape, told=told
                    )
                )
        return found

    async def strays(self, connection: HostConnection, is_watched: IsWatched) -> list[Known]:
        """Return what runs on a host and belongs to no attempt that is watched there.

        Raises:
            BackendError: the host does not answer.
        """
        found = (await connection.ask("inventory", wanted=[]))["attempts"]
        return [
            each
            for each in found
            if each["state"] in ALIVE
            and not is_watched(JobId(each["job"]), each["attempt"], connection.host.name)
        ]

    async def end_strays(self, connection: HostConnection, is_watched: IsWatched) -> None:
        """End what was given up, also in an earlier term, and wait for its end.

        No fence is raised: what is found may have a number that its job has yet to get.

        Raises:
            BackendError: the host does not answer any more.
        """
        while strays := await self.strays(connection, is_watched):
            for each in strays:
                await connection.ask(
                    "set_aside", job=each["job"], attempt=each["attempt"], is_stray=True
                )
            await anyio.sleep(STRAYS_S)

    async def inventory(self, wanted: Collection[tuple[JobId, int]] | None) -> list[Found]:
        """Return what all hosts that answer know, one record an attempt."""
        found: dict[tuple[str, int], dict[NodeName, Known]] = {}
        keys = None if wanted is None else list(wanted)
        for node, told in (await self._told(wanted=keys)).items():
            if isinstance(told, UnreachedError):
                continue  # what the log says of it is all there is
            records = [record for record in told if record["state"] != "absent"]
            self._note_all(node, records)
            for record in records:
                found.setdefault((record["job"], record["attempt"]), {})[node] = record
        return [
            self._joined(JobId(job), attempt, parts)
            for (job, attempt), parts in sorted(found.items())
        ]

    async def _ask_about(self, job_id: JobId) -> None:
        """Ask all hosts that answer about one job."""
        for node, told in (await self._told(job=job_id)).items():
            if isinstance(told, UnreachedError):
                raise told
            self._note_all(node, told)

    async def _told(
        self, job: JobId | None = None, wanted: list[tuple[JobId, int]] | None = None
    ) -> dict[NodeName, list[Known] | UnreachedError]:
        """Ask all hosts that answer, at once; return what each tells, if it does.

        Raises:
            BackendError: a host cannot say what it has.
        """
        told: dict[NodeName, list[Known] | UnreachedError] = {}
        failed: list[BackendError] = []

        async def ask(node: NodeName, connection: HostConnection) -> None:
            try:
                told[node] = (await connection.ask("inventory", job=job, wanted=wanted))["attempts"]
            except UnreachedError as error:
                told[node] = error
            except BackendError as error:
                failed.append(error)

        async with anyio.create_task_group() as tasks:
            for node, connection in self._connections.items():
                if connection.is_up:
                    tasks.start_soon(ask, node, connection)
        if failed:
            raise failed[0]
        return {node: told[node] for node in self._connections if node in told}

    def _joined(self, job_id: JobId, attempt: int, parts: Mapping[NodeName, Known]) -> Found:
        """Return what the hosts of an attempt know, with the records of the first."""
        first = next(iter(parts.values()))
        return {
            "job": job_id,
            "attempt": attempt,
            "state": self._state(job_id, attempt, parts),
            "folder": first["folder"],
            "started": first["started"],
            "status": first["status"],
        }

    def _state(self, job_id: JobId, attempt: int, parts: Mapping[NodeName, Known]) -> State:
        nodes = self.of(job_id, attempt) or tuple(parts)
        if any(not self._connections[node].is_up for node in nodes if node in self._connections):
            return "running"
        states = [parts[node]["state"] if node in parts else "absent" for node in nodes]
        order = ("running", "starting", "absent", "lost", "ended")
        return min(states, key=order.index)

    def _note_all(self, node: NodeName, records: list[Known]) -> None:
        for record in records:
            started = record["started"]
            named = [NodeName(name) for name, _ in started["placement"]] if started else []
            # One that names hosts which are none of ours ran here at least.
            nodes = named if named and all(name in self._connections for name in named) else [node]
            job_id = JobId(record["job"])
            if started or not self.of(job_id, record["attempt"]):
                self.note(job_id, record["attempt"], tuple(nodes))
