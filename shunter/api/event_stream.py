"""Durable events to many followers over HTTP: encoded once, and woken in groups.

A thousand followers woken by every event would take a tenth of a second from the scheduler each
time. So they are woken together, the more seldom the more they are; one that is behind what the
feed keeps reads the log.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import anyio
import anyio.lowlevel
import orjson
from anyio import to_thread

from shunter.api.access import SLOW_S, TimelyResponse
from shunter.ask import JobHistories
from shunter.daemon import Site
from shunter.errors import UnreachableError
from shunter.events import Event, to_object
from shunter.events.log import LogReader

_LOG = logging.getLogger("shunter.api")

KEPT = 10_000
"""Encoded events that are kept, at most."""

AT_ONCE = 512
"""Events that one piece of an answer is made of: so much waits for a reader who takes nothing."""

FOLLOWERS_MOST = 4096
FOLLOWERS_MOST_OF_ONE = 1024
PAUSE_S = 0.02
PAUSE_PER_FOLLOWER_S = 0.0005
STILL_THERE_S = 15.0
STILL_THERE = b": still there\n\n"


def event_object(seq: int, event: Event, dated: Callable[[int], str]) -> dict[str, object]:
    """Return an event with its number and date, and its fields by name."""
    return {"seq": seq, "at": dated(event.at_us), **to_object(event)}


class Stream:
    """All followers of one site."""

    def __init__(self, site: Site, *, slow_s: float = SLOW_S) -> None:
        self._site = site
        self._slow_s = slow_s
        self._past = LogAccess(site.read_log)
        self._of: Counter[str] = Counter()
        self._chunks: dict[int, bytes] = {}
        self._came = anyio.Event()
        self._fresh = anyio.Event()
        self._arrived = anyio.Event()
        self._closed = False
        self.histories = JobHistories()
        self.followers = 0
        self.dropped = 0
        self.last_seq = site.committed

    async def run(self) -> None:
        """Take events from the site until it stops."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._wake_in_groups)
                async for seq, event in self._site.follow(self.last_seq):
                    self.histories.take(event)
                    self.last_seq = seq
                    self._fresh.set()
                    self._arrived = _told(self._arrived)
                tasks.cancel_scope.cancel()
        finally:
            self._closed = True
            self._came.set()
            self._arrived.set()

    async def reached(self, seq: int) -> bool:
        """Wait until an event is durable and known here; False: it will never be."""
        while self.last_seq < seq and not self._closed:
            await self._arrived.wait()
        return self.last_seq >= seq

    async def came(self, after: int) -> bool:
        """Wait, with all followers, for an event after a number; False: there is none.

        With many followers that takes a moment longer than `reached`.
        """
        while self.last_seq <= after and not self._closed:
            await self._came.wait()
        return self.last_seq > after

    def answer(self, user: str, after: int, wanted: Callable[[Event], bool]) -> TimelyResponse:
        """Return the answer to somebody who follows the events after a number.

        Raises:
            UnreachableError: there are as many followers already as one daemon bears, or one user
                may have.
        """
        if self.followers >= FOLLOWERS_MOST:
            raise UnreachableError(f"{FOLLOWERS_MOST} clients follow already: try again later")
        if self._of[user] >= FOLLOWERS_MOST_OF_ONE:
            raise UnreachableError(
                f"{FOLLOWERS_MOST_OF_ONE} clients of {user} follow already: end some of them"
            )
        return TimelyResponse(
            self.follow(user, after, wanted),
            "text/event-stream",
            slow_s=self._slow_s,
            was_slow=self._drop,
        )

    async def follow(
        self, user: str, after: int, wanted: Callable[[Event], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what is wanted of the events after a number, as server-sent events."""
        self.followers += 1
        self._of[user] += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                chunk = bytearray()
                for seq, event in await self._next(after):
                    after = seq
                    if wanted(event):
                        chunk += self._chunk(seq, event)
                if chunk:
                    yield bytes(chunk)
                await anyio.lowlevel.checkpoint()  # others may be far behind, too
                if after < self.last_seq:
                    continue
                with anyio.move_on_after(STILL_THERE_S) as waiting:
                    if not await self.came(after):
                        return
                if waiting.cancelled_caught:
                    yield STILL_THERE
        finally:
            self.followers -= 1
            self._of[user] -= 1

    def _drop(self) -> None:
        """Count a follower who was cut off, and tell of the first in a while."""
        self.dropped += 1
        _LOG.warning("a follower took nothing for %g s and was cut off", self._slow_s)

    async def _next(self, after: int) -> list[tuple[int, Event]]:
        """Return the next events after a number: what is recent, or a part of the log."""
        recent = self._site.feed.recent(after, AT_ONCE)
        if recent is not None:
            return recent
        upto = min(after + AT_ONCE, self.last_seq)

        async def read(reader: LogReader) -> list[tuple[int, Event]]:
            return [*enumerate([event async for event in reader.events(after, upto)], after + 1)]

        return await self._past.read(read)

    async def _wake_in_groups(self) -> None:
        while True:
            await self._fresh.wait()
            self._fresh = anyio.Event()
            self._came = _told(self._came)
            await anyio.sleep(PAUSE_S + PAUSE_PER_FOLLOWER_S * self.followers)

    def _chunk(self, seq: int, event: Event) -> bytes:
        """Return an event as followers get it; encoded once for all who are as far."""
        chunk = self._chunks.get(seq)
        if chunk is None:
            kind = type(event).__name__.encode()
            document = orjson.dumps(event_object(seq, event, self._site.dated))
            chunk = b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind, document)
            self._chunks[seq] = chunk
            if len(self._chunks) > KEPT:
                del self._chunks[next(iter(self._chunks))]
        return chunk


def _told(event: anyio.Event) -> anyio.Event:
    """Wake who waits for an event; return the one to wait for next."""
    event.set()
    return anyio.Event()


T = TypeVar("T")

PAST_AT_ONCE = 2
"""Readers of the past at work at the same time; others wait for their turn."""


class LogAccess:
    """Reads the log beside the scheduler, in a thread with a loop of its own.

    Folding a long log takes seconds. On the scheduler's loop, nothing would be decided meanwhile.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[LogReader]]) -> None:
        self._opened = opened
        self._turns = anyio.CapacityLimiter(PAST_AT_ONCE)

    async def read(self, work: Callable[[LogReader], Awaitable[T]]) -> T:
        """Return what some work finds in the log, as far as it is durable."""

        async def with_reader() -> T:
            async with self._opened() as reader:
                return await work(reader)

        return await to_thread.run_sync(lambda: anyio.run(with_reader), limiter=self._turns)
