"""What all handlers share: the site, who may call, the stream, metrics, readers of the past."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import orjson
from anyio import to_thread

from shunter.app.api.access.callers import Callers
from shunter.app.api.documents.cluster import state_document
from shunter.app.api.metrics import Metrics
from shunter.app.api.stream import Stream
from shunter.app.live.site import Site
from shunter.errors import UnreachableError
from shunter.events.log import LogReader, read_log

__all__ = ["Past", "Served"]

T = TypeVar("T")

PAST_AT_ONCE = 2
"""Readers of the past at work at the same time; others wait for their turn."""


class Past:
    """Reads the log beside the scheduler, in a thread with a loop of its own.

    Folding a long log takes seconds. On the scheduler's loop, nothing would be decided meanwhile.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._turns = anyio.CapacityLimiter(PAST_AT_ONCE)

    async def read(self, work: Callable[[LogReader], Awaitable[T]]) -> T:
        """Return what some work finds in the log, as far as it is durable."""

        async def with_reader() -> T:
            async with read_log(self._url) as reader:
                return await work(reader)

        return await to_thread.run_sync(lambda: anyio.run(with_reader), limiter=self._turns)


@dataclass
class Served:
    """One site, served."""

    site: Site
    callers: Callers
    stream: Stream
    metrics: Metrics
    past: Past = field(init=False)
    is_ready: bool = False
    _state: tuple[int, bytes] | None = None

    def __post_init__(self) -> None:
        self.past = Past(self.site.config.log.url)

    def dated(self, at_us: int) -> str:
        """Return an instant of the log as a date."""
        return self.site.wall(at_us).isoformat(timespec="milliseconds")

    def state_now(self) -> tuple[int, bytes]:
        """Return the last event with what is true after it; made once for each event."""
        state = self.site.state
        if self._state is None or self._state[0] != state.seq:
            self._state = (state.seq, orjson.dumps(state_document(state, self.dated)))
        return self._state

    async def durable(self, seq: int) -> None:
        """Wait until an event is on disk: nobody outside sees more than the log has.

        Raises:
            UnreachableError: it will never be; the scheduler has stopped.
        """
        if not await self.stream.reached(seq):
            raise UnreachableError("the scheduler has stopped")

    @property
    def now(self) -> str:
        """The date and time it is, by the clock of the log."""
        return self.dated(self.site.now_us())
