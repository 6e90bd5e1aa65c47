"""Between the round loop and its two neighbours: who asked for what, and when it is done.

The round loop reads a backend and writes a log. The broker takes the place of both: it notes which
commands a step took, hands its events to the log and, once they are durable, to followers. When
the loop comes back for more, the step's effects are out, and the broker answers the callers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from shunter.backends.node import failpoint, is_armed
from shunter.core import Command, Effect, Input, Scheduler
from shunter.daemon.backends import LiveBackend
from shunter.daemon.feed import Feed
from shunter.daemon.log_maintenance import LogMaintenance
from shunter.daemon.past_jobs import LivePastJobs
from shunter.daemon.requests import Receipt
from shunter.errors import ShunterError, UnreachableError
from shunter.events import Event
from shunter.events.log import LogWriter
from shunter.gc_control import collector_on

_SUBJECTS = ("job_id", "node")


class Stopped(Exception):  # noqa: N818 it is no error: the loop was asked to end
    """The loop was asked to end, between two steps."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A command on its way, and its answer."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    command: Command | None = None
    receipt: Receipt | None = None
    refused: ShunterError | None = None

    async def receive(self) -> Receipt:
        """Wait for the answer.

        Raises:
            UnreachableError: the scheduler stopped before it took the command.
        """
        await self.answered.wait()
        if self.refused is not None:
            raise self.refused
        assert self.receipt is not None, "who is answered and not refused has a receipt"
        return self.receipt


class CommandBroker:
    """What the round loop takes for its backend and its log."""

    instant = False

    def __init__(
        self,
        backend: LiveBackend,
        log: LogWriter,
        past: LivePastJobs,
        feed: Feed,
        maintenance: LogMaintenance,
    ) -> None:
        self._backend = backend
        self._past = past
        self._maintenance = maintenance
        self._log = log
        self._feed = feed
        self._open: dict[_Asked, None] = {}
        self._in_step: list[_Asked] = []
        self._events: list[Event] = []
        self._at_us = 0
        self._waiting = anyio.CancelScope()
        self._stopping = False
        self._closed: ShunterError | None = None

    async def tell(self, stamped: Callable[[int], Command]) -> Receipt:
        """Hand a command in; return once its step is durable and its effects are out.

        Raises:
            UnreachableError: the scheduler stopped before it took the command.
        """
        (receipt,) = await self.tell_all([stamped])
        return receipt

    async def tell_all(self, stamped: Sequence[Callable[[int], Command]]) -> list[Receipt]:
        """Hand commands in, in order; return once all are durable and carried out.

        Raises:
            UnreachableError: the scheduler stopped before it took all of them.
        """
        self.refuse_closed()
        posted = [self._post(one) for one in stamped]
        return [await asked.receive() for asked in posted]

    def refuse_closed(self) -> None:
        """Raise UnreachableError if the scheduler has stopped."""
        if self._closed is not None:
            raise self._closed

    def _post(self, stamped: Callable[[int], Command]) -> _Asked:
        asked = _Asked()
        self._open[asked] = None

        def stamp(at_us: int) -> Command:
            asked.command = stamped(at_us)
            self._in_step.append(asked)
            return asked.command

        self._backend.post(stamp)
        return asked

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Answer those whose step is over, then wait for what comes in."""
        self._answer()
        if self._stopping:
            raise Stopped
        with anyio.CancelScope() as self._waiting, collector_on():
            self._at_us, inputs = await self._backend.observe(until_us, gather_us)
            return self._at_us, inputs
        raise Stopped

    def append(self, events: Sequence[Event]) -> int:
        """Fix the order of a step's events."""
        self._events += events
        return self._log.append(events)

    async def commit(self) -> None:
        """Make a step durable, then tell followers."""
        events = self._events
        mark("append", events)
        await self._log.commit()
        self._past.durable(self._log.seq)
        mark("durable", events)
        self._feed.publish(self._log.seq - len(events) + 1, events)
        await self._maintenance.look()

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Hand a step's effects out."""
        mark("order", effects)
        await self._backend.perform(effects, now_us)

    async def hand_on(self, core: Scheduler) -> None:
        """Make durable what a step has taken in, carry it out, and answer for it.

        For a step that goes on: its policy takes its time.
        """
        events, effects = core.hand_on()
        if events:
            self.append(events)
            await self.commit()
        if effects:
            await self.perform(effects, self._at_us)
        self._answer()

    def stop(self) -> None:
        """Let the loop end before its next step."""
        self._stopping = True
        self._waiting.cancel()

    def close(self, cause: str) -> None:
        """Refuse all that was not taken or did not last, and all that is still to come."""
        if self._feed.committed == self._log.seq:
            self._answer()
        self._closed = UnreachableError(
            f"the scheduler has stopped, and nothing was taken: {cause}"
        )
        self._in_step.clear()
        for asked in list(self._open):
            asked.refused = self._closed
            self._settle(asked)

    def _answer(self) -> None:
        told = _by_subject(self._events) if self._in_step else {}
        for asked in self._in_step:
            assert asked.command is not None, "a command in a step was stamped"
            about = tuple(told.get(_subject(asked.command), ()))
            asked.receipt = Receipt(self._log.seq, self._at_us, about)
            failpoint(f"answer {type(asked.command).__name__}")
            self._settle(asked)
        self._in_step = []
        self._events = []

    def _settle(self, asked: _Asked) -> None:
        del self._open[asked]
        asked.answered.set()


def mark(what: str, records: Sequence[object]) -> None:
    """Mark a failpoint for each kind of record that a step has."""
    if is_armed():
        for record in records:
            failpoint(f"{what} {type(record).__name__}")


def _by_subject(events: Sequence[Event]) -> dict[tuple[str, object], list[Event]]:
    """Return the events about each job and each server."""
    found: dict[tuple[str, object], list[Event]] = {}
    for event in events:
        for name in _SUBJECTS:
            about = getattr(event, name, None)
            if about is not None:
                found.setdefault((name, about), []).append(event)
    return found


def _subject(command: Command) -> tuple[str, object]:
    """Return what a command is about: a job before a server, and which one."""
    for name in _SUBJECTS:
        about = getattr(command, name, None)
        if about is not None:
            return name, about
    return "", None
