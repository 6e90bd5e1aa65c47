"""Remote procedure calls to an agent over one channel: see `shunter.backends.node.remote.session`.

Each question has a deadline. One that is not answered in time, or whose connection ends, is
unknown, never failed: a lost connection does not raise by itself, it ends the output.

News may come right behind an answer, and the task that asked wakes after news are handed over. So
`on_reply` handles an answer where its line is read: in the order in which the host sent it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import anyio

from shunter import clock
from shunter.backends.agents.answers import Answer, Failed, Greeting
from shunter.backends.agents.attempt_records import Known
from shunter.backends.agents.messages import (
    Question,
    decode_answer,
    decode_greeting,
    decode_news,
    decode_number,
    encode_question,
)
from shunter.backends.agents.transport import (
    AgentProcess,
    Link,
    Transport,
    UnreachedError,
    hinted,
)
from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.messages.shapes import WrongMessageError
from shunter.errors import BackendError

A = TypeVar("A", bound=Answer)
OnNews = Callable[[tuple[Known, ...]], None]
READ_BYTES = 1 << 16
NOISE_BYTES_MAX = 1 << 20
LINE_BYTES_MOST = 8 << 20
"""More than an agent has to say: 1 MiB of notes, and of each attempt 32 KiB of samples at most."""


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

    question: Question[Any]
    asked: tuple[int, int]
    on_reply: Callable[[Any], None] | None
    came: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None


class RpcChannel:
    """Questions and answers over one channel, in any order."""

    def __init__(self, name: str, process: AgentProcess, *, is_here: bool = False) -> None:
        self.greeting: Greeting | None = None
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
        question: Question[A],
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
        do = str(question.__struct_config__.tag)
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
        if isinstance(answer, Failed):
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
        number = decode_number(line)
        if number is None:
            on_news(decode_news(line))
            return
        request = self._asked.get(number)
        if request is None:
            return  # nobody waits for it any more
        answer = decode_answer(type(request.question), line)
        self._set_clocks(answer, request.asked)
        request.answer = answer
        if request.on_reply is not None and not isinstance(answer, Failed):
            request.on_reply(answer)
        request.came.set()

    def _set_clocks(self, told: Answer, asked: tuple[int, int]) -> None:
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
