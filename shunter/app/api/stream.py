"""Durable events to many followers: encoded once, kept for a while, woken in groups.

A thousand followers that hear of every event at once would take a tenth of a second from the
scheduler each time. So they are woken together, the more seldom the more they are, and each reads
on from where it was; one who is behind what is kept here reads the log.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import orjson

from shunter.app.api.lives import Lives
from shunter.app.live.site import Site
from shunter.errors import UnreachableError
from shunter.events.kinds import Event
from shunter.events.log import read_log
from shunter.events.schema import to_object

__all__ = ["Sent", "Stream", "event_object"]

KEPT = 10_000
FOLLOWERS_MOST = 4096
PAUSE_S = 0.02
PAUSE_PER_FOLLOWER_S = 0.0005
STILL_THERE_S = 15.0
STILL_THERE = b": still there\n\n"


@dataclass(frozen=True, slots=True)
class Sent:
    """One event as followers get it."""

    seq: int
    kind: str
    job_id: str | None
    node: str | None
    chunk: bytes


def event_object(seq: int, event: Event, dated: Callable[[int], str]) -> dict[str, Any]:
    """Return an event with its number and date, and its fields by name."""
    return {"seq": seq, "at": dated(event.at_us), **to_object(event)}


class Stream:
    """All followers of one site."""

    def __init__(self, site: Site, dated: Callable[[int], str]) -> None:
        self._site = site
        self._dated = dated
        self._kept: deque[Sent] = deque(maxlen=KEPT)
        self._came = anyio.Event()
        self._fresh = anyio.Event()
        self._arrived = anyio.Event()
        self._closed = False
        self.lives = Lives()
        self.followers = 0
        self.last_seq = site.committed

    async def run(self) -> None:
        """Take events from the site until it stops."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._wake_in_groups)
                async for seq, event in self._site.follow(self.last_seq):
                    self._kept.append(self._sent(seq, event))
                    self.lives.take(event)
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

    async def follow(self, after: int, wanted: Callable[[Sent], bool]) -> AsyncIterator[bytes]:
        """Yield what is wanted of the events after a number, as server-sent events.

        Raises:
            UnreachableError: there are as many followers already as one daemon bears.
        """
        if self.followers >= FOLLOWERS_MOST:
            raise UnreachableError(f"{FOLLOWERS_MOST} clients follow already: try again later")
        self.followers += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                chunk = bytearray()
                for sent in await self._next(after):
                    after = sent.seq
                    if wanted(sent):
                        chunk += sent.chunk
                if chunk:
                    yield bytes(chunk)
                with anyio.move_on_after(STILL_THERE_S) as waiting:
                    if not await self.came(after):
                        return
                if waiting.cancelled_caught:
                    yield STILL_THERE
        finally:
            self.followers -= 1

    async def _next(self, after: int) -> list[Sent]:
        """Return the next events after a number: what is kept, or a part of the log."""
        oldest = self._kept[0].seq if self._kept else self.last_seq + 1
        if after + 1 >= oldest:
            ahead = self.last_seq - after
            return [self._kept[-back] for back in range(ahead, 0, -1)]
        upto = min(after + KEPT // 10, oldest - 1)
        async with read_log(self._site.config.log.url) as reader:
            return [
                self._sent(seq, event)
                for seq, event in enumerate(
                    [event async for event in reader.events(after, upto)], after + 1
                )
            ]

    async def _wake_in_groups(self) -> None:
        while True:
            await self._fresh.wait()
            self._fresh = anyio.Event()
            self._came = _told(self._came)
            await anyio.sleep(PAUSE_S + PAUSE_PER_FOLLOWER_S * self.followers)

    def _sent(self, seq: int, event: Event) -> Sent:
        kind = type(event).__name__
        document = orjson.dumps(event_object(seq, event, self._dated))
        chunk = b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), document)
        job_id, node = getattr(event, "job_id", None), getattr(event, "node", None)
        return Sent(seq, kind, job_id, node, chunk)


def _told(event: anyio.Event) -> anyio.Event:
    """Wake who waits for an event; return the one to wait for next."""
    event.set()
    return anyio.Event()
