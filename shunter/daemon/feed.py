"""The durable events of a running log, as they come, for all followers.

The newest are kept in memory; a follower who is further behind reads the log until it has caught
up. Nobody sees an event before it is durable.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence

import anyio

from shunter.errors import UnreachableError, UsageError
from shunter.events import Event
from shunter.events.log import LogWriter, read_log

KEPT_EVENTS = 10_000


class Feed:
    """Where a log's writer says what became durable, and followers hear of it."""

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._recent: deque[tuple[int, Event]] = deque(maxlen=KEPT_EVENTS)
        self._came = anyio.Event()
        self._closed = False
        self.committed = log.seq

    def publish(self, first_seq: int, events: Sequence[Event]) -> None:
        """Say that events are durable, from a sequence number on."""
        self._recent.extend(enumerate(events, first_seq))
        self.committed = first_seq + len(events) - 1
        self._wake()

    def close(self) -> None:
        """Let followers end once they have read the last event."""
        self._closed = True
        self._wake()

    async def reached(self, seq: int) -> None:
        """Wait until an event is durable.

        Raises:
            UnreachableError: the log was closed before it was.
        """
        while self.committed < seq:
            if self._closed:
                raise UnreachableError(f"the scheduler stopped before event {seq} was durable")
            await self._came.wait()

    async def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield the events after a sequence number, with theirs, until the log closes.

        Raises:
            UsageError: the number lies beyond the log.
        """
        if after > self.committed or after < 0:
            raise UsageError(f"event {after} does not exist: the log ends at {self.committed}")
        while True:
            if after < self.committed:
                async for seq, event in self._next(after):
                    after = seq
                    yield seq, event
            elif self._closed:
                return
            else:
                await self._came.wait()

    def recent(self, after: int, most: int = KEPT_EVENTS) -> list[tuple[int, Event]] | None:
        """Return the next events after a number, so many at most; None: the log has them."""
        if after + 1 < self._oldest:
            return None
        ahead = self.committed - after
        return [self._recent[-back] for back in range(ahead, max(0, ahead - most), -1)]

    @property
    def _oldest(self) -> int:
        """The number of the first event that memory has, or would have."""
        return self._recent[0][0] if self._recent else self.committed + 1

    async def _next(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield what memory has of the events after a number, or what the log has."""
        if (recent := self.recent(after)) is not None:
            for known in recent:
                yield known
            return
        async with read_log(self._log) as reader:
            async for frame in reader.frames(after, min(self.committed, self._oldest - 1)):
                first = max(frame.first_seq, after + 1)
                for known in enumerate(frame.events(after, self.committed), first):
                    yield known

    def _wake(self) -> None:
        came, self._came = self._came, anyio.Event()
        came.set()
