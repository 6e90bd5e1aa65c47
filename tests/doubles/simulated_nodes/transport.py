"""A transport to the agent of a simulated node, whose link and messages fail as they are told to.

Bytes go through as over any other: what is asked arrives after the latency of the link, is carried
out at that instant whether or not the daemon still waits for it, and its answer takes as long back.
While the link is silent, what was sent on either end waits; it arrives once the link is back, late,
or is lost if the link was cut.
"""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from anyio import lowlevel

from shunter import clock
from shunter.backends.live import AgentProcess, Link, Server, UnreachedError
from tests.doubles.simulated_nodes.checkpoints import VERBS, Work, answer_line
from tests.doubles.simulated_nodes.node import SimulatedNode
from tests.doubles.simulated_nodes.session import Session

__all__ = ["Disturbance", "SimulatedTransport"]

NONCE = "nonce"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A question is late, comes again, gets no answer, or is lost itself."""

    late_ns: int = 0
    again_after_ns: int | None = None
    loses_answer: bool = False
    loses_question: bool = False


class _Asked(msgspec.Struct):
    do: str = ""


class SimulatedTransport:
    """How the agent of a simulated node is reached.

    One transport may serve daemon after daemon. `is_silent` is to be changed by `silence` and
    `restore`; `asked` are the questions that were sent, each with our clock in seconds.

    Args:
        node: whose agent.
        latency_ns: how long a message takes, in each direction.
    """

    def __init__(self, node: SimulatedNode, latency_ns: int = 0) -> None:
        self.node = node
        self.latency_ns = latency_ns
        self.name = node.name
        self.servers: Sequence[Server] = node.servers
        self.address = str(node.name)
        self.environment: Mapping[str, str] = {}
        self.cgroup: str | None = ""
        self.folder = f"/simulated/{node.name}"
        self.is_here = False
        self.is_on_demand = False
        self.reason = ""
        self.is_silent = False
        self.asked: list[tuple[float, str]] = []
        self._open: list[_Process] = []
        self._held: list[Callable[[], None]] = []
        self._disturbances: dict[str, deque[Disturbance]] = defaultdict(deque)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Reach the agent.

        Raises:
            UnreachedError: the link is silent.
        """
        await lowlevel.checkpoint()
        if self.is_silent:
            raise UnreachedError(f"host {self.name} cannot be reached")
        yield self

    async def answers(self) -> bool:
        """Return whether the link is there."""
        await lowlevel.checkpoint()
        return not self.is_silent

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent."""
        await lowlevel.checkpoint()
        return _Program(self, verb, words)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session."""
        await lowlevel.checkpoint()
        return _SessionProcess(self, folder), NONCE

    def disturb(self, do: str, disturbance: Disturbance) -> None:
        """Have something happen to the next question of a kind, after those said before."""
        self._disturbances[do].append(disturbance)

    def silence(self) -> None:
        """Let nothing through until `restore`."""
        self.is_silent = True

    def restore(self) -> None:
        """Let everything through again, what waits first."""
        self.is_silent = False
        held, self._held = self._held, []
        self.node.machine.advance()
        for deliver in held:
            self.node.machine.add(self.latency_ns, deliver)
        self.node.machine.wake()

    def cut(self) -> None:
        """Close all that is open, and lose what is held back; it may be opened again."""
        self._held.clear()
        for process in list(self._open):
            process.lose()

    def send(self, deliver: Callable[[], None], late_ns: int = 0) -> None:
        """Have something arrive at the node."""
        self.node.machine.advance()
        if self.is_silent:
            self._held.append(deliver)
        else:
            self.node.machine.add(self.latency_ns + late_ns, deliver)
            self.node.machine.advance()
        self.node.machine.wake()

    def disturbance_of(self, line: bytes) -> Disturbance:
        """Return what is to happen to a question."""
        do = msgspec.json.decode(line, type=_Asked).do
        self.asked.append((clock.monotonic_s(), do))
        waiting = self._disturbances[do]
        return waiting.popleft() if waiting else Disturbance()

    def note(self, process: "_Process") -> None:
        """Note that something is open."""
        self._open.append(process)

    def forget(self, process: "_Process") -> None:
        """Note that something is open no more."""
        if process in self._open:
            self._open.remove(process)


class _Process:
    """A program of the agent at the end of a link."""

    def __init__(self, transport: SimulatedTransport) -> None:
        self._transport, self._node = transport, transport.node
        self._machine = transport.node.machine
        self._said: deque[tuple[int, bytes]] = deque()
        self._is_lost = False
        self._status: int | None = None
        self._complaint = b""
        self._machine.advance()
        transport.note(self)

    async def read(self, most: int) -> bytes:
        while True:
            self._machine.advance()
            due_ns = self._said[0][0] if self._said else None
            if self._is_lost or (self._is_over() and due_ns is None):
                await lowlevel.checkpoint()
                return b""
            is_held = self._transport.is_silent
            if due_ns is not None and due_ns <= self._machine.now_ns and not is_held:
                _, piece = self._said.popleft()
                if piece[most:]:
                    self._said.appendleft((due_ns, piece[most:]))
                await lowlevel.checkpoint()
                return piece[:most]
            await self._machine.wait(None if is_held else due_ns)

    async def write(self, content: bytes) -> None:
        if self._is_lost or self._is_over():
            raise BrokenPipeError("the link was lost")
        self._send(content)
        await lowlevel.checkpoint()

    async def end_input(self) -> None:
        self._transport.send(lambda: self.arrives(None))

    async def complaint(self) -> bytes:
        return self._complaint

    async def status(self) -> int | None:
        return None if self._is_lost else self._status

    async def aclose(self) -> None:
        self.lose()
        self._transport.send(lambda: self.arrives(None))

    def lose(self) -> None:
        """Let the daemon's end be closed; what was sent arrives all the same."""
        self._is_lost = True
        self._said.clear()
        self._transport.forget(self)
        self._machine.wake()

    def say(self, line: bytes) -> None:
        """Print something."""
        if not self._is_lost:
            self._said.append((self._machine.now_ns + self._transport.latency_ns, line))
            self._machine.wake()

    def arrives(self, content: bytes | None) -> None:
        """Take in a piece of input; None: there is no more."""

    def _send(self, content: bytes) -> None:
        self._transport.send(lambda: self.arrives(content))

    def _is_over(self) -> bool:
        return self._status is not None


class _SessionProcess(_Process):
    """A session: each piece of its input is a question."""

    def __init__(self, transport: SimulatedTransport, folder: str) -> None:
        super().__init__(transport)
        self._session = Session(self._node, folder, NONCE, self.say)
        self._boot = self._machine.boot

    def _send(self, content: bytes) -> None:
        how = self._transport.disturbance_of(content)
        if how.loses_question:
            return

        def arrive() -> None:
            if self._boot == self._machine.boot:
                self._session.receive(content, is_mute=how.loses_answer)

        self._transport.send(arrive, how.late_ns)
        if how.again_after_ns is not None:
            self._transport.send(arrive, how.late_ns + how.again_after_ns)

    def _is_over(self) -> bool:
        return self._session.is_over or self._boot != self._machine.boot


class _Program(_Process):
    """A verb in a process of its own, which reads its input as it needs it."""

    def __init__(self, transport: SimulatedTransport, verb: str, words: tuple[str, ...]) -> None:
        super().__init__(transport)
        self._left, self._has_all = b"", False
        self._nonce = words[-1]
        self._work: Work = (
            VERBS[verb](self._node.checkpoints, words[0], self._nonce, self.say)
            if verb in VERBS
            else _records(self._node, verb, self._nonce, self.say)
        )
        self._needs = next(self._work)

    def arrives(self, content: bytes | None) -> None:
        self._left += content or b""
        self._has_all |= content is None
        while self._status is None:
            if self._needs >= 0 and len(self._left) >= self._needs:
                piece, self._left = self._left[: self._needs], self._left[self._needs :]
            elif self._has_all and self._needs < 0:
                piece, self._left = self._left, b""
            elif self._has_all:
                self._end("it ended before all had come")
                return
            else:
                return
            try:
                self._needs = self._work.send(piece)
            except StopIteration:
                self._status = 0
            except (ValueError, KeyError) as error:
                self._end(str(error))

    def _end(self, cause: str) -> None:
        self._work.close()
        self.say(answer_line(self._nonce, {"error": cause}))
        self._status = 0


def _records(node: SimulatedNode, verb: str, nonce: str, say: Callable[[bytes], None]) -> Work:
    """Tell which jobs are old, or remove what they have left."""
    told, now_ns = msgspec.json.decode((yield -1)), node.machine.now_ns
    if verb == "ages":
        young = {
            key[0]
            for key, one in node.attempts.items()
            if now_ns - (one.run.ended_ns or now_ns) < told["keep_s"] * 1e9
        }
        jobs = {job for job, _ in node.attempts}
        say(answer_line(nonce, {"old": sorted(jobs - young), "young": sorted(young)}))
    elif verb == "prune":
        gone = [k for k, one in node.attempts.items() if k[0] in told["jobs"] and not one.is_held]
        for key in gone:
            del node.attempts[key]
        say(answer_line(nonce, {"removed": len(gone), "error": ""}))
    else:
        raise ValueError(f"a simulated node has no verb {verb!r}")
