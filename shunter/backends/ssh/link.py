"""One host: reached again whenever it is lost, and looked at, with a heartbeat, while it is there.

A host that does not answer is unreachable, and what runs on it is unknown. Its supervisors end
their jobs when no heartbeat came for `heartbeat_deadline_s`; that and a margin after the last one
was sent, the host counts as lost, and only then may its jobs run elsewhere. A heartbeat tells when
it was sent, so that it is of no use to anybody if it comes too late.
"""

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from shunter.backends.node.records import boot_id
from shunter.backends.ssh.agent_install import installed
from shunter.backends.ssh.connecting import UnreachedError, connected, told_as_lost
from shunter.backends.ssh.conversation import Conversation, Heed, conversing
from shunter.backends.ssh.settings import SshHost, SshSettings
from shunter.backends.supervised.reading import Reading
from shunter.errors import BackendError

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

__all__ = ["Link", "Listener", "TakenError"]

Record = dict[str, Any]
GRACE_S = 1.0  # for a connection that was cut off and can be opened again at once
CHANNELS = 4  # beside the conversation; sshd allows ten a connection
RETRY_S, RETRY_S_MAX, KNOCK_S = 0.25, 10.0, 3.0


class TakenError(BackendError):
    """Another scheduler has the host."""


class Listener(Protocol):
    """Who is told what becomes of a host and of what runs there."""

    async def came_up(self, link: "Link") -> None:
        """Hear that a host answers and is ours; what it runs is told next."""

    def became_unreachable(self, link: "Link") -> None:
        """Hear that a host does not answer."""

    def was_lost(self, link: "Link") -> None:
        """Hear that nothing can run on a host any more."""

    def changed(self, link: "Link", known: list[Record]) -> None:
        """Hear what has become of attempts."""

    def looked(self, link: "Link", samples: list[Record], gpus: list[Record] | None) -> None:
        """Hear that all watched attempts were looked at, and what was sampled."""

    def was_replaced(self, cause: str) -> None:
        """Hear that a newer scheduler rules the cluster."""


class Link:
    """A host, and the conversation with it while there is one."""

    def __init__(
        self, host: SshHost, settings: SshSettings, limit: anyio.Semaphore, listener: Listener
    ) -> None:
        self.host = host
        self.root = ""
        self.path = ""
        self.boot = ""
        self.cause = "it was not reached yet"
        self.is_lost = False
        self.tried = anyio.Event()
        self.taken: TakenError | None = None
        self._settings = settings
        self._limit = limit
        self._listener = listener
        self._channels = anyio.Semaphore(CHANNELS)
        self._talk: Conversation | None = None
        self._connection: SSHClientConnection | None = None
        self._scope = anyio.CancelScope()
        self._look_now = anyio.Event()
        self._watched: dict[tuple[str, int], Reading] = {}
        self._anew: set[tuple[str, int]] = set()
        self._back, self._gone = anyio.Event(), anyio.Event()
        self._grace_s = 0.0
        self._alive_s = time.monotonic()
        self._down_s = time.monotonic()

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.host.name

    @property
    def is_up(self) -> bool:
        """Whether it answers and is ours."""
        return self._talk is not None and not self._talk.is_over

    async def run(self) -> None:
        """Reach the host, stay with it, and begin again, for ever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._mourn)
            while True:
                try:
                    await self._stay()
                except TakenError as error:
                    self.taken, self.cause = error, str(error)
                except BackendError as error:  # lost, or unable to work: a full disk, say
                    self.cause = str(error)
                was_up = self._talk is not None
                if self._talk is not None:
                    # Whom we have waited for already gets no grace; nor who was never there.
                    patient_s = min(GRACE_S, self._settings.keepalive_s)
                    self._grace_s = 0.0 if self._talk.went_silent else patient_s
                    self._talk, self._connection = None, None
                    self._down_s = time.monotonic()
                if self._back.is_set():  # who waits for one that is not set goes on waiting for it
                    self._back = anyio.Event()
                self._gone.set()
                self.tried.set()
                if not was_up:
                    await anyio.sleep(self._pause_s())
                await self._knock()

    async def ask(
        self, do: str, limit_s: float | None = None, heed: Heed | None = None, **fields: Any
    ) -> Record:
        """Ask the host; return its answer, which `heed` got before later news were told.

        Raises:
            UnreachedError: there is no answer, so what was asked for is unknown.
            BackendError: it could not be done.
        """
        talk = self._talk
        if talk is None:
            raise UnreachedError(self.cause)
        try:
            return await talk.ask(do, limit_s or self._settings.call_s, heed, **fields)
        except UnreachedError as error:
            if talk is self._talk:
                self.cause = str(error)
                self._scope.cancel()
            raise

    async def start(self, order: Record, heed: Heed) -> Record:
        """Have an attempt started; one that comes late is not started at all."""
        talk = self._talk
        if talk is None:
            raise UnreachedError(self.cause)
        limit_s = self._settings.launch_s
        self._alive_s = max(self._alive_s, time.monotonic() + limit_s)
        before_ns = talk.far_uptime_ns() + int(limit_s * 1e9)
        return await self.ask("start", limit_s, heed, order=order, before_ns=before_ns)

    def watch(self, job: str, attempt: int, reading: Reading) -> None:
        """Look at an attempt from now on; it is told of whether or not anything changes.

        Of its journal, what was not read yet.
        """
        self._watched[(job, attempt)] = reading
        self._anew.add((job, attempt))
        self._look_now.set()

    def unwatch(self, job: str, attempt: int) -> None:
        """Look at an attempt no more."""
        self._watched.pop((job, attempt), None)
        self._anew.discard((job, attempt))

    def look(self) -> None:
        """Look at all attempts soon."""
        self._look_now.set()

    def localised(self, known: list[Record]) -> list[Record]:
        """Return records with the instants they name on our monotonic clock.

        Those of an earlier boot of the host name none that we could know: their boot is no one's.
        """
        return [self._localised(record) for record in known]

    def _localised(self, record: Record) -> Record:
        talk, started, status = self._talk, record["started"], record["status"]
        if talk is None or started is None:
            return record
        is_known = started["boot"] == self.boot
        found = {**record}
        found["started"] = {
            **started,
            "boot": boot_id() if is_known else "",
            "started_ns": talk.local_ns(started["started_ns"]),
        }
        if status is not None:
            found["status"] = {**status, "ended_ns": talk.local_ns(status["ended_ns"])}
            if status["saved_ns"] is not None:
                found["status"]["saved_ns"] = talk.local_ns(status["saved_ns"])
        found["notes"] = [
            {**note, "at_ns": talk.local_ns(note["at_ns"])} for note in record["notes"]
        ]
        return found

    @asynccontextmanager
    async def channel(self) -> AsyncIterator["SSHClientConnection"]:
        """Lend the connection for one more channel, of which there are few.

        Raises:
            UnreachedError: there is no connection.
        """
        async with self._channels:
            if self._connection is None:
                raise UnreachedError(self.cause)
            with told_as_lost(self.name):
                yield self._connection

    async def _stay(self) -> None:
        """Reach the host and stay until it is lost.

        Raises:
            UnreachedError: why it was lost, or could not be reached.
            TakenError: it is another scheduler's.
        """
        settings, host = self._settings, self.host
        async with connected(host, settings, self._limit) as connection:
            self.path = await installed(connection, host, settings.connect_s)
            async with conversing(connection, host, self.path, settings.connect_s) as talk:
                errors: list[BackendError] = []
                async with anyio.create_task_group() as tasks:
                    self._scope = tasks.cancel_scope
                    tasks.start_soon(self._listen, talk, errors)
                    try:
                        await self._claim(talk)
                        self._talk, self._connection = talk, connection
                        await self._came_up()
                        await self._patrol(talk)
                    except BackendError as error:
                        errors.append(error)
                    tasks.cancel_scope.cancel()
        raise errors[0] if errors else UnreachedError(self.cause)

    async def _listen(self, talk: Conversation, errors: list[BackendError]) -> None:
        cause = await talk.listen(self._hear)
        errors.append(UnreachedError(cause))
        self._scope.cancel()

    def _hear(self, known: list[Record]) -> None:
        if self._talk is not None:  # else the first look tells it anew, once we know its clocks
            self._listener.changed(self, self.localised(known))

    async def _claim(self, talk: Conversation) -> None:
        settings, before_s = self._settings, self._alive_s
        mine: Record = {
            "cluster": settings.cluster_id,
            "term": settings.term,
            "holder": settings.holder,
        }
        mine.update(node=self.name, cgroup=self.host.cgroup)
        self._count_from(time.monotonic())
        asked_ns = talk.far_uptime_ns()
        try:
            answer = await talk.ask("claim", settings.call_s, asked_ns=asked_ns, **mine)
        except UnreachedError:
            raise
        except BackendError:
            self._alive_s = before_s
            raise
        if "refused" in answer:
            self._alive_s = before_s
            whose = "another host's" if answer["refused"] == "shared" else "another scheduler's"
            cause = f"host {self.name} is {whose}: {answer['cause']}"
            if answer["refused"] == "replaced":
                self._listener.was_replaced(cause)
            raise TakenError(cause)
        self.root, self.boot = answer["root"], talk.greeting["boot"]
        self.taken = None

    async def _came_up(self) -> None:
        if self._gone.is_set():
            self._gone = anyio.Event()
        self._anew |= self._watched.keys()
        await self._listener.came_up(self)
        self.is_lost = False
        self._back.set()
        self.tried.set()

    async def _patrol(self, talk: Conversation) -> None:
        """Beat and look, now and each period."""
        while True:
            self._look_now = anyio.Event()
            self._count_from(time.monotonic())
            asked_ns = talk.far_uptime_ns()
            watched = [
                [job, attempt, reading.read, reading.durable]
                for (job, attempt), reading in sorted(self._watched.items(), key=itemgetter(0))
            ]
            asked: Record = {"watched": watched, "anew": sorted(self._anew)}
            answer = await talk.ask(
                "look",
                self._settings.call_s,
                lambda answer: self._hear(answer["changed"]),
                asked_ns=asked_ns,
                **asked,
            )
            self._anew.difference_update(asked["anew"])
            self._listener.looked(self, answer["samples"], answer["gpus"])
            with anyio.move_on_after(self._settings.patrol_s):
                await self._look_now.wait()

    def _count_from(self, asked_s: float) -> None:
        """Note that a sign of life was sent: supervisors count from then.

        It carries the instant of the question, so that one which comes late counts from then too.
        """
        self._alive_s = max(self._alive_s, asked_s)

    async def _mourn(self) -> None:
        """Tell, in time, that the host does not answer, and that it is lost."""
        settings = self._settings
        while True:
            await self._gone.wait()
            with anyio.move_on_after(self._grace_s):
                await self._back.wait()
            if self._back.is_set():
                continue
            self._listener.became_unreachable(self)
            patience_s = settings.heartbeat_deadline_s + settings.margin_s
            # A try to reach it that got no answer may have been a sign of life all the same.
            while (left_s := self._alive_s + patience_s - time.monotonic()) > 0:
                with anyio.move_on_after(left_s):
                    await self._back.wait()
                if self._back.is_set():
                    break
            if self._back.is_set():
                continue
            self.is_lost = True
            self._listener.was_lost(self)
            await self._back.wait()

    def _pause_s(self) -> float:
        """Return how long to wait between tries: the longer, the longer it is down."""
        return min(max(RETRY_S, (time.monotonic() - self._down_s) / 60), RETRY_S_MAX)

    async def _knock(self) -> None:
        """Wait until the host answers at all.

        A packet that was dropped is repeated after a second or more, so one knock does not wait
        for the one before: the first that is answered ends them all.
        """
        if self._settings.access.config:  # it may name a host that no plain connection reaches
            return
        async with anyio.create_task_group() as tasks:
            while True:
                tasks.start_soon(self._knock_once, tasks.cancel_scope)
                await anyio.sleep(self._pause_s())

    async def _knock_once(self, until: anyio.CancelScope) -> None:
        with anyio.move_on_after(KNOCK_S):
            try:
                stream = await anyio.connect_tcp(self.host.address, self.host.port)
            except (OSError, socket.gaierror):
                return
            await stream.aclose()
            until.cancel()
