"""The SQL store: frames and the head they end at change in one fenced transaction.

A commit goes into the anchor, if there is one, before it is acknowledged. It counts only if the
files that it went into are still those at the log's path.
"""

import os
import sqlite3
import stat
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from shunter.errors import LogDamagedError, LogError, LogExistsError, StaleTermError
from shunter.events.log.frames import GENESIS, Frame, Head, Snapshot, WithoutLost, next_chain
from shunter.events.log.reader import LogReader
from shunter.events.log.sqlite import (
    SIDE_FILES,
    Anchor,
    WriterConnection,
    WriterLock,
    anchor_path,
    at_once,
    failures_named,
    is_empty,
    read_anchor,
    reading,
    refuse_lost_whole,
    wal_path,
    writing,
)
from shunter.events.log.sqlite_source import (
    FRAMES_FROM,
    LEVEL,
    SEGMENT_EVENTS,
    frame_of,
    open_source,
    pack_bytes,
    pack_segment,
    refuse_absent,
    refusing_foreign,
)
from shunter.events.log.stores import Batch, Segment, Source
from shunter.events.log.tables import (
    ANCHOR_NAME,
    BESIDE,
    Meta,
    PastUpto,
    begin_term,
    check_version,
    create_tables,
    keep_past,
    make_past_empty,
    note_sources,
    past_upto,
    trigger_in,
    write_meta,
)
from shunter.events.past_jobs import PastRows

# Changes of a log, a transaction each. The head moves first, which fails after another writer.

_MOVE_HEAD = "UPDATE head SET seq = ?, chain = ? WHERE seq = ? AND term = ?"
_ADD_FRAME = """
INSERT INTO frames (first_seq, count, at_us, term, chain, payload) VALUES (?, ?, ?, ?, ?, ?)
"""
_ADD_SNAPSHOT = """
INSERT OR REPLACE INTO snapshots (seq, at_us, digest, state, memory) VALUES (?, ?, ?, ?, ?)
"""
_ADD_SEGMENT = """
INSERT INTO segments (first_seq, last_seq, chain, digest, frames) VALUES (?, ?, ?, ?, ?)
"""


def write_batch(
    connection: sqlite3.Connection,
    path: Path,
    batch: Batch,
    old: Head,
    new: Head,
    past: PastUpto | None,
    compressed: bool,
) -> None:
    """Keep a batch and move the head.

    Args:
        connection: to the log.
        path: of the log, for messages.
        batch: what is kept.
        old: where the log ends, and whose it is.
        new: where it ends then.
        past: up to where the tables of past jobs go then; None leaves these alone.
        compressed: keep frames as zlib, which no SQL reads.

    Raises:
        StaleTermError: the log does not end at `old`.
    """
    move_head(connection, path, old, new)
    connection.executemany(_ADD_FRAME, [_frame_row(frame, compressed) for frame in batch.frames])
    connection.executemany(_ADD_SNAPSHOT, [_snapshot_row(snapshot) for snapshot in batch.snapshots])
    if past is not None:
        keep_past(connection, batch.past, past)


def move_head(connection: sqlite3.Connection, path: Path, old: Head, new: Head) -> None:
    """Have the log end elsewhere.

    Raises:
        StaleTermError: no head was moved: another writer took over.
    """
    where = (new.seq, new.chain, old.seq, old.term)
    if connection.execute(_MOVE_HEAD, where).rowcount != 1:
        raise StaleTermError(
            f"the log {path} is no longer at sequence number {old.seq} of term "
            f"{old.term}: a newer scheduler writes it; stop this one",
            old.seq,
        )


def seal_oldest(
    connection: sqlite3.Connection, path: Path, head: Head, upto_seq: int
) -> Segment | None:
    """Move the oldest frames up to `upto_seq` into one segment; None if none is left."""
    move_head(connection, path, head, head)
    _check_snapshot(connection, upto_seq)
    frames, before = _oldest_frames(connection, upto_seq)
    if not frames:
        return None
    for frame in frames:
        if next_chain(before, frame.payload) != frame.chain:
            raise LogDamagedError(f"{frame.named} is damaged and is not sealed", frame.first_seq)
        before = frame.chain
    segment, blob = pack_segment(frames)
    connection.execute(
        _ADD_SEGMENT, (segment.first_seq, segment.last_seq, before, segment.digest, blob)
    )
    connection.execute("DELETE FROM frames WHERE first_seq <= ?", (segment.last_seq,))
    return segment


def thin_snapshots(
    connection: sqlite3.Connection,
    path: Path,
    head: Head,
    superseded: Callable[[Sequence[int]], Sequence[int]],
) -> None:
    """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
    move_head(connection, path, head, head)
    rows = connection.execute("SELECT seq FROM snapshots ORDER BY seq").fetchall()
    gone = superseded([seq for (seq,) in rows])
    connection.executemany("DELETE FROM snapshots WHERE seq = ?", [(seq,) for seq in gone])


def _check_snapshot(connection: sqlite3.Connection, upto_seq: int) -> None:
    ((newest,),) = connection.execute("SELECT max(seq) FROM snapshots").fetchall()
    if newest is None or newest < upto_seq:
        raise LogError(
            f"frames up to {upto_seq} cannot be sealed: a start would have to read them, as "
            f"the newest snapshot is {'at ' + str(newest) if newest else 'missing'}",
            upto_seq,
        )


def _oldest_frames(connection: sqlite3.Connection, upto_seq: int) -> tuple[list[Frame], bytes]:
    """Return the oldest frames that end by `upto_seq`, and the chain before them."""
    ((first,),) = connection.execute("SELECT min(first_seq) FROM frames").fetchall()
    if first is None:
        return [], b""
    rows = connection.execute(FRAMES_FROM, (first, first + SEGMENT_EVENTS)).fetchall()
    frames = [frame for frame in map(frame_of, rows) if frame.last_seq <= upto_seq]
    before = connection.execute("SELECT chain FROM segments WHERE last_seq = ?", (first - 1,))
    return frames, next((chain for (chain,) in before.fetchall()), None) or GENESIS


def _frame_row(frame: Frame, compressed: bool) -> tuple[int, int, int, int, bytes, str | bytes]:
    payload = zlib.compress(frame.payload, LEVEL) if compressed else frame.payload.decode()
    return frame.first_seq, frame.count, frame.at_us, frame.term, frame.chain, payload


def _snapshot_row(snapshot: Snapshot) -> tuple[int, int, str, bytes, bytes]:
    state, memory = pack_bytes(snapshot.state), pack_bytes(snapshot.memory)
    return snapshot.seq, snapshot.at_us, snapshot.digest, state, memory


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
        compressed: bool,
    ) -> None:
        self._path = path
        self._connection = connection
        self._owned = owned
        self._term = term
        self._anchor = anchor
        self._compressed = compressed
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
        await self._change(write_batch, self._path, batch, old, new, past, self._compressed)
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


async def claim(path: Path) -> WriterLock:
    """Take the lock of a log that is to be made, before anything is in it.

    Raises:
        LogExistsError: there is a log.
        LogError: the place cannot be written, or another process writes there.
    """
    with ExitStack() as owned:
        await _what_is_there(path, overwrite=False, resume=False)
        lock = owned.enter_context(WriterLock(path))
        # Asked again, now that nobody else can make one.
        await _what_is_there(path, overwrite=False, resume=False)
        refuse_lost_whole(path)
        owned.pop_all()
    return lock


async def open_store(
    path: Path,
    *,
    overwrite: bool,
    durable: bool,
    resume: bool | WithoutLost,
    mode: int | None = None,
    lock: WriterLock | None = None,
    compressed: bool = False,
) -> tuple[SqlStore, Head, str]:
    """Open a log file for writing; return store, head, and what to know.

    A lock that was taken before is given back as one that is taken here: with the store. Where a
    loss is accepted, the anchor stays as it is until the first commit, which has to record the
    loss: a start that dies before that is refused again.

    Raises:
        LogExistsError: there is a log, and neither `overwrite` nor `resume`; nothing is touched.
        LogVersionError: there is something else, or a log of a newer Shunter.
        LogDamagedError: the log to resume is not what was written, or its end is lost.
        LogError: the place cannot be written, or another process writes there.
    """
    await _what_is_there(path, overwrite=overwrite, resume=bool(resume))
    async with AsyncExitStack() as owned:
        owned.enter_context(WriterLock(path) if lock is None else lock)
        # Asked again, now that nobody else can make one.
        meta = await _what_is_there(path, overwrite=overwrite, resume=bool(resume))
        head, warning, lost = None, "", None
        if meta is not None and resume and not overwrite:
            head, warning, lost = await _checked_head(path, resume)
        elif not overwrite:
            refuse_lost_whole(path)
        if head is None:
            _remove(path)
        if mode is not None:
            _permit(path, mode)
        anchor = None
        durable = durable or (head is not None and meta is not None and meta.anchor is not None)
        if durable and lost is None:
            # Before the log: one that was made, and nothing more, has its anchor.
            anchor = Anchor.at(path, Head(0, GENESIS, 0) if head is None else head, mode)
            owned.callback(anchor.close)
        if meta is not None and head is not None:
            # In the file itself, before it has a write-ahead log: a copy without that, and without
            # the anchor, may be an old one, and must be known for it.
            async with writing(path, "rw", durable=True) as writer:
                await writer.change(_bring_up_to_date, path, meta, durable)
        connection = await owned.enter_async_context(writing(path, "rwc", durable=durable))
        if head is None:
            head = await connection.change(create_tables, durable)
        else:
            head = await connection.change(_take_term, path, head, lost)
        if anchor is not None:
            anchor.move(head)
        store = SqlStore(path, connection, owned.pop_all(), head.term, anchor, compressed)
        if lost is not None:
            store.accept_loss(lost.first_seq, lost.last_seq, mode)
        return store, head, warning


async def _what_is_there(path: Path, *, overwrite: bool, resume: bool) -> Meta | None:
    """Return what a log says of itself; refuse what must stay untouched.

    A file without tables counts as absent: a process died before it wrote anything.
    """
    if not _holds_bytes(path):
        return None
    if not overwrite and not resume:
        if await _has_no_tables(path):
            return None
        raise LogExistsError(
            f"{path} is there already; choose another file, or pass --overwrite (overwrite=True) "
            "to replace it"
        )
    with failures_named(path), refusing_foreign(path):
        async with reading(path) as connection, at_once(connection):
            if await is_empty(connection):
                return None
            return await check_version(connection, path)


def _holds_bytes(path: Path) -> bool:
    """Say whether the file is there and not empty; refuse places where none can be."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return False
        raise LogError(
            f"the log {path} cannot be written: there is no directory {path.parent}"
        ) from None
    except OSError as error:
        raise LogError(f"the log {path} cannot be written: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise LogError(f"the log {path} cannot be written: it is not a file")
    return found.st_size > 0


async def _has_no_tables(path: Path) -> bool:
    try:
        with failures_named(path):
            async with reading(path) as connection:
                return await is_empty(connection)
    except LogError:
        return False


@dataclass(frozen=True, slots=True)
class _Loss:
    """What a log lacks at its end by its anchor: events, or a start of a term."""

    first_seq: int
    last_seq: int
    term: int


async def _checked_head(path: Path, resume: bool | WithoutLost) -> tuple[Head, str, _Loss | None]:
    """Return the head of the log to resume, what to know, and the accepted loss."""
    if isinstance(resume, WithoutLost):
        async with open_source(path, asks_anchor=False) as source:
            head = await LogReader(source).check_tail()
        anchor = read_anchor(path)
        is_short = anchor is not None and (anchor.seq > head.seq or anchor.term > head.term)
        if anchor is not None and is_short and resume.first_seq == head.seq + 1:
            return head, "", _Loss(resume.first_seq, max(anchor.seq, head.seq), anchor.term)
    async with open_source(path) as source:
        reader = LogReader(source)
        return await reader.check_tail(), reader.warning, None


def _bring_up_to_date(
    connection: sqlite3.Connection, path: Path, meta: Meta, is_anchored: bool
) -> None:
    """Bring the tables up to this version; note that there is an anchor."""
    trigger = trigger_in(connection)
    if trigger:
        raise LogDamagedError(
            f"the log {path} has a trigger {trigger}, which Shunter did not make: it would "
            "change what is written; drop it, and see what `shunter log verify` says"
        )
    if not meta.is_current:
        from shunter.events.log.upgrading import upgrade_here

        upgrade_here(connection)
    write_meta(connection, {ANCHOR_NAME: BESIDE} if is_anchored else {})


def _take_term(connection: sqlite3.Connection, path: Path, head: Head, lost: _Loss | None) -> Head:
    """Take the next term, which fences earlier writers; refresh the view's names."""
    term = 1 + (head.term if lost is None else max(head.term, lost.term))
    take = "UPDATE head SET term = ? WHERE seq = ? AND term = ?"
    if connection.execute(take, (term, head.seq, head.term)).rowcount != 1:
        raise LogError(f"the log {path} changed while it was opened: another scheduler starts")
    begin_term(connection)
    return Head(head.seq, head.chain, term)


def _permit(path: Path, mode: int) -> None:
    """Say who may read a log, before anything is in it.

    SQLite gives its side files the mode of the database.
    """
    try:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
        for name in (path.name, *(path.name + side for side in SIDE_FILES)):
            file = path.with_name(name)
            if file.exists() and stat.S_IMODE(file.stat().st_mode) != mode:
                file.chmod(mode)
    except OSError as error:
        raise LogError(
            f"the log {path} cannot be given the mode {mode:04o}: {error.strerror}; give it to the "
            "user who runs the scheduler, or set log.mode to what it has"
        ) from error


def _remove(path: Path) -> None:
    """Remove a log; first its write-ahead log, lest it is played into the next."""
    for name in (*(path.name + side for side in SIDE_FILES), path.name):
        path.with_name(name).unlink(missing_ok=True)
    anchor_path(path).unlink(missing_ok=True)


# Derived tables, updated or rebuilt.

Opened = Callable[[], AbstractAsyncContextManager[Source]]
"""Opens the log for reading."""

ROWS = 20_000
"""So many rows of past jobs are added at once."""


async def reindex(path: Path) -> None:
    """Make the tables of past jobs anew.

    The index of jobs is made when somebody asks for a job.
    """
    refuse_absent(path)
    with WriterLock(path):
        with failures_named(path), refusing_foreign(path):
            async with reading(path) as connection, at_once(connection):
                meta = await check_version(connection, path)
        # With a write-ahead log, so that the events can be read while the tables grow.
        async with writing(path, "rwc", durable=True) as writer:
            try:
                async with writer.transaction():
                    if not meta.is_current:
                        from shunter.events.log.upgrading import upgrade_here

                        await writer.visit(upgrade_here)
                    await writer.visit(_forget)
                    await _bring(writer, lambda: open_source(path))
            finally:
                await writer.leave_write_ahead()


async def bring_past_up_to_date(writer: WriterConnection, opened: Opened) -> PastUpto:
    """Have the tables of past jobs say all that a log says; return up to where.

    They lack what was written without them: by an older version, or by a simulation.
    """
    async with writer.transaction():
        return await _bring(writer, opened)


async def _bring(writer: WriterConnection, opened: Opened) -> PastUpto:
    """Do so in the transaction that is open; the log is read beside it."""
    async with opened() as source:
        reader = LogReader(source)
        head = await reader.head()
        upto = await writer.visit(past_upto)
        if upto is None or upto.seq > head.seq:
            await writer.visit(make_past_empty)
            upto = PastUpto()
        rows = PastRows()
        async for frame in reader.frames(upto.seq, head.seq):
            rows.extend(frame.past(upto.seq))
            if frame.last_seq >= head.seq or len(rows.ended) >= ROWS:
                upto = upto.after(rows, frame.last_seq)
                await writer.visit(keep_past, rows, upto)
                rows = PastRows()
    return upto


def _forget(connection: sqlite3.Connection) -> None:
    """Have nothing that is derived, in the transaction that is open."""
    connection.execute("DELETE FROM job_index")
    make_past_empty(connection)
