"""The SQL store: frames and the head they end at change in one fenced transaction.

What was committed is then said in the anchor, if there is one, before anybody is told of it. It
counts as committed only if the files that it went into are still those at the log's path.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from shunter.errors import LogError
from shunter.events.log.frames import Head
from shunter.events.log.sql.anchor import Anchor
from shunter.events.log.sql.changes import move_head, seal_oldest, thin_snapshots, write_batch
from shunter.events.log.sql.meta import note_sources, write_meta
from shunter.events.log.sql.past_jobs import PastUpto
from shunter.events.log.sql.reindexing import bring_past_up_to_date
from shunter.events.log.sql.source import open_source
from shunter.events.log.sql.sqlite import WriterConnection, wal_path
from shunter.events.log.sql.tables import ANCHOR_NAME
from shunter.events.log.stores import Batch, Segment, Source

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class SqlStore:
    """Writes one log; made by `open_store`."""

    def __init__(
        self,
        path: Path,
        connection: WriterConnection,
        owned: AsyncExitStack,
        term: int,
        anchor: Anchor | None,
    ) -> None:
        self._path = path
        self._connection = connection
        self._owned = owned
        self._term = term
        self._anchor = anchor
        self.lost: tuple[int, int] | None = None
        """The first and the last number of events whose loss was accepted."""
        self._begin_anchor: Callable[[Head], Anchor] | None = None
        self._files = _files_at(path)
        self._closed = False
        self._past: PastUpto | None = None

    def accept_loss(self, first_seq: int, last_seq: int, mode: int | None) -> None:
        """Leave the anchor, which names lost events, until a commit records them."""
        self.lost = first_seq, last_seq
        self._begin_anchor = lambda head: Anchor.at(self._path, head, mode)

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Keep the batch and move the head, in one transaction."""
        past = None
        if self._past is not None and (batch.past or batch.snapshots):
            past = self._past.after(batch.past, new.seq)
        await self._change(write_batch, self._path, batch, old, new, past)
        self._past = past or self._past
        if self._begin_anchor is not None and new != old:
            self._anchor, self._begin_anchor = self._begin_anchor(new), None
            self._owned.callback(self._anchor.close)
        elif self._anchor is not None and new != old:
            self._anchor.move(new)

    async def bring_past_up_to_date(self) -> None:
        """Have the tables of past jobs say all that the log says, from here on too."""
        self._past = await bring_past_up_to_date(self._connection, self.source)

    async def seal(self, head: Head, upto_seq: int) -> Segment | None:
        """Move the oldest frames up to `upto_seq` into one segment; None if none is left."""
        return await self._change(seal_oldest, self._path, head, upto_seq)

    async def thin_snapshots(
        self, head: Head, superseded: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
        await self._change(thin_snapshots, self._path, head, superseded)

    async def note_sources(self, head: Head, sources: Mapping[str, str]) -> None:
        """Keep from which sources the head's term decides, in a row of `meta`."""

        def note(connection: sqlite3.Connection) -> None:
            move_head(connection, self._path, head, head)
            note_sources(connection, head.term, sources)

        await self._change(note)

    @asynccontextmanager
    async def source(self) -> AsyncIterator[Source]:
        """Open the file for reading, through a connection of its own."""
        if not self._closed:
            self.refuse_replaced()
        async with open_source(self._path, asks_anchor=self._begin_anchor is None) as source:
            yield source

    async def close(self) -> None:
        """Close the connection and give the writer's lock back.

        Where the write-ahead log was removed, SQLite still puts what is in it into the log. Another
        file in the place of the log is not touched.
        """
        if self._closed:
            return
        self._closed = True
        if self._files != _files_at(self._path):
            await self._owned.aclose()
            return
        if self._anchor is not None:
            # Where that cannot be written, or another writer took over, it does without the note.
            with suppress(LogError):
                await self._connection.change(self._say_closed)
        await self._connection.leave_write_ahead()
        await self._owned.aclose()

    async def _change(
        self, work: Callable[[sqlite3.Connection, *_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """Change the log; see that its files are still its own once that is committed."""
        self.refuse_replaced()
        result = await self._connection.change(work, *arguments)
        self.refuse_replaced()
        return result

    def refuse_replaced(self) -> None:
        """Raise LogError if this writes files that were removed or replaced.

        Who opens the log does not see them, and they are gone with this process if it is killed.
        """
        for path, file, found in zip(
            (self._path, wal_path(self._path)), self._files, _files_at(self._path), strict=True
        ):
            if file != found:
                raise LogError(
                    f"the file {path} is no longer the one that the scheduler writes: another "
                    f"process {'removed' if found is None else 'replaced'} it; nothing after that "
                    "is taken, and the scheduler stops: start it again, and leave the log and the "
                    "files beside it alone while it runs"
                )

    def _say_closed(self, connection: sqlite3.Connection) -> None:
        """Note where the log ends: the file it becomes needs no anchor."""
        heads = connection.execute("SELECT seq, term FROM head").fetchall()
        if [term for _, term in heads] == [self._term]:
            write_meta(connection, {ANCHOR_NAME: str(heads[0][0])})


def _files_at(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return which files the log and its write-ahead log are; None: there is none."""
    found: list[tuple[int, int] | None] = []
    for file in (path, wal_path(path)):
        try:
            status = file.stat()
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
