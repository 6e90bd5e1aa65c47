"""Servers reached over SSH as one cluster: one connection a host, one supervisor an attempt.

Orders of one job are carried out one after the other, those of different jobs side by side. What
comes of them is what the supervisors' records say, reported as it happens and read once a period.
An order whose answer is lost is unknown: it is settled when the host answers again, or when no
supervisor on it can be alive any more. Nothing is started again before that.
"""

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.node.messages.wire import Found, GpuReading, Known, SampleOf
from shunter.backends.ssh.attempt_locations import STRAYS_S, AttemptLocations
from shunter.backends.ssh.checkpoint_transfer import CheckpointTransfer
from shunter.backends.ssh.gangs import LOST, Gang, Part, deliver, end_unbelieved, told_of
from shunter.backends.ssh.host_connection import HostConnection
from shunter.backends.ssh.launching import Launches
from shunter.backends.ssh.samples import Samples
from shunter.backends.ssh.settings import SshSettings
from shunter.backends.supervised import environment as environments
from shunter.backends.supervised.orders import Orders
from shunter.backends.supervised.watch import Watch
from shunter.core.effects import Effect, Fence, Launch, Migrate, Resume, SetAside, Terminate
from shunter.core.intake.inputs import Input
from shunter.errors import BackendError
from shunter.events.facts.cluster import NodeLost, NodeReachable, NodeUnreachable
from shunter.events.facts.execution import LaunchFailed
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId, NodeName

__all__ = ["SshBackend"]

GONE = Part(is_gone=True)


class SshBackend:
    """Runs attempts on hosts that sshd lets us into; use it as an async context."""

    def __init__(self, settings: SshSettings, start_us: int = 0) -> None:
        self._settings = settings
        self._inbox = Inbox(start_us)
        limit = anyio.Semaphore(settings.simultaneous)
        self._hosts = {
            host.name: HostConnection(host, settings, limit, self) for host in settings.hosts
        }
        self._locations = AttemptLocations(self._hosts)
        self._transfer = CheckpointTransfer(settings, self._hosts)
        self._gangs: dict[JobId, Gang] = {}
        self._newest: dict[JobId, int] = {}
        self._moved_from: dict[JobId, tuple[NodeName, ...]] = {}
        self._unreachable: set[NodeName] = set()
        self._spoken_of: set[NodeName] = set()
        self._has_recovered = False
        self._launches = Launches(settings, self._hosts, self._gangs)
        self._samples = Samples(self._inbox, self._gangs)
        self._tasks: TaskGroup = anyio.create_task_group()
        self._orders = Orders(self._tasks, self._obey)

    async def __aenter__(self) -> Self:
        """Reach every host for the first time; those that do not answer are unreachable.

        Raises:
            BackendError: a host is another scheduler's.
        """
        await self._tasks.__aenter__()
        for connection in self._hosts.values():
            self._tasks.start_soon(connection.run)
        is_open = False
        try:
            await self._take_over()
            is_open = True
        finally:
            if not is_open:
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(None, None, None)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the hosts; what runs on them runs on."""
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    @property
    def instant(self) -> bool:
        """Real processes take time."""
        return False

    @property
    def unreachable(self) -> frozenset[NodeName]:
        """The hosts that do not answer, of whose attempts nothing is known."""
        return frozenset(self.causes)

    @property
    def causes(self) -> Mapping[NodeName, str]:
        """Why hosts do not answer, and how to mend it, of those that do not."""
        return {name: host.cause for name, host in self._hosts.items() if not host.is_up}

    def post(self, stamped: Stamped) -> None:
        """Put a command of somebody into the inbox; it gets its instant there."""
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
        """Return the records of every attempt on the hosts that answer, gangs as one.

        With some that are wanted, only of those and of all that still run. An attempt of which a
        host knows that does not answer counts as running.
        """
        return await self._locations.inventory(wanted)

    def recall(self, unreachable: Sequence[NodeName]) -> None:
        """Say which hosts an earlier term found unreachable or lost."""
        for name in unreachable:
            if name in self._spoken_of or name not in self._hosts:
                continue  # what was told of it in this term brings the log up to date
            if self._hosts[name].is_up:
                self._tell_reachable(name)
            else:
                self._unreachable.add(name)

    def adopt(
        self,
        job_id: JobId,
        attempt: int,
        *,
        started: bool,
        noted: int = 0,
        on: Allocation | None = None,
        is_set_aside: bool = False,
    ) -> None:
        """Watch an attempt of an earlier term, of which some has been told already."""
        nodes = self._locations.of(job_id, attempt)
        if not nodes and on is not None:
            nodes = tuple(share.node for share in on.shares)
            self._locations.note(job_id, attempt, nodes)
        self._newest[job_id] = attempt
        watch = Watch(job_id, attempt, "", told_start=started, told_facts=noted)
        watch.is_set_aside = is_set_aside
        gang = Gang(watch, {node: Part() for node in nodes})
        self._gangs[job_id] = gang
        if not is_set_aside:
            self._watch(gang)

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Accept orders; what comes of them is observed.

        With the first, all attempts of earlier terms have been adopted that are to go on.
        """
        if not self._has_recovered:
            self._has_recovered = True
            for connection in self._hosts.values():
                if connection.is_up:
                    self._tasks.start_soon(self._end_strays, connection)
        self._orders.give(effects)

    async def store_environments(self, given: Mapping[JobId, Mapping[str, str]]) -> None:
        """Store what only the processes of jobs may see; what was stored before is gone.

        Raises:
            BackendError: it cannot be stored.
        """
        await to_thread.run_sync(environments.store_all, self._settings.root, given)

    async def old_jobs(self, keep_s: float) -> list[JobId]:
        """Return the jobs unchanged for so long; none while a host is silent."""
        return await self._locations.old_jobs(keep_s)

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        """Remove output and records of jobs that have ended."""
        await self._locations.remove_attempts(jobs)

    async def read_output(
        self, job_id: JobId, attempt: int, rank: int, stream: str, offset: int, size: int
    ) -> tuple[bytes, int | None]:
        """Return a piece of what a rank printed, and how much there is; None: nothing is.

        Raises:
            BackendError: its host does not answer.
        """
        node = await self._locations.of_rank(job_id, attempt, rank)
        if node is None:
            return b"", None
        name = f"{stream}.0"  # each host has one rank
        answer = await self._hosts[node].ask(
            "read", job=job_id, attempt=attempt, name=name, offset=offset, bytes=size
        )
        return answer["data"].encode("latin-1"), answer["size"]

    async def came_up(self, connection: HostConnection) -> None:
        """Handle a host that answers; what became of its attempts follows.

        What was given up while it was silent may run there all the same: until that is over, the
        host is not reachable for anything new.
        """
        if self._has_recovered and await self._locations.strays(connection, self._is_watched):
            self._tasks.start_soon(self._end_strays, connection)
        elif connection.host.name in self._unreachable:
            self._tell_reachable(connection.host.name)

    def became_unreachable(self, connection: HostConnection) -> None:
        """Handle a host that does not answer; its jobs have not failed."""
        name = connection.host.name
        self._unreachable.add(name)
        self._spoken_of.add(name)
        self._inbox.put(lambda at_us: NodeUnreachable(at_us, name))

    def was_lost(self, connection: HostConnection) -> None:
        """Handle a host on which nothing can run any more."""
        name, cause = connection.host.name, connection.cause
        self._inbox.put(lambda at_us: NodeLost(at_us, name, cause))
        for gang in list(self._gangs.values()):
            part = gang.parts.get(name)
            if part is not None and not part.is_over and not gang.watch.is_set_aside:
                part.is_gone = True
                self._settle(gang)

    def was_replaced(self, cause: str) -> None:
        """Handle a newer scheduler: this one must not go on."""
        self._tasks.start_soon(_give_up, cause)

    def changed(self, connection: HostConnection, known: list[Known]) -> None:
        """Receive what has become of attempts on a host."""
        for record in known:
            gang = self._gangs.get(JobId(record["job"]))
            if gang is None or gang.watch.attempt != record["attempt"]:
                continue
            part = gang.parts.get(connection.host.name)
            if part is not None and not part.is_gone:
                part.learn(record)
                self._settle(gang)
                if not record["is_all"]:
                    connection.look()

    def looked(
        self, connection: HostConnection, samples: list[SampleOf], gpus: list[GpuReading] | None
    ) -> None:
        """Receive samples of a host; orders that nobody took are given again."""
        self._samples.take(connection.host.name, samples, gpus)
        for gang in list(self._gangs.values()):
            if connection.host.name in gang.parts:
                self._settle(gang)

    async def _take_over(self) -> None:
        for connection in self._hosts.values():
            await connection.tried.wait()
        for connection in self._hosts.values():
            if connection.taken is not None:
                raise connection.taken

    async def _obey(self, effect: Effect) -> None:
        if isinstance(effect, Launch | Resume):
            await self._launch(effect)
        elif isinstance(effect, SetAside):
            self._set_aside(effect)
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
                await self._transfer.bring(job_id, attempt, effect.spec.user, sources, nodes)
        except BackendError as error:
            cause, again = str(error), error.retryable
            self._launches.settle(job_id)
            self._inbox.put(
                lambda at_us: LaunchFailed(at_us, job_id, attempt, cause, again, source)
            )
            return
        self._locations.note(job_id, attempt, nodes)
        watch = Watch(job_id, attempt, "", self._moved_from.pop(job_id, ()))
        port = orders[nodes[0]].get("port") or 0
        gang = Gang(watch, {node: Part(is_starting=True) for node in nodes}, port=port)
        self._gangs[job_id] = gang
        self._launches.settle(job_id)
        await self._launches.start(gang, orders)
        if not watch.is_over:  # by news that came right behind the answers
            self._watch(gang)
            self._settle(gang)

    async def _fence(self, effect: Fence) -> None:
        """Let nothing up to an attempt run, wherever it may."""
        job_id, attempt = effect.job_id, effect.attempt
        gang = self._gangs.get(job_id)
        if gang is not None and gang.watch.attempt <= attempt:
            gang.ask(effect)
            self._settle(gang)
        for node in self._locations.up_to(job_id, attempt):
            if self._hosts[node].is_up:
                try:
                    await self._hosts[node].ask("fence", job=job_id, attempt=attempt)
                except BackendError:
                    continue  # when it answers again, what runs there and is not watched is ended

    def _set_aside(self, effect: SetAside) -> None:
        gang = self._gangs.get(effect.job_id)
        if gang is not None and gang.watch.attempt == effect.attempt:
            gang.watch.is_set_aside = True
            self._unwatch(gang)
            self._tasks.start_soon(self._end_unbelieved, gang)

    async def _end_unbelieved(self, gang: Gang) -> None:
        await end_unbelieved(gang, self._hosts, STRAYS_S)
        self._inbox.put_all(gang.watch.tell(LOST, [], self._inbox))
        self._forget(gang)

    def _send(self, effect: Effect) -> None:
        job_id, gang = effect.job_id, self._gangs.get(effect.job_id)
        if gang is None:
            if isinstance(effect, Terminate):
                self._newest[job_id] = max(effect.attempt, 1, self._newest.get(job_id, 0))
        elif gang.watch.attempt == effect.attempt:
            if isinstance(effect, Migrate):
                self._moved_from[job_id] = tuple(gang.parts)
            gang.ask(effect)
            self._settle(gang)

    def _watch(self, gang: Gang) -> None:
        for node in gang.parts:
            connection = self._hosts[node]
            connection.watch(gang.watch.job_id, gang.watch.attempt, gang.parts[node].reading)
            if connection.is_lost:
                gang.parts[node].is_gone = True

    def _forget(self, gang: Gang) -> None:
        if self._gangs.get(gang.watch.job_id) is gang:
            del self._gangs[gang.watch.job_id]

    def _unwatch(self, gang: Gang) -> None:
        for node in gang.parts:
            self._hosts[node].unwatch(gang.watch.job_id, gang.watch.attempt)

    def _settle(self, gang: Gang) -> None:
        """Tell what is new of a gang, and have given what is due to its parts."""
        if gang.watch.is_over or gang.watch.is_set_aside:
            return
        self._inbox.put_all(told_of(gang, self._inbox))
        watch = gang.watch
        if watch.is_over:
            self._unwatch(gang)
            self._forget(gang)
        elif gang.due() and not gang.is_delivering:
            gang.is_delivering = True
            self._tasks.start_soon(deliver, gang, self._hosts)

    async def _end_strays(self, connection: HostConnection) -> None:
        try:
            await self._locations.end_strays(connection, self._is_watched)
        except BackendError:
            return  # its return begins this anew
        if connection.host.name in self._unreachable and connection.is_up:
            self._tell_reachable(connection.host.name)

    def _is_watched(self, job_id: JobId, attempt: int, node: NodeName) -> bool:
        """Say whether an attempt on a host is one that is to run there."""
        gang = self._gangs.get(job_id)
        part = gang.parts.get(node) if gang is not None else None
        return gang is not None and gang.watch.attempt == attempt and not (part or GONE).is_gone

    def _tell_reachable(self, name: NodeName) -> None:
        self._unreachable.discard(name)
        self._inbox.put(lambda at_us: NodeReachable(at_us, name))


async def _give_up(cause: str) -> None:
    raise BackendError(cause)
