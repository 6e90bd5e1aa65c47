"""The inbox of a live backend: what came in, in order, on the wall clock.

An instant is the start plus what the monotonic clock counted since; a step of the wall clock moves
nothing. Whatever is put in gets the instant at which it is taken out, so that instants never run
backwards, and `observe` ends at its deadline exactly. What comes after a deadline is not taken
before it, however late that is seen to be over: nothing is seen before it has happened.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import anyio
from anyio import lowlevel

from shunter import clock
from shunter.backends.node import CAUSE_CHARACTERS
from shunter.core import Input
from shunter.events import KINDS, MessagesDropped, fault_of

Stamped = Callable[[int], Input]


class Inbox:
    """Inputs that wait for the round loop, and the clock they are stamped with."""

    def __init__(self, start_us: int = 0) -> None:
        self._begun_ns = clock.monotonic_ns() - start_us * 1000
        self._told_us = start_us
        self._waiting: deque[tuple[int, Stamped]] = deque()  # and when they came
        self._put = self._taken = self._settled = 0
        self._durable: deque[tuple[int, Callable[[], None]]] = deque()
        self._came = anyio.Event()

    def now_us(self) -> int:
        """Return the instant it is."""
        return self.instant_us(clock.monotonic_ns())

    def instant_us(self, monotonic_ns: int) -> int:
        """Return the instant of a reading of the monotonic clock of this boot."""
        return (monotonic_ns - self._begun_ns) // 1000

    def put(self, stamped: Stamped) -> None:
        """Add an input, made once its instant is known."""
        self._waiting.append((self.now_us(), stamped))
        self._put += 1
        self._came.set()

    def put_all(self, inputs: Iterable[Stamped]) -> None:
        """Add inputs, one after the other."""
        for stamped in inputs:
            self.put(stamped)

    def once_durable(self, call: Callable[[], None]) -> None:
        """Call back once all that was put in so far is in the log, durably.

        The round loop comes back for more only when a step is.
        """
        self._durable.append((self._put, call))
        self._tell_durable()

    async def observe(self, until_us: int | None) -> tuple[int, Sequence[Input]]:
        """Wait for inputs; return them, or none at the deadline exactly."""
        self._settled = self._taken
        self._tell_durable()
        await lowlevel.checkpoint()  # others get their turn, and nothing is taken out yet
        while True:
            now_us = max(self._told_us, self.now_us())
            is_over = until_us is not None and now_us >= until_us
            at_us = until_us if until_us is not None and is_over else now_us
            came = self._come_by(at_us)
            if came or is_over:
                self._told_us = max(self._told_us, at_us)
                return at_us, tuple([_admitted(stamped(at_us)) for stamped in came])
            self._came = anyio.Event()
            with anyio.move_on_after(None if until_us is None else (until_us - now_us) / 1e6):
                await self._came.wait()

    def _come_by(self, at_us: int) -> list[Stamped]:
        """Take out what had come by an instant, in order."""
        came = []
        while self._waiting and self._waiting[0][0] <= at_us:
            came.append(self._waiting.popleft()[1])
        self._taken += len(came)
        return came

    def _tell_durable(self) -> None:
        while self._durable and self._durable[0][0] <= self._settled:
            self._durable.popleft()[1]()


def _admitted(seen: Input) -> Input:
    """Return what comes in, or (where its log could not hold it) that it was dropped.

    What jobs and hosts say was checked before; this is for what nobody thought of.
    """
    what = fault_of(seen) if type(seen).__name__ in KINDS else ""  # type: ignore[arg-type]  # known
    job_id, attempt = getattr(seen, "job_id", None), getattr(seen, "attempt", None)
    if not what or job_id is None or attempt is None:
        return seen
    nodes = getattr(seen, "nodes", ())
    return MessagesDropped(seen.at_us, job_id, attempt, 1, what[:CAUSE_CHARACTERS], nodes)
