"""An agent on a node: reached again whenever it is lost, looked at while it is there.

An agent that does not answer is unreachable, and what runs on its servers is unknown. Supervisors
end their jobs when no heartbeat came for `heartbeat_deadline_s`; that and a margin after the last
one was sent, the node counts as lost, and only then may its jobs run elsewhere. A heartbeat says
when it was sent, so a late one counts for nothing.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import anyio
import msgspec

from shunter import clock
from shunter.backends.live.settings import Limits, Owner
from shunter.backends.live.transport import AgentProcess, Link, Transport, UnreachedError, hinted
from shunter.backends.node import WrongMessageError, an_object, boot_id, failpoint, messages, within
from shunter.errors import BackendError
from shunter.events import NodeName

# How far the journal of an attempt was read, and how far that is durable.


@dataclass(slots=True)
class Reading:
    """Numbers of notes: the last that was read, the last that is in the log.

    `facts` is how many facts came before the first note that was ever read here: what an earlier
    term has read, and its supervisor has dropped since. `told` is how many facts of it an earlier
    term has told.
    """

    read: int = 0
    durable: int = 0
    facts: int | None = None
    told: int = 0

    def take(self, known: messages.Known) -> list[messages.Note]:
        """Return the notes of a record that were not read before, and note that they are.

        One that was read from further on than we are (for somebody before us, say) tells none.
        """
        if known.after > self.read:
            return []
        if self.facts is None:
            self.facts = known.facts
        fresh = [note for note in known.notes if note.n > self.read]
        if fresh:
            self.read = fresh[-1].n
        return fresh

    def was_told(self, note: messages.Note) -> bool:
        """Say whether an earlier term has told a note; ask once, in their order."""
        if note.what not in messages.FACTS or self.told <= (self.facts or 0):
            return False
        self.told -= 1
        return True

    def note_durable(self, upto: int) -> None:
        """Note that the facts of all notes up to a number are in the log."""
        self.durable = max(self.durable, upto)


# Remote procedure calls to an agent. A question without an answer in time is unknown, never failed.
#
# News may come right behind an answer, before the task that asked wakes. So `on_reply` handles an
# answer where its line is read, in the order in which the host sent it.

A = TypeVar("A", bound=messages.Answer)
Line = Mapping[str, object]
OnNews = Callable[[tuple[messages.Known, ...]], None]
READ_BYTES = 1 << 16
NOISE_BYTES_MAX = 1 << 20
LINE_BYTES_MOST = 8 << 20
"""More than an agent has to say: 1 MiB of notes, and of each attempt 32 KiB of samples at most."""


class OtherProtocolError(WrongMessageError):
    """An agent speaks another version than this scheduler."""


def encode_question(number: int, question: messages.Question[messages.Answer]) -> bytes:
    """Return the line that asks a question under a number; it ends with a newline."""
    asked = {"id": number, "do": question.DO, **question}
    try:
        return msgspec.json.encode(asked) + b"\n"
    except UnicodeEncodeError:  # a variable that is no UTF-8, as Python reads it from os.environ
        return json.dumps(asked).encode() + b"\n"


def decode_greeting(line: bytes) -> messages.Greeting:
    """Return the greeting of an agent of our version.

    Raises:
        OtherProtocolError: the agent is of another one.
        WrongMessageError: it is no greeting.
    """
    told = decode_line(line)
    found = within("protocol", messages.Greeting.FIELDS["protocol"].shape, told.get("protocol", 1))
    if found != messages.PROTOCOL:
        older = "the agent" if found < messages.PROTOCOL else "this scheduler"
        raise OtherProtocolError(
            f"is of an agent that speaks version {found} of the protocol, expected "
            f"{messages.PROTOCOL}: {older} is the older one, so install the other's version of "
            "Shunter in its place"
        )
    return messages.Greeting.decoded(told)


def decode_line(line: bytes) -> Line:
    """Return what a line of an agent says, undecoded.

    Raises:
        WrongMessageError: it is no object of JSON.
    """
    try:
        return an_object(_JSON.decode(line.decode()))
    except WrongMessageError:
        raise
    except (ValueError, RecursionError):
        raise WrongMessageError("is no JSON, or nested beyond all measure") from None


def decode_number(told: Line) -> int | None:
    """Return the number of the question that a line answers; None: it tells news.

    Raises:
        WrongMessageError: it is neither.
    """
    number = told.get("id")
    return None if number is None else within("id", messages.COUNT, number)


def decode_answer(question: type[messages.Question[A]], told: Line) -> A | messages.Failed:
    """Return the answer to a question of a type.

    Raises:
        WrongMessageError: it is none.
    """
    return messages.Failed.decoded(told) if "error" in told else cast(A, question.ANSWER(told))


def decode_news(told: Line) -> tuple[messages.Known, ...]:
    """Return the attempts of which a line without a number tells.

    Raises:
        WrongMessageError: it tells of none.
    """
    return within("changed", messages.MANY_KNOWN, told.get("changed"))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)


class ClockOffset:
    """The offset of a host's clock from ours.

    A host read its clock at some instant between our question and its answer: that bounds how far
    it is ahead. The narrowest bound holds until an answer contradicts it: clocks drift apart, by
    seconds a day where nobody disciplines them, and a machine that was paused finds its clock
    behind.
    """

    def __init__(self) -> None:
        self.ahead_ns = 0
        self._width_ns: int | None = None

    def note(self, asked_ns: int, remote_ns: int, came_ns: int) -> None:
        """Take in a reading.

        Args:
            asked_ns: when it was asked for, by our clock.
            remote_ns: what the host read.
            came_ns: when its answer was there, by our clock.
        """
        least_ns, most_ns = remote_ns - came_ns, remote_ns - asked_ns
        is_refuted = not least_ns <= self.ahead_ns <= most_ns
        if self._width_ns is None or is_refuted or most_ns - least_ns < self._width_ns:
            self._width_ns = most_ns - least_ns
            self.ahead_ns = (least_ns + most_ns) // 2

    def to_local(self, remote_ns: int) -> int:
        """Return a reading of the host as one of our clock."""
        return remote_ns - self.ahead_ns

    def to_remote(self, our_ns: int) -> int:
        """Return a reading of our clock as one of the host."""
        return our_ns + self.ahead_ns


@dataclass(slots=True, eq=False)
class _Request:
    """A request in flight: our clocks when it was sent, and what handles its answer."""

    question: messages.Question[Any]
    asked: tuple[int, int]
    on_reply: Callable[[Any], None] | None
    came: anyio.Event = field(default_factory=anyio.Event)
    answer: messages.Answer | None = None


class RpcChannel:
    """Questions and answers over one channel, in any order."""

    def __init__(self, name: str, process: AgentProcess, *, is_here: bool = False) -> None:
        self.greeting: messages.Greeting | None = None
        self.clock = ClockOffset()
        self.uptime = ClockOffset()
        self.went_silent = False
        self._name = name
        self._process = process
        self._is_here = is_here
        self._asked: dict[int, _Request] = {}
        self._number = 0
        self._left = b""
        self._ended = ""

    @property
    def is_over(self) -> bool:
        """Whether no question gets an answer any more."""
        return bool(self._ended)

    async def read_greeting(self, nonce: str) -> None:
        """Read past all noise of a shell up to the greeting.

        Raises:
            UnreachedError: there is none.
        """
        mark, asked = f"\n{nonce} ".encode(), _clocks()
        while mark not in self._left or b"\n" not in self._left.partition(mark)[2]:
            read = await self._process.read(READ_BYTES)
            if not read or len(self._left) > NOISE_BYTES_MAX:
                raise UnreachedError(await self._silence())
            self._left += read
        line, _, self._left = self._left.partition(mark)[2].partition(b"\n")
        try:
            self.greeting = decode_greeting(line)
        except WrongMessageError as error:
            raise UnreachedError(f"host {self._name} greets as nobody: {error}") from None
        self._set_clocks(self.greeting, asked)

    async def ask(
        self,
        question: messages.Question[A],
        limit_s: float,
        on_reply: Callable[[A], None] | None = None,
    ) -> A:
        """Ask; return the answer.

        Args:
            question: what.
            limit_s: how long to wait for the answer.
            on_reply: called with the answer, before any later line is read.
        Raises:
            UnreachedError: there is none in time, so what was asked for is unknown.
            BackendError: it could not be done.
        """
        if self._ended:
            raise UnreachedError(self._ended)
        self._number += 1
        do = question.DO
        number, request = self._number, _Request(question, _clocks(), on_reply)
        self._asked[number] = request
        try:
            with anyio.fail_after(limit_s):
                line = encode_question(number, question)
                failpoint(f"ask {do}")
                await self._process.write(line)
                failpoint(f"asked {do}")
                await request.came.wait()
                failpoint(f"answered {do}")
        except (TimeoutError, OSError) as error:
            cause = f"host {self._name} did not answer '{do}' within {limit_s:g} s"
            self.went_silent = True
            self._end(cause)
            raise UnreachedError(cause) from error
        finally:
            del self._asked[number]
        answer = request.answer
        if answer is None:
            raise UnreachedError(self._ended)
        if isinstance(answer, messages.Failed):
            raise BackendError(f"host {self._name}: {answer.error}", retryable=True)
        return cast(A, answer)

    async def receive_all(self, on_news: OnNews) -> str:
        """Hand answers out and news over until the channel closes; return why it did."""
        try:
            while not self._ended:
                *lines, self._left = self._left.split(b"\n")
                for line in lines:
                    self._take(line, on_news)
                read = await self._process.read(READ_BYTES)
                if not read:
                    self._end(await self._silence())
                self._left += read
                if len(self._left) > LINE_BYTES_MOST:
                    self._end(f"host {self._name} said a line beyond {LINE_BYTES_MOST} bytes")
        except OSError as error:
            self.went_silent = "keepalive" in str(error)  # only its words tell it apart
            self._end(f"the connection to host {self._name} was lost: {error}")
        except WrongMessageError as error:
            self._end(f"host {self._name} said what is no answer: {error}")
        finally:
            self._end("the channel was closed")
        return self._ended

    def local_ns(self, remote_ns: int) -> int:
        """Return a reading of the host's monotonic clock as one of ours."""
        return self.clock.to_local(remote_ns)

    def remote_uptime_ns(self) -> int:
        """Return for how long the host has been up by now, its sleep included."""
        return self.uptime.to_remote(clock.uptime_ns())

    def _end(self, cause: str) -> None:
        """Give no more answers; who waits for one is told."""
        self._ended = self._ended or cause
        for request in self._asked.values():
            request.came.set()

    def _take(self, line: bytes, on_news: OnNews) -> None:
        told = decode_line(line)
        number = decode_number(told)
        if number is None:
            on_news(decode_news(told))
            return
        request = self._asked.get(number)
        if request is None:
            return  # nobody waits for it any more
        answer = decode_answer(type(request.question), told)
        self._set_clocks(answer, request.asked)
        request.answer = answer
        if request.on_reply is not None and not isinstance(answer, messages.Failed):
            request.on_reply(answer)
        request.came.set()

    def _set_clocks(self, told: messages.Answer, asked: tuple[int, int]) -> None:
        """Note what an answer tells of the host's clocks."""
        if self._is_here:  # one clock, which nothing is ahead of
            return
        came = _clocks()
        self.clock.note(asked[0], told.now_ns, came[0])
        self.uptime.note(asked[1], told.up_ns, came[1])

    async def _silence(self) -> str:
        """Return why a host says nothing more, in its own words where it left any."""
        words = (await self._process.complaint()).decode("utf-8", "replace").strip()
        if not words:
            return f"the connection to host {self._name} was lost"
        return f"host {self._name}: its agent ended: {hinted(words)}"


def _clocks() -> tuple[int, int]:
    return clock.monotonic_ns(), clock.uptime_ns()


@asynccontextmanager
async def open_rpc(link: Link, transport: Transport, limit_s: float) -> AsyncIterator[RpcChannel]:
    """Open a session with an agent over a link.

    Raises:
        UnreachedError: it does not begin in time.
    """
    process = None
    try:
        try:
            with anyio.fail_after(limit_s):
                process, nonce = await link.begin_session(transport.folder)
                rpc = RpcChannel(transport.name, process, is_here=transport.is_here)
                await rpc.read_greeting(nonce)
        except (OSError, TimeoutError) as error:
            raise UnreachedError(
                f"host {transport.name} does not begin to talk: {error!r}"
            ) from error
        yield rpc
    finally:
        if process is not None:
            await process.aclose()


async def ask_all(
    questions: "Mapping[NodeAgent, messages.Question[A]]",
) -> dict[NodeName, A | BackendError]:
    """Ask agents, all at once; return what each answers, or why there is no answer."""
    told: dict[NodeName, A | BackendError] = {}

    async def ask(agent: "NodeAgent", question: messages.Question[A]) -> None:
        try:
            told[agent.name] = await agent.ask(question)
        except BackendError as error:
            told[agent.name] = error

    async with anyio.create_task_group() as tasks:
        for agent, question in questions.items():
            tasks.start_soon(ask, agent, question)
    return {agent.name: told[agent.name] for agent in questions}


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

    def changed(self, agent: "NodeAgent", known: Sequence[messages.Known]) -> None:
        """Receive what has become of attempts."""

    def looked(
        self,
        agent: "NodeAgent",
        samples: Sequence[messages.Sample],
        gpus: Sequence[messages.GpuReading] | None,
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
        question: messages.Question[A],
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

    async def start(
        self, order: messages.Order, on_reply: Callable[[messages.StartAnswer], None]
    ) -> messages.StartAnswer:
        """Have an attempt started; one that comes late is not started at all."""
        rpc = self._rpc
        if rpc is None:
            raise UnreachedError(self.cause)
        limit_s = self._limits.launch_s
        self._alive_s = max(self._alive_s, clock.monotonic_s() + limit_s)
        before_ns = rpc.remote_uptime_ns() + int(limit_s * 1e9)
        return await self.ask(messages.Start(order=order, before_ns=before_ns), limit_s, on_reply)

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

    def localised(self, record: messages.Known) -> messages.Known:
        """Return a record with the instants it names on our monotonic clock.

        One of an earlier boot of the host names none that we could know: its boot is no one's.
        """
        rpc, started, status = self._rpc, record.started, record.status
        if rpc is None or started is None:
            return record
        here = boot_id() if started.boot == self.boot else ""
        if here and self.transport.is_here:  # one clock: nothing to be said anew
            return record
        begun = started.replaced(boot=here, started_ns=rpc.local_ns(started.started_ns))
        if status is not None:
            saved_ns = None if status.saved_ns is None else rpc.local_ns(status.saved_ns)
            status = status.replaced(ended_ns=rpc.local_ns(status.ended_ns), saved_ns=saved_ns)
        notes = tuple([note.replaced(at_ns=rpc.local_ns(note.at_ns)) for note in record.notes])
        return record.replaced(started=begun, status=status, notes=notes)

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

    def _receive(self, known: Sequence[messages.Known]) -> None:
        if self._rpc is not None:  # else the first look tells it anew, once we know its clocks
            self._observer.changed(self, [self.localised(record) for record in known])

    async def _claim(self, rpc: RpcChannel) -> None:
        owner, before_s = self._owner, self._alive_s
        self._count_from(clock.monotonic_s())
        asked_ns = rpc.remote_uptime_ns()
        try:
            claim = messages.Claim(
                asked_ns=asked_ns,
                cluster=owner.cluster_id,
                term=owner.term,
                holder=owner.holder,
                node=self.name,
                cgroup=self.transport.cgroup,
                is_limited=self._limits.is_limited,
            )
            answer = await rpc.ask(claim, self._limits.call_s)
        except UnreachedError:
            raise
        except BackendError:
            self._alive_s = before_s
            raise
        if isinstance(answer, messages.ClaimRefused):
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
                    await rpc.ask(messages.Beat(asked_ns=rpc.remote_uptime_ns()), limits.call_s)

    async def _look(self, rpc: RpcChannel, *, is_round: bool) -> None:
        """Send a heartbeat, and read of attempts what is new."""
        self._count_from(clock.monotonic_s())
        asked_ns, anew = rpc.remote_uptime_ns(), sorted(self._anew)
        keys = sorted(self._watched) if is_round else [key for key in anew if key in self._watched]
        readings = [(key, self._watched[key]) for key in keys]
        look = messages.Look(
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
