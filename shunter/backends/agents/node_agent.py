"""An agent on a node: reached again whenever it is lost, looked at while it is there.

An agent that does not answer is unreachable, and what runs on its servers is unknown. Supervisors
end their jobs when no heartbeat came for `heartbeat_deadline_s`; that and a margin after the last
one was sent, the node counts as lost, and only then may its jobs run elsewhere. A heartbeat tells
when it was sent, so that it is of no use to anybody if it comes too late.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import anyio
from msgspec.structs import replace

from shunter import clock
from shunter.backends.agents.answers import Answer, ClaimRefused, StartAnswer
from shunter.backends.agents.attempt_records import GpuReading, Known, Sample
from shunter.backends.agents.messages import Beat, Claim, Look, Question, Start
from shunter.backends.agents.orders import Order
from shunter.backends.agents.reading import Reading
from shunter.backends.agents.rpc import RpcChannel, open_rpc
from shunter.backends.agents.settings import Limits, Owner
from shunter.backends.agents.transport import Link, Transport, UnreachedError
from shunter.backends.node.records import boot_id
from shunter.errors import BackendError
from shunter.events.values.ids import NodeName

A = TypeVar("A", bound=Answer)

GRACE_S = 1.0  # for a connection that was cut off and can be opened again at once
PROGRAMS = 4  # beside the session; sshd allows ten channels a connection
RETRY_S, RETRY_S_MAX, PROBE_S = 0.25, 10.0, 3.0


class TakenError(BackendError):
    """Another scheduler has the node."""


class AgentObserver(Protocol):
    """Receives what becomes of a host and of what runs there."""

    async def came_up(self, agent: "NodeAgent") -> None:
        """Handle a host that answers and is ours; what it runs follows."""

    def became_unreachable(self, agent: "NodeAgent") -> None:
        """Handle a host that does not answer."""

    def was_lost(self, agent: "NodeAgent") -> None:
        """Handle a host on which nothing can run any more."""

    def changed(self, agent: "NodeAgent", known: Sequence[Known]) -> None:
        """Receive what has become of attempts."""

    def looked(
        self, agent: "NodeAgent", samples: Sequence[Sample], gpus: Sequence[GpuReading] | None
    ) -> None:
        """Receive samples, once all watched attempts were looked at."""

    def was_replaced(self, cause: str) -> None:
        """Handle a newer scheduler of the cluster."""


class NodeAgent:
    """The agent of a node, and the session with it while there is one."""

    def __init__(
        self, transport: Transport, limits: Limits, owner: Owner, observer: AgentObserver
    ) -> None:
        self.transport = transport
        self.root = ""
        self.boot = ""
        self.shares = ""
        """By what it holds attempts to their CPUs and memory, if it does."""
        self.cause = "it was not reached yet"
        self.is_lost = False
        self.tried = anyio.Event()
        self.taken: TakenError | None = None
        self._limits = limits
        self._owner = owner
        self._observer = observer
        self._programs = anyio.Semaphore(PROGRAMS)
        self._rpc: RpcChannel | None = None
        self._link: Link | None = None
        self._scope = anyio.CancelScope()
        self._look_now = anyio.Event()
        self._watched: dict[tuple[str, int], Reading] = {}
        self._anew: set[tuple[str, int]] = set()
        self._back, self._gone = anyio.Event(), anyio.Event()
        self._grace_s = 0.0
        self._alive_s = clock.monotonic_s()
        self._down_s = clock.monotonic_s()

    @property
    def name(self) -> NodeName:
        """The name of the agent, which is that of its server where it has one."""
        return self.transport.name

    @property
    def nodes(self) -> list[NodeName]:
        """The servers that it works for."""
        return [server.name for server in self.transport.servers]

    @property
    def is_up(self) -> bool:
        """Whether it answers and is ours."""
        return self._rpc is not None and not self._rpc.is_over

    async def run(self) -> None:
        """Reach the agent, stay with it, and begin again, for ever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_liveness)
            while True:
                try:
                    await self._stay()
                except TakenError as error:
                    self.taken, self.cause = error, str(error)
                except BackendError as error:  # lost, or unable to work: a full disk, say
                    self.cause = str(error)
                was_up = self._rpc is not None
                if self._rpc is not None:
                    # A host that was waited for already gets no grace, nor one that was never up.
                    patient_s = min(GRACE_S, self._limits.keepalive_s)
                    self._grace_s = 0.0 if self._rpc.went_silent else patient_s
                    self._rpc, self._link = None, None
                    self._down_s = clock.monotonic_s()
                if self._back.is_set():  # a task that waits for one not set goes on waiting
                    self._back = anyio.Event()
                self._gone.set()
                self.tried.set()
                if not was_up:
                    await anyio.sleep(self._pause_s())
                await self._probe()

    async def ask(
        self,
        question: Question[A],
        limit_s: float | None = None,
        on_reply: Callable[[A], None] | None = None,
    ) -> A:
        """Ask the agent; return its answer, which `on_reply` got before later news.

        Raises:
            UnreachedError: there is no answer, so what was asked for is unknown.
            BackendError: it could not be done.
        """
        rpc = self._rpc
        if rpc is None:
            raise UnreachedError(self.cause)
        try:
            return await rpc.ask(question, limit_s or self._limits.call_s, on_reply)
        except UnreachedError as error:
            if rpc is self._rpc:
                self.cause = str(error)
                self._scope.cancel()
            raise

    async def start(self, order: Order, on_reply: Callable[[StartAnswer], None]) -> StartAnswer:
        """Have an attempt started; one that comes late is not started at all."""
        rpc = self._rpc
        if rpc is None:
            raise UnreachedError(self.cause)
        limit_s = self._limits.launch_s
        self._alive_s = max(self._alive_s, clock.monotonic_s() + limit_s)
        before_ns = rpc.remote_uptime_ns() + int(limit_s * 1e9)
        return await self.ask(Start(order=order, before_ns=before_ns), limit_s, on_reply)

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

    def look(self, job: str, attempt: int) -> None:
        """Look at an attempt soon."""
        self._anew.add((job, attempt))
        self._look_now.set()

    def localised(self, record: Known) -> Known:
        """Return a record with the instants it names on our monotonic clock.

        One of an earlier boot of the host names none that we could know: its boot is no one's.
        """
        rpc, started, status = self._rpc, record.started, record.status
        if rpc is None or started is None:
            return record
        here = boot_id() if started.boot == self.boot else ""
        begun = replace(started, boot=here, started_ns=rpc.local_ns(started.started_ns))
        if status is not None:
            saved_ns = None if status.saved_ns is None else rpc.local_ns(status.saved_ns)
            status = replace(status, ended_ns=rpc.local_ns(status.ended_ns), saved_ns=saved_ns)
        notes = tuple(replace(note, at_ns=rpc.local_ns(note.at_ns)) for note in record.notes)
        return replace(record, started=begun, status=status, notes=notes)

    @asynccontextmanager
    async def programs(self) -> AsyncIterator[Link]:
        """Lend the link for one more program, of which few run at once.

        Raises:
            UnreachedError: there is no link.
        """
        async with self._programs:
            if self._link is None:
                raise UnreachedError(self.cause)
            yield self._link

    async def _stay(self) -> None:
        """Reach the agent and stay until it is lost.

        Raises:
            UnreachedError: why it was lost, or could not be reached.
            TakenError: its node is another scheduler's.
        """
        limits, transport = self._limits, self.transport
        async with (
            transport.opened() as link,
            open_rpc(link, transport, limits.call_s) as rpc,
        ):
            errors: list[BackendError] = []
            async with anyio.create_task_group() as tasks:
                self._scope = tasks.cancel_scope
                tasks.start_soon(self._receive_all, rpc, errors)
                try:
                    await self._claim(rpc)
                    self._rpc, self._link = rpc, link
                    await self._came_up()
                    await self._watch_attempts(rpc)
                except BackendError as error:
                    errors.append(error)
                tasks.cancel_scope.cancel()
        raise errors[0] if errors else UnreachedError(self.cause)

    async def _receive_all(self, rpc: RpcChannel, errors: list[BackendError]) -> None:
        cause = await rpc.receive_all(self._receive)
        errors.append(UnreachedError(cause))
        self._scope.cancel()

    def _receive(self, known: Sequence[Known]) -> None:
        if self._rpc is not None:  # else the first look tells it anew, once we know its clocks
            self._observer.changed(self, [self.localised(record) for record in known])

    async def _claim(self, rpc: RpcChannel) -> None:
        owner, before_s = self._owner, self._alive_s
        self._count_from(clock.monotonic_s())
        asked_ns = rpc.remote_uptime_ns()
        try:
            claim = Claim(
                asked_ns=asked_ns,
                cluster=owner.cluster_id,
                term=owner.term,
                holder=owner.holder,
                node=self.name,
                cgroup=self.transport.cgroup,
                is_sized=self._limits.is_sized,
            )
            answer = await rpc.ask(claim, self._limits.call_s)
        except UnreachedError:
            raise
        except BackendError:
            self._alive_s = before_s
            raise
        if isinstance(answer, ClaimRefused):
            self._alive_s = before_s
            whose = "another host's" if answer.refused == "shared" else "another scheduler's"
            cause = f"host {self.name} is {whose}: {answer.cause}"
            if answer.refused == "replaced":
                self._observer.was_replaced(cause)
            raise TakenError(cause)
        assert rpc.greeting is not None, "a session begins with it"
        self.root, self.boot, self.shares = answer.root, rpc.greeting.boot, answer.shares
        self.taken = None

    async def _came_up(self) -> None:
        if self._gone.is_set():
            self._gone = anyio.Event()
        self._anew |= self._watched.keys()
        await self._observer.came_up(self)
        self.is_lost = False
        self._back.set()
        self.tried.set()

    async def _watch_attempts(self, rpc: RpcChannel) -> None:
        """Look at all watched attempts each period, and at once at those that are named."""
        limits, round_s = self._limits, clock.monotonic_s() - self._limits.patrol_s
        while True:
            self._look_now = anyio.Event()
            is_round = clock.monotonic_s() >= round_s + limits.patrol_s
            round_s = clock.monotonic_s() if is_round else round_s
            await self._look(rpc, is_round=is_round)
            while (left_s := round_s + limits.patrol_s - clock.monotonic_s()) > 0:
                with anyio.move_on_after(min(left_s, limits.beat_s or left_s)):
                    await self._look_now.wait()
                    break
                if limits.beat_s is not None and left_s > limits.beat_s:
                    self._count_from(clock.monotonic_s())
                    await rpc.ask(Beat(asked_ns=rpc.remote_uptime_ns()), limits.call_s)

    async def _look(self, rpc: RpcChannel, *, is_round: bool) -> None:
        """Send a heartbeat, and read of attempts what is new."""
        self._count_from(clock.monotonic_s())
        asked_ns, anew = rpc.remote_uptime_ns(), sorted(self._anew)
        keys = sorted(self._watched) if is_round else [key for key in anew if key in self._watched]
        readings = [(key, self._watched[key]) for key in keys]
        look = Look(
            asked_ns=asked_ns,
            watched=tuple((*key, reading.read, reading.durable) for key, reading in readings),
            anew=tuple(anew),
            is_all=is_round,
        )
        answer = await rpc.ask(
            look, self._limits.call_s, lambda answer: self._receive(answer.changed)
        )
        self._anew.difference_update(anew)
        if is_round:
            self._observer.looked(self, answer.samples, answer.gpus)

    def _count_from(self, asked_s: float) -> None:
        """Note that a heartbeat was sent: supervisors count from then.

        It carries the instant of the question, so that one which comes late counts from then too.
        """
        self._alive_s = max(self._alive_s, asked_s)

    async def _watch_liveness(self) -> None:
        """Report, in time, that the host does not answer, and that it is lost."""
        limits = self._limits
        while True:
            await self._gone.wait()
            with anyio.move_on_after(self._grace_s):
                await self._back.wait()
            if self._back.is_set():
                continue
            self._observer.became_unreachable(self)
            patience_s = limits.heartbeat_deadline_s + limits.margin_s
            # A try to reach it that got no answer may have been a sign of life all the same.
            while (left_s := self._alive_s + patience_s - clock.monotonic_s()) > 0:
                with anyio.move_on_after(left_s):
                    await self._back.wait()
                if self._back.is_set():
                    break
            if self._back.is_set():
                continue
            if self.transport.is_on_demand and not self._watched:
                await self._back.wait()
                continue
            self.is_lost = True
            self._observer.was_lost(self)
            await self._back.wait()

    def _pause_s(self) -> float:
        """Return how long to wait between tries: the longer, the longer it is down."""
        return min(max(RETRY_S, (clock.monotonic_s() - self._down_s) / 60), RETRY_S_MAX)

    async def _probe(self) -> None:
        """Wait until somebody answers at all.

        A packet that was dropped is repeated after a second or more, so one probe does not wait
        for the one before: the first that is answered ends them all.
        """
        async with anyio.create_task_group() as tasks:
            while True:
                tasks.start_soon(self._probe_once, tasks.cancel_scope)
                await anyio.sleep(self._pause_s())

    async def _probe_once(self, until: anyio.CancelScope) -> None:
        with anyio.move_on_after(PROBE_S):
            if await self.transport.answers():
                until.cancel()
