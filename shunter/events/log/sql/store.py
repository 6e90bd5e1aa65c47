"""The SQL store: frames and the head they end at change in one fenced transaction.

What was committed is then said in the anchor, if there is one, before anybody is told of it.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio.to_thread
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError, LogError, StaleTermError
from shunter.events.log.frames import GENESIS, Frame, Head, Snapshot, next_chain
from shunter.events.log.sql.anchor import Anchor
from shunter.events.log.sql.meta import note_sources, write_meta
from shunter.events.log.sql.packing import pack_bytes
from shunter.events.log.sql.past_jobs import PastUpto, keep_past
from shunter.events.log.sql.reindexing import bring_past_up_to_date
from shunter.events.log.sql.segments import SEGMENT_EVENTS, pack
from shunter.events.log.sql.source import FRAME_COLUMNS, frame_of, open_source
from shunter.events.log.sql.sqlite import failures_named, leave_write_ahead
from shunter.events.log.sql.tables import ANCHOR_NAME, FRAMES, HEAD, SEGMENTS, SNAPSHOTS
from shunter.events.log.stores import Batch, Segment, Source

_MOVE_HEAD = (
    update(HEAD)
    .where(HEAD.c.seq == bindparam("old_seq"), HEAD.c.term == bindparam("old_term"))
    .values(seq=bindparam("new_seq"), chain=bindparam("new_chain"))
)
_ADD_FRAMES = insert(FRAMES)
_ADD_SNAPSHOTS = insert(SNAPSHOTS).prefix_with("OR REPLACE")


class SqlStore:
    """Writes one log through one connection; made by `open_store`."""

    def __init__(
        self,
        path: Path,
        connection: AsyncConnection,
        owned: AsyncExitStack,
        term: int,
        anchor: Anchor | None,
    ) -> None:
        self._path = path
        self._connection = connection
        self._owned = owned
        self._term = term
        self._anchor = anchor
        self._closed = False
        self._past: PastUpto | None = None

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Keep the batch and move the head, in one transaction."""
        frames = [_frame_row(frame) for frame in batch.frames]
        with failures_named(self._path):
            async with self._connection.begin():
                await self._move_head(old, new)
                if frames:
                    await self._connection.execute(_ADD_FRAMES, frames)
                if batch.snapshots:
                    rows = [_snapshot_row(snapshot) for snapshot in batch.snapshots]
                    await self._connection.execute(_ADD_SNAPSHOTS, rows)
                if self._past is not None and (batch.past or batch.snapshots):
                    past = self._past.after(batch.past, new.seq)
                    await keep_past(self._connection, batch.past, past)
                    self._past = past
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
                segment, blob = await anyio.to_thread.run_sync(pack, frames)
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
        moved = await self._connection.execute(
            _MOVE_HEAD,
            {
                "old_seq": old.seq,
                "old_term": old.term,
                "new_seq": new.seq,
                "new_chain": new.chain,
            },
        )
        if moved.rowcount != 1:
            raise StaleTermError(
                f"the log {self._path} is no longer at sequence number {old.seq} of term "
                f"{old.term}: a newer scheduler writes it; stop this one",
                old.seq,
            )

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


def _frame_row(frame: Frame) -> dict[str, object]:
    return {
        "first_seq": frame.first_seq,
        "count": frame.count,
        "at_us": frame.at_us,
        "term": frame.term,
        "chain": frame.chain,
        "payload": frame.payload.decode(),
    }


def _snapshot_row(snapshot: Snapshot) -> dict[str, object]:
    return {
        "seq": snapshot.seq,
        "at_us": snapshot.at_us,
        "digest": snapshot.digest,
        "state": pack_bytes(snapshot.state),
        "memory": pack_bytes(snapshot.memory),
    }
