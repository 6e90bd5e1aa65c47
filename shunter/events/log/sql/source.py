"""The SQL source: fetches frames in large chunks, from sealed segments and from the table."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Executable,
    LargeBinary,
    Select,
    cast,
    delete,
    func,
    insert,
    null,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError, LogError, LogVersionError, NotFoundError
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot
from shunter.events.log.job_index import Span
from shunter.events.log.sql.anchor import anchor_path, read_anchor, refuse_lost_whole
from shunter.events.log.sql.compression import pack_bytes, unpack_bytes, unpack_segment
from shunter.events.log.sql.meta import BESIDE, Meta, check_version, fields_digest
from shunter.events.log.sql.objects import strange_object
from shunter.events.log.sql.past_jobs import sound_upto, stored_past
from shunter.events.log.sql.sqlite import connected, failures_named, is_empty
from shunter.events.log.sql.tables import (
    FRAMES,
    HEAD,
    JOB_INDEX,
    OUTCOMES,
    SEGMENTS,
    SNAPSHOTS,
)
from shunter.events.log.stores import Segment
from shunter.events.past_jobs import PastRows

CHUNK_EVENTS = 20_000
Values = Sequence[Any]
"""A row of a table, whose file may be damaged: its types are checked before it is used."""

_MAGIC = b"SQLite format 3\0"

FRAME_COLUMNS = (
    FRAMES.c.first_seq,
    FRAMES.c.count,
    FRAMES.c.at_us,
    FRAMES.c.term,
    FRAMES.c.chain,
    # As bytes: a flipped bit may leave no valid text, and the chain is over bytes.
    cast(FRAMES.c.payload, LargeBinary).label("payload"),
)
_FRAME_TYPES = [int, int, int, int, bytes, bytes]
_SEGMENT_COLUMNS = (
    SEGMENTS.c.first_seq,
    SEGMENTS.c.last_seq,
    SEGMENTS.c.digest,
    SEGMENTS.c.chain,
    SEGMENTS.c.frames,
)
_SNAPSHOT_COLUMNS = (
    SNAPSHOTS.c.seq,
    SNAPSHOTS.c.at_us,
    SNAPSHOTS.c.state,
    SNAPSHOTS.c.memory,
    SNAPSHOTS.c.digest,
)
_SNAPSHOTS = select(*_SNAPSHOT_COLUMNS, null())
_SNAPSHOTS_WITH_ENDED = select(*_SNAPSHOT_COLUMNS, OUTCOMES.c.first + OUTCOMES.c.count).outerjoin(
    OUTCOMES, OUTCOMES.c.seq == SNAPSHOTS.c.seq
)
_OUTCOMES_COLUMNS = (
    OUTCOMES.c.seq,
    OUTCOMES.c.first,
    OUTCOMES.c.count,
    OUTCOMES.c.pairs,
    OUTCOMES.c.digest,
)
_SPAN_COLUMNS = (JOB_INDEX.c.first_seq, JOB_INDEX.c.last_seq, JOB_INDEX.c.names, JOB_INDEX.c.digest)


@asynccontextmanager
async def open_source(path: Path) -> AsyncIterator["SqlSource"]:
    """Open a log file for reading.

    Raises:
        NotFoundError: there is no such file.
        LogVersionError: it is not a log, or of a newer Shunter.
    """
    refuse_foreign(path)
    async with AsyncExitStack() as owned:
        with failures_named(path):
            connection = await owned.enter_async_context(connected(path, "ro"))
            if await is_empty(connection):
                refuse_lost_whole(path)
            meta = await check_version(connection, path)
            await connection.rollback()
        # The file after the table: a writer makes it before it says that it is there.
        is_anchored = anchor_path(path).exists()
        source = SqlSource(path, connection, meta, lacks_anchor=not is_anchored)
        if not is_anchored and meta.closed_at is not None:
            await source.refuse_lost(meta.closed_at)
        yield source


class SqlSource:
    """Fetches from one connection; each call is a transaction of its own."""

    def __init__(
        self, path: Path, connection: AsyncConnection, meta: Meta, *, lacks_anchor: bool
    ) -> None:
        self._path = path
        self._connection = connection
        self._meta = meta
        self.lacks_anchor = lacks_anchor and meta.anchor == BESIDE

    @property
    def url(self) -> str:
        """The path of the log."""
        return str(self._path)

    async def anchor(self) -> Head | None:
        """Return what the anchor beside the file says; None: there is none."""
        return read_anchor(self._path)

    async def refuse_lost(self, closed_at: int) -> None:
        """Raise LogDamagedError if the log no longer ends where it was closed."""
        head = await self.head()
        if head.seq != closed_at:
            raise LogDamagedError(
                f"the log {self._path} was closed at sequence number {closed_at} and ends at "
                f"{head.seq}: its file was changed, or put together from several",
                head.seq + 1,
            )

    async def head(self) -> Head:
        """Return where the log ends now."""
        rows = await self._rows(select(HEAD.c.seq, HEAD.c.chain, HEAD.c.term))
        if len(rows) != 1 or [type(value) for value in rows[0]] != [int, bytes, int]:
            raise LogDamagedError(f"the log {self._path} has no proper head: {rows!r}")
        return Head(*rows[0])

    async def chunk(self, seq: int) -> Sequence[Frame]:
        """Return frames in order, the first being the one that should hold `seq`."""
        sealed = await self._segment_frames(seq)
        if sealed:
            return [frame for frame in sealed if frame.last_seq >= seq]
        start = select(func.max(FRAMES.c.first_seq)).where(FRAMES.c.first_seq <= seq)
        rows = await self._rows(
            select(*FRAME_COLUMNS)
            .where(
                FRAMES.c.first_seq >= start.scalar_subquery(),
                FRAMES.c.first_seq < seq + CHUNK_EVENTS,
            )
            .order_by(FRAMES.c.first_seq)
        )
        if not rows:
            # Sealed between the two queries, by a live writer.
            sealed = await self._segment_frames(seq)
            return [frame for frame in sealed if frame.last_seq >= seq]
        return [frame_of(row) for row in rows]

    async def chain_before(self, first_seq: int) -> bytes:
        """Return the chain value of the frame before the one that begins there."""
        if first_seq == 1:
            return GENESIS
        # A segment says its last chain value, so that it need not be unpacked for what follows.
        newest = (
            select(FRAMES.c.first_seq + FRAMES.c.count, FRAMES.c.chain)
            .where(FRAMES.c.first_seq < first_seq)
            .order_by(FRAMES.c.first_seq.desc())
            .limit(1)
        )
        for follows, chain in await self._rows(newest):
            if follows == first_seq and isinstance(chain, bytes):
                return chain
        rows = await self._rows(
            select(SEGMENTS.c.chain).where(SEGMENTS.c.last_seq == first_seq - 1)
        )
        if rows and isinstance(rows[0][0], bytes):
            return rows[0][0]
        for frame in await self.chunk(first_seq - 1):
            if frame.last_seq == first_seq - 1:
                return frame.chain
        raise LogDamagedError(
            f"the frame that ends at sequence number {first_seq - 1} is missing from {self._path}",
            first_seq - 1,
        )

    async def snapshots(self) -> Sequence[Snapshot]:
        """Return all snapshots, oldest first."""
        rows = await self._rows(self._snapshots.order_by(SNAPSHOTS.c.seq))
        return tuple(_snapshot_of(row) for row in rows)

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`; None if there is none."""
        newest = (
            self._snapshots.where(SNAPSHOTS.c.seq <= seq).order_by(SNAPSHOTS.c.seq.desc()).limit(1)
        )
        rows = await self._rows(newest)
        return _snapshot_of(rows[0]) if rows else None

    async def past_upto(self) -> int | None:
        """Return up to which event the tables of past jobs go; None: there are none."""
        if not self._meta.has_table("past_upto"):
            return None
        with failures_named(self._path):
            async with self._connection.begin():
                return await sound_upto(self._connection, self._path)

    async def past(self, after: int, to: int) -> PastRows:
        """Return what the tables of past jobs say of events after one, up to another."""
        if not self._meta.has_table("past_jobs"):
            return PastRows()
        with failures_named(self._path):
            async with self._connection.begin():
                return await stored_past(self._connection, after, to)

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended, in order of their ends."""
        if not self._meta.has_table("outcomes"):
            return ()
        kept = select(*_OUTCOMES_COLUMNS).where(OUTCOMES.c.first < count).order_by(OUTCOMES.c.seq)
        return [_outcomes_of(row) for row in await self._rows(kept)]

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first."""
        rows = await self._rows(select(*_SEGMENT_COLUMNS[:3]).order_by(SEGMENTS.c.first_seq))
        return [_segment_of(row) for row in rows]

    async def refuse_changed(self) -> None:
        """Raise LogDamagedError if tables, the view, or what it reads were changed."""
        with failures_named(self._path):
            async with self._connection.begin():
                meta = await check_version(self._connection, self._path)
                strange = await strange_object(self._connection, meta.revision)
                digest = "" if strange else await fields_digest(self._connection)
        if strange:
            raise LogDamagedError(f"the log {self._path} was changed: {strange}")
        if meta.fields is not None and meta.fields != digest:
            raise LogDamagedError(f"the table event_fields of the log {self._path} was changed")

    async def terms(self) -> Sequence[tuple[int, int]]:
        """Return the first numbers of terms with theirs, as far as known."""
        with failures_named(self._path):
            async with self._connection.begin():
                return (await check_version(self._connection, self._path)).terms

    async def gap(self) -> int | None:
        """Return the first sequence number at which the log is not whole; None if it is."""
        runs = union_all(
            select(FRAMES.c.first_seq, FRAMES.c.count),
            select(SEGMENTS.c.first_seq, SEGMENTS.c.last_seq - SEGMENTS.c.first_seq + 1),
        ).subquery()
        follows = func.lag(runs.c.first_seq + runs.c.count, 1, 1).over(order_by=runs.c.first_seq)
        expected = select(runs.c.first_seq, follows.label("expected")).subquery()
        holes = select(func.min(expected.c.expected)).where(
            expected.c.first_seq != expected.c.expected
        )
        # In one statement, as a live writer may be adding to both.
        beyond = select(func.min(FRAMES.c.first_seq)).where(
            FRAMES.c.first_seq > select(HEAD.c.seq).scalar_subquery()
        )
        rows = await self._rows(select(holes.scalar_subquery(), beyond.scalar_subquery()))
        return next((seq for seq in rows[0] if seq is not None), None)

    async def sources(self) -> Mapping[int, Mapping[str, str]]:
        """Return from which sources each term decided."""
        return self._meta.sources

    async def spans(self) -> Sequence[Span]:
        """Return what the index of jobs has, oldest first."""
        if not self._meta.has_table("job_index"):
            return ()
        rows = await self._rows(select(*_SPAN_COLUMNS).order_by(JOB_INDEX.c.first_seq))
        return [_span_of(row) for row in rows]

    async def keep_spans(self, after: int, spans: Sequence[Span]) -> bool:
        """Have the index go on like this after an event; False: it cannot."""
        if not self._meta.has_table("job_index"):
            return False
        rows = [
            {
                "first_seq": span.first_seq,
                "last_seq": span.last_seq,
                "names": pack_bytes(span.names),
                "digest": span.digest,
            }
            for span in spans
        ]
        try:
            with failures_named(self._path):
                async with connected(self._path, "rw") as connection, connection.begin():
                    others = ~JOB_INDEX.c.first_seq.between(1, after)
                    await connection.execute(delete(JOB_INDEX).where(others))
                    if rows:
                        await connection.execute(insert(JOB_INDEX), rows)
        except LogError:
            return False
        return True

    @property
    def _snapshots(self) -> Select[Any]:
        """What selects snapshots, with how many jobs had ended."""
        return _SNAPSHOTS_WITH_ENDED if self._meta.has_table("outcomes") else _SNAPSHOTS

    async def _segment_frames(self, seq: int) -> list[Frame]:
        holds = select(*_SEGMENT_COLUMNS).where(
            SEGMENTS.c.first_seq <= seq, SEGMENTS.c.last_seq >= seq
        )
        rows = await self._rows(holds)
        for *row, chain, blob in rows:
            segment = _segment_of(row)
            frames = unpack_segment(segment, blob)
            if (frames[0].first_seq, frames[-1].last_seq, frames[-1].chain) != (
                segment.first_seq,
                segment.last_seq,
                chain,
            ):
                raise LogDamagedError(
                    f"the segment at sequence number {segment.first_seq} has a damaged row",
                    segment.first_seq,
                )
            return frames
        return []

    async def _rows(self, query: Executable) -> Sequence[Values]:
        with failures_named(self._path):
            async with self._connection.begin():
                rows: Sequence[Values] = (await self._connection.execute(query)).all()
        return rows


def refuse_foreign(path: Path) -> None:
    """Refuse a path that leads to no SQLite database at all.

    Raises:
        NotFoundError: there is no such file.
        LogDamagedError: there is none, or an empty one, and an anchor says what it held.
        LogVersionError: it is something else.
        LogError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        refuse_lost_whole(path)
        raise NotFoundError(f"there is no log at {path}") from error
    except OSError as error:
        raise LogError(f"the log {path} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        if not magic:
            refuse_lost_whole(path)
        raise LogVersionError(f"{path} is not a Shunter log: it is no SQLite database")


def frame_of(row: Values) -> Frame:
    """Return the frame of a table row, if its values are of the proper types."""
    if [type(value) for value in row] != _FRAME_TYPES:
        raise LogDamagedError(f"the frame at sequence number {row[0]} has a damaged row", row[0])
    return Frame(*row)


def _snapshot_of(row: Values) -> Snapshot:
    seq, at_us, state, memory, digest, ended = row
    if [type(value) for value in row[:5]] != [int, int, bytes, bytes, str]:
        raise LogDamagedError(f"the snapshot at sequence number {seq} has a damaged row", seq)
    state = unpack_bytes(state, "the snapshot", seq)
    memory = unpack_bytes(memory, "the snapshot", seq)
    return Snapshot(seq, at_us, state, memory, digest, ended)


def _outcomes_of(row: Values) -> Outcomes:
    seq, first, count, pairs, digest = row
    if [type(value) for value in row] != [int, int, int, bytes, str]:
        raise LogDamagedError(f"the outcomes at sequence number {seq} have a damaged row", seq)
    return Outcomes(seq, first, count, unpack_bytes(pairs, "the row of outcomes", seq), digest)


def _span_of(row: Values) -> Span:
    """Return a span; one whose row is damaged does not match its digest."""
    first_seq, last_seq, names, digest = row
    if [type(value) for value in row] != [int, int, bytes, str]:
        return Span(first_seq, first_seq, b"", "")
    try:
        return Span(first_seq, last_seq, unpack_bytes(names, "the index", first_seq), digest)
    except LogDamagedError:
        return Span(first_seq, last_seq, b"", "")


def _segment_of(row: Values) -> Segment:
    if [type(value) for value in row] != [int, int, str]:
        raise LogDamagedError(f"the segment at sequence number {row[0]} has a damaged row", row[0])
    return Segment(*row)
