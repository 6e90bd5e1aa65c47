"""The SQL store: frames and the head they end at change in one fenced transaction.

What was committed is then said in the anchor, if there is one, before anybody is told of it.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio.to_thread
from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError, LogError
from shunter.events.log.frames import GENESIS, Frame, Head, next_chain
from shunter.events.log.sql.anchor import Anchor
from shunter.events.log.sql.batches import MOVE_HEAD, BatchWriter, head_change, refuse_stale
from shunter.events.log.sql.compression import SEGMENT_EVENTS, pack_segment
from shunter.events.log.sql.meta import note_sources, write_meta
from shunter.events.log.sql.past_jobs import PastUpto
from shunter.events.log.sql.reindexing import bring_past_up_to_date
from shunter.events.log.sql.source import FRAME_COLUMNS, frame_of, open_source
from shunter.events.log.sql.sqlite import failures_named, leave_write_ahead
from shunter.events.log.sql.tables import ANCHOR_NAME, FRAMES, HEAD, SEGMENTS, SNAPSHOTS
from shunter.events.log.stores import Batch, Segment, Source


class SqlStore:
    """Writes one log; made by `open_store`.

    Batches go through a connection of their own, all else through that of SQLAlchemy.
    """

    def __init__(
        self,
        path: Path,
        connection: AsyncConnection,
        batches: BatchWriter,
        owned: AsyncExitStack,
        term: int,
        anchor: Anchor | None,
    ) -> None:
        self._path = path
        self._connection = connection
        self._batches = batches
        self._owned = owned
        self._term = term
        self._anchor = anchor
        self._closed = False
        self._past: PastUpto | None = None

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Keep the batch and move the head, in one transaction."""
        past = None
        if self._past is not None and (batch.past or batch.snapshots):
            past = self._past.after(batch.past, new.seq)
        await self._batches.write(batch, old, new, past)
        self._past = past or self._past
        if self._anchor is not None and new != old:
            self._anchor.move(new)

    async def bring_past_up_to_date(self) -> None:
        """Have the tables of past jobs say all that the log says, from here on too."""
        self._past = await bring_past_up_to_date(self._connection, self._path)

    async def seal(self, head: Head, upto_seq: int) -> Segment | None:
        """Move the oldest frames up to `upto_seq` into one segment; None if none is left."""
        with failures_named(self._path):
            async with self._connection.begin():
                await self._move_head(head, head)
                await self._check_snapshot(upto_seq)
                frames, before = await self._oldest_frames(upto_seq)
                if not frames:
                    return None
                for frame in frames:
                    if next_chain(before, frame.payload) != frame.chain:
                        raise LogDamagedError(
                            f"{frame.named} is damaged and is not sealed", frame.first_seq
                        )
                    before = frame.chain
                segment, blob = await anyio.to_thread.run_sync(pack_segment, frames)
                await self._connection.execute(
                    insert(SEGMENTS),
                    {
                        "first_seq": segment.first_seq,
                        "last_seq": segment.last_seq,
                        "chain": before,
                        "digest": segment.digest,
                        "frames": blob,
                    },
                )
                await self._connection.execute(
                    delete(FRAMES).where(FRAMES.c.first_seq <= segment.last_seq)
                )
        return segment

    async def thin_snapshots(
        self, head: Head, superseded: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
        with failures_named(self._path):
            async with self._connection.begin():
                await self._move_head(head, head)
                rows = await self._connection.execute(
                    select(SNAPSHOTS.c.seq).order_by(SNAPSHOTS.c.seq)
                )
                gone = superseded([seq for (seq,) in rows])
                if gone:
                    await self._connection.execute(
                        delete(SNAPSHOTS).where(SNAPSHOTS.c.seq.in_(gone))
                    )

    async def note_sources(self, head: Head, sources: Mapping[str, str]) -> None:
        """Keep from which sources the head's term decides, in a row of `meta`."""
        with failures_named(self._path):
            async with self._connection.begin():
                await self._move_head(head, head)
                await note_sources(self._connection, head.term, sources)

    @asynccontextmanager
    async def source(self) -> AsyncIterator[Source]:
        """Open the file for reading, through a connection of its own."""
        async with open_source(self._path) as source:
            yield source

    async def close(self) -> None:
        """Close the connection and give the writer's lock back."""
        if self._closed:
            return
        self._closed = True
        with failures_named(self._path):
            if self._anchor is not None:
                await self._say_closed()
            self._batches.close()
            await leave_write_ahead(self._connection)
            await self._owned.aclose()

    async def _say_closed(self) -> None:
        """Note where the log ends: the file it becomes needs no anchor.

        Where that cannot be written, or another writer took over, it does without the note.
        """
        with suppress(DBAPIError, sqlite3.Error):
            async with self._connection.begin():
                heads = (await self._connection.execute(select(HEAD.c.seq, HEAD.c.term))).all()
                if [term for _, term in heads] == [self._term]:
                    await write_meta(self._connection, {ANCHOR_NAME: str(heads[0][0])})

    async def _move_head(self, old: Head, new: Head) -> None:
        moved = await self._connection.execute(MOVE_HEAD, head_change(old, new))
        refuse_stale(self._path, old, moved.rowcount)

    async def _check_snapshot(self, upto_seq: int) -> None:
        newest = (await self._connection.execute(select(func.max(SNAPSHOTS.c.seq)))).scalar_one()
        if newest is None or newest < upto_seq:
            raise LogError(
                f"frames up to {upto_seq} cannot be sealed: a start would have to read them, as "
                f"the newest snapshot is {'at ' + str(newest) if newest else 'missing'}",
                upto_seq,
            )

    async def _oldest_frames(self, upto_seq: int) -> tuple[list[Frame], bytes]:
        """Return the oldest frames that end by `upto_seq`, and the chain before them."""
        first = (await self._connection.execute(select(func.min(FRAMES.c.first_seq)))).scalar_one()
        if first is None:
            return [], b""
        rows = await self._connection.execute(
            select(*FRAME_COLUMNS)
            .where(
                FRAMES.c.first_seq < first + SEGMENT_EVENTS,
                FRAMES.c.first_seq + FRAMES.c.count - 1 <= upto_seq,
            )
            .order_by(FRAMES.c.first_seq)
        )
        frames = [frame_of(row) for row in rows]
        before = await self._connection.execute(
            select(SEGMENTS.c.chain).where(SEGMENTS.c.last_seq == first - 1)
        )
        return frames, before.scalar_one_or_none() or GENESIS
