"""The SQL source: fetches frames in large chunks, from sealed segments and from the table.

Bytes of a column are compressed where that makes them shorter, and frames in logs of simulations. A
first byte says which: that of a zlib stream, or the bracket with which JSON begins.

A sealed segment, a run of frames in one blob, is a row, not a file: moving frames is then one
transaction, and a log stays one file to copy. Inside are two lines a frame, its row without the
payload and its payload, compressed by zlib.
"""

import sqlite3
import stat
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from hashlib import blake2b
from pathlib import Path

import aiosqlite
import orjson

from shunter.errors import LogDamagedError, LogError, LogVersionError, NotFoundError
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot, Span
from shunter.events.log.sqlite import (
    Row,
    anchor_path,
    at_once,
    failures_named,
    is_empty,
    read_anchor,
    reading,
    refuse_lost_whole,
    rows_of,
    writing,
)
from shunter.events.log.stores import Segment
from shunter.events.log.tables import (
    BESIDE,
    Meta,
    check_version,
    read_fields_digest,
    sound_upto,
    stored_past,
    strange_object,
)
from shunter.events.past_jobs import PastRows

SEGMENT_EVENTS = 5_000
"""About how many events a segment holds: sealing one stops commits for some 50 ms."""

LEVEL = 1
"""Of zlib: the quickest; the best makes a state a fifth smaller in ten times as long."""

_ZLIB = b"\x78"


def pack_bytes(plain: bytes) -> bytes:
    """Return what to keep of some bytes, which are JSON or nothing."""
    assert not plain.startswith(_ZLIB), "no JSON begins like that"
    packed = zlib.compress(plain, LEVEL)
    return packed if len(packed) < len(plain) else plain


def unpack_bytes(kept: bytes, what: str, seq: int) -> bytes:
    """Return the bytes that were packed.

    Raises:
        LogDamagedError: they cannot be had back; names `what`, at a sequence number.
    """
    if not kept.startswith(_ZLIB):
        return kept
    try:
        return _inflated(kept)
    except zlib.error as error:
        raise LogDamagedError(
            f"{what} at sequence number {seq} is damaged: {error}", seq
        ) from error


def _inflated(packed: bytes) -> bytes:
    """Return what was compressed; raise zlib.error if there is more or less.

    `zlib.decompress` ignores what follows the end of a stream, which nothing else would show.
    """
    stream = zlib.decompressobj()
    plain = stream.decompress(packed)
    if not stream.eof or stream.unused_data:
        raise zlib.error("it ends too early" if not stream.eof else "bytes follow its end")
    return plain


def pack_segment(frames: Sequence[Frame]) -> tuple[Segment, bytes]:
    """Return the segment of a run of frames, and its blob."""
    lines = []
    for frame in frames:
        lines.append(
            orjson.dumps([frame.first_seq, frame.count, frame.at_us, frame.term, frame.chain.hex()])
        )
        lines.append(frame.payload)
    text = b"\n".join(lines)
    segment = Segment(frames[0].first_seq, frames[-1].last_seq, _segment_digest(text))
    return segment, zlib.compress(text)


def unpack_segment(segment: Segment, blob: bytes) -> list[Frame]:
    """Return the frames of a blob.

    Raises:
        LogDamagedError: the blob does not hold what was sealed.
    """
    try:
        text = _inflated(blob)
    except (zlib.error, TypeError):
        text = b""
    if _segment_digest(text) != segment.digest:
        raise LogDamagedError(
            f"the segment at sequence number {segment.first_seq} does not match its digest",
            segment.first_seq,
        )
    lines = text.split(b"\n")
    frames = []
    for row, payload in zip(lines[::2], lines[1::2], strict=True):
        first_seq, count, at_us, term, chain = orjson.loads(row)
        frames.append(Frame(first_seq, count, at_us, term, bytes.fromhex(chain), payload))
    return frames


def _segment_digest(text: bytes) -> str:
    """Return the digest of what is compressed: builds of zlib differ in their bytes."""
    return blake2b(text, digest_size=32).hexdigest()


CHUNK_EVENTS = 20_000

# A payload as bytes: a flipped bit may leave no valid text, and the chain is over bytes.
FRAMES_FROM = """
SELECT first_seq, count, at_us, term, chain, CAST(payload AS BLOB) FROM frames
 WHERE first_seq >= (SELECT max(first_seq) FROM frames WHERE first_seq <= ?) AND first_seq < ?
 ORDER BY first_seq
"""
"""The frames from the one that should hold a number up to those that begin before another."""

_FRAME_TYPES = [int, int, int, int, bytes, bytes]
_FRAME_BEFORE = """
SELECT first_seq + count, chain FROM frames WHERE first_seq < ? ORDER BY first_seq DESC LIMIT 1
"""
_SEGMENT_OF = """
SELECT first_seq, last_seq, digest, chain, frames
  FROM segments WHERE first_seq <= ? AND last_seq >= ?
"""
_SNAPSHOTS = """
SELECT s.seq, s.at_us, s.state, s.memory, s.digest, o.first + o.count
  FROM snapshots AS s LEFT JOIN outcomes AS o ON o.seq = s.seq
 WHERE s.seq <= ? ORDER BY s.seq DESC LIMIT ?
"""
_SNAPSHOTS_WITHOUT_ENDED = """
SELECT seq, at_us, state, memory, digest, NULL
  FROM snapshots WHERE seq <= ? ORDER BY seq DESC LIMIT ?
"""
_OUTCOMES = "SELECT seq, first, count, pairs, digest FROM outcomes WHERE first < ? ORDER BY seq"
# In one statement, as a live writer may be adding to both tables.
_GAPS = """
SELECT (SELECT min(expected) FROM (
          SELECT first_seq, lag(first_seq + count, 1, 1) OVER (ORDER BY first_seq) AS expected
            FROM (SELECT first_seq, count FROM frames UNION ALL
                  SELECT first_seq, last_seq - first_seq + 1 FROM segments))
         WHERE first_seq != expected),
       (SELECT min(first_seq) FROM frames WHERE first_seq > (SELECT seq FROM head))
"""
_ADD_SPAN = "INSERT INTO job_index (first_seq, last_seq, names, digest) VALUES (?, ?, ?, ?)"

_LAST_SEQ, _ALL = 2**63 - 1, -1


@asynccontextmanager
async def open_source(path: Path, *, asks_anchor: bool = True) -> AsyncIterator["SqlSource"]:
    """Open a log file for reading.

    Args:
        path: of the log.
        asks_anchor: refuse a log that ends before its anchor.
    Raises:
        NotFoundError: there is no such file.
        LogVersionError: it is not a log, or of a newer Shunter.
    """
    refuse_absent(path)
    async with AsyncExitStack() as owned:
        with failures_named(path), refusing_foreign(path):
            connection = await owned.enter_async_context(reading(path))
            async with at_once(connection):
                if await is_empty(connection):
                    refuse_lost_whole(path)
                meta = await check_version(connection, path)
        # The file after the table: a writer makes it before it says that it is there.
        is_anchored = anchor_path(path).exists()
        source = SqlSource(
            path, connection, meta, lacks_anchor=not is_anchored, asks_anchor=asks_anchor
        )
        if not is_anchored and meta.closed_at is not None:
            await source.refuse_lost(meta.closed_at)
        yield source


class SqlSource:
    """Fetches from one connection; each call is a transaction of its own."""

    def __init__(
        self,
        path: Path,
        connection: aiosqlite.Connection,
        meta: Meta,
        *,
        lacks_anchor: bool,
        asks_anchor: bool,
    ) -> None:
        self._asks_anchor = asks_anchor
        self._path = path
        self._connection = connection
        self._meta = meta
        self.lacks_anchor = lacks_anchor and meta.anchor == BESIDE

    @property
    def url(self) -> str:
        """The path of the log."""
        return str(self._path)

    async def anchor(self) -> Head | None:
        """Return what the anchor beside the file says, if it is asked; None: none."""
        return read_anchor(self._path) if self._asks_anchor else None

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
        rows = await self._rows("SELECT seq, chain, term FROM head")
        if len(rows) != 1 or [type(value) for value in rows[0]] != [int, bytes, int]:
            raise LogDamagedError(f"the log {self._path} has no proper head: {rows!r}")
        return Head(*rows[0])

    async def chunk(self, seq: int) -> Sequence[Frame]:
        """Return frames in order, the first being the one that should hold `seq`."""
        sealed = await self._segment_frames(seq)
        if sealed:
            return [frame for frame in sealed if frame.last_seq >= seq]
        rows = await self._rows(FRAMES_FROM, seq, seq + CHUNK_EVENTS)
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
        for follows, chain in await self._rows(_FRAME_BEFORE, first_seq):
            if follows == first_seq and isinstance(chain, bytes):
                return chain
        rows = await self._rows("SELECT chain FROM segments WHERE last_seq = ?", first_seq - 1)
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
        rows = await self._rows(self._snapshots, _LAST_SEQ, _ALL)
        return tuple(_snapshot_of(row) for row in reversed(rows))

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`; None if there is none."""
        rows = await self._rows(self._snapshots, seq, 1)
        return _snapshot_of(rows[0]) if rows else None

    async def past_upto(self) -> int | None:
        """Return up to which event the tables of past jobs go; None: there are none."""
        if not self._meta.has_table("past_upto"):
            return None
        with failures_named(self._path):
            return await sound_upto(self._connection, self._path)

    async def past(self, after: int, to: int) -> PastRows:
        """Return what the tables of past jobs say of events after one, up to another."""
        if not self._meta.has_table("past_jobs"):
            return PastRows()
        with failures_named(self._path):
            return await stored_past(self._connection, after, to)

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended, in order of their ends."""
        if not self._meta.has_table("outcomes"):
            return ()
        return [_outcomes_of(row) for row in await self._rows(_OUTCOMES, count)]

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first."""
        every = "SELECT first_seq, last_seq, digest FROM segments ORDER BY first_seq"
        return [_segment_of(row) for row in await self._rows(every)]

    async def refuse_changed(self) -> None:
        """Raise LogDamagedError if tables, the view, or what it reads were changed."""
        with failures_named(self._path):
            async with at_once(self._connection):
                meta = await check_version(self._connection, self._path)
                strange = await strange_object(self._connection, meta.revision)
                digest = "" if strange else await read_fields_digest(self._connection)
        if strange:
            raise LogDamagedError(f"the log {self._path} was changed: {strange}")
        if meta.fields is not None and meta.fields != digest:
            raise LogDamagedError(f"the table event_fields of the log {self._path} was changed")

    async def terms(self) -> Sequence[tuple[int, int]]:
        """Return the first numbers of terms with theirs, as far as known."""
        with failures_named(self._path):
            async with at_once(self._connection):
                return (await check_version(self._connection, self._path)).terms

    async def gap(self) -> int | None:
        """Return the first sequence number at which the log is not whole; None if it is."""
        rows = await self._rows(_GAPS)
        return next((seq for seq in rows[0] if seq is not None), None)

    async def sources(self) -> Mapping[int, Mapping[str, str]]:
        """Return from which sources each term decided."""
        return self._meta.sources

    async def spans(self) -> Sequence[Span]:
        """Return what the index of jobs has, oldest first."""
        if not self._meta.has_table("job_index"):
            return ()
        every = "SELECT first_seq, last_seq, names, digest FROM job_index ORDER BY first_seq"
        return [_span_of(row) for row in await self._rows(every)]

    async def keep_spans(self, after: int, spans: Sequence[Span]) -> bool:
        """Have the index go on like this after an event; False: it cannot."""
        if not self._meta.has_table("job_index"):
            return False
        rows = [
            (span.first_seq, span.last_seq, pack_bytes(span.names), span.digest) for span in spans
        ]

        def keep(connection: sqlite3.Connection) -> None:
            others = "DELETE FROM job_index WHERE first_seq NOT BETWEEN 1 AND ?"
            connection.execute(others, (after,))
            connection.executemany(_ADD_SPAN, rows)

        try:
            async with writing(self._path, "rw") as writer:
                await writer.change(keep)
        except LogError:
            return False
        return True

    @property
    def _snapshots(self) -> str:
        """What selects the newest snapshots up to one, with how many jobs had ended."""
        return _SNAPSHOTS if self._meta.has_table("outcomes") else _SNAPSHOTS_WITHOUT_ENDED

    async def _segment_frames(self, seq: int) -> list[Frame]:
        for *row, chain, blob in await self._rows(_SEGMENT_OF, seq, seq):
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

    async def _rows(self, query: str, *values: int) -> Sequence[Row]:
        with failures_named(self._path):
            return await rows_of(self._connection, query, *values)


def refuse_absent(path: Path) -> None:
    """Refuse a path at which no log can be, without opening what is there.

    A descriptor of the file that this process opened and closed would drop all POSIX locks that it
    holds on it, those of SQLite's connections among them. Another process that then closes the log
    takes itself for the last one, and removes the write-ahead log that is still written.

    Raises:
        NotFoundError: there is no such file.
        LogDamagedError: there is none, and an anchor says what it held.
        LogError: it cannot be a log.
    """
    try:
        found = path.stat()
    except FileNotFoundError as error:
        refuse_lost_whole(path)
        raise NotFoundError(f"there is no log at {path}") from error
    except OSError as error:
        raise LogError(f"the log {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise LogError(f"the log {path} cannot be read: it is not a file")


@contextmanager
def refusing_foreign(path: Path) -> Iterator[None]:
    """Say of a file that SQLite does not know that it is no log.

    Raises:
        LogDamagedError: it is none, and has an anchor, so that it was one.
        LogVersionError: it is something else.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        if anchor_path(path).exists():
            raise  # named as damage
        raise LogVersionError(
            f"{path} is not a Shunter log: it is no SQLite database, or its first page is damaged"
        ) from error


def frame_of(row: Row) -> Frame:
    """Return the frame of a table row, if its values are of the proper types."""
    if [type(value) for value in row] != _FRAME_TYPES:
        raise LogDamagedError(f"the frame at sequence number {row[0]} has a damaged row", row[0])
    first_seq, count, at_us, term, chain, payload = row
    payload = unpack_bytes(payload, "the frame", first_seq)
    return Frame(first_seq, count, at_us, term, chain, payload)


def _snapshot_of(row: Row) -> Snapshot:
    seq, at_us, state, memory, digest, ended = row
    if [type(value) for value in row[:5]] != [int, int, bytes, bytes, str]:
        raise LogDamagedError(f"the snapshot at sequence number {seq} has a damaged row", seq)
    state = unpack_bytes(state, "the snapshot", seq)
    memory = unpack_bytes(memory, "the snapshot", seq)
    return Snapshot(seq, at_us, state, memory, digest, ended)


def _outcomes_of(row: Row) -> Outcomes:
    seq, first, count, pairs, digest = row
    if [type(value) for value in row] != [int, int, int, bytes, str]:
        raise LogDamagedError(f"the outcomes at sequence number {seq} have a damaged row", seq)
    return Outcomes(seq, first, count, unpack_bytes(pairs, "the row of outcomes", seq), digest)


def _span_of(row: Row) -> Span:
    """Return a span; one whose row is damaged does not match its digest."""
    first_seq, last_seq, names, digest = row
    if [type(value) for value in row] != [int, int, bytes, str]:
        return Span(first_seq, first_seq, b"", "")
    try:
        return Span(first_seq, last_seq, unpack_bytes(names, "the index", first_seq), digest)
    except LogDamagedError:
        return Span(first_seq, last_seq, b"", "")


def _segment_of(row: Row) -> Segment:
    if [type(value) for value in row] != [int, int, str]:
        raise LogDamagedError(f"the segment at sequence number {row[0]} has a damaged row", row[0])
    return Segment(*row)
