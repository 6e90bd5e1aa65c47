"""The SQL source: fetches frames in large chunks, from sealed segments and from the table."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Executable, LargeBinary, cast, func, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError, LogError, LogVersionError, NotFoundError
from shunter.events.log.frames import GENESIS, Frame, Head, Snapshot
from shunter.events.log.sql.job_index import fresh_index
from shunter.events.log.sql.segments import unpack
from shunter.events.log.sql.sqlite import check_version, connected, failures_named
from shunter.events.log.sql.tables import (
    FRAMES,
    HEAD,
    INDEXED_NAME,
    JOB_FRAMES,
    META,
    SEGMENTS,
    SNAPSHOTS,
)
from shunter.events.log.stores import Segment

CHUNK_EVENTS = 20_000
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
    SEGMENTS.c.frames,
)
_SNAPSHOT_COLUMNS = (
    SNAPSHOTS.c.seq,
    SNAPSHOTS.c.at_us,
    SNAPSHOTS.c.state,
    SNAPSHOTS.c.memory,
    SNAPSHOTS.c.digest,
)


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
            await check_version(connection, path)
            await connection.rollback()
        yield SqlSource(path, connection)


class SqlSource:
    """Fetches from one connection; each call is a transaction of its own."""

    def __init__(self, path: Path, connection: AsyncConnection) -> None:
        self._path = path
        self._connection = connection

    @property
    def url(self) -> str:
        """The path of the log."""
        return str(self._path)

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
        rows = await self._rows(
            union_all(
                select(SEGMENTS.c.chain).where(SEGMENTS.c.last_seq == first_seq - 1),
                select(FRAMES.c.chain).where(
                    FRAMES.c.first_seq < first_seq,
                    FRAMES.c.first_seq + FRAMES.c.count == first_seq,
                ),
            )
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
        rows = await self._rows(select(*_SNAPSHOT_COLUMNS).order_by(SNAPSHOTS.c.seq))
        return tuple(Snapshot(*row) for row in rows)

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`; None if there is none."""
        newest = (
            select(*_SNAPSHOT_COLUMNS)
            .where(SNAPSHOTS.c.seq <= seq)
            .order_by(SNAPSHOTS.c.seq.desc())
            .limit(1)
        )
        rows = await self._rows(newest)
        return Snapshot(*rows[0]) if rows else None

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first."""
        rows = await self._rows(select(*_SEGMENT_COLUMNS[:3]).order_by(SEGMENTS.c.first_seq))
        return [Segment(*row) for row in rows]

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

    async def frames_of_job(self, job_id: str) -> Sequence[int] | None:
        """Return where a job's frames begin, from an index made fresh first."""
        if not await fresh_index(self._path, self):
            return None
        firsts = (
            select(JOB_FRAMES.c.first_seq)
            .where(JOB_FRAMES.c.job_id == job_id)
            .order_by(JOB_FRAMES.c.first_seq)
        )
        return [row[0] for row in await self._rows(firsts)]

    async def indexed_seq(self) -> int:
        """Return up to which sequence number the index of jobs goes."""
        rows = await self._rows(select(META.c.value).where(META.c.name == INDEXED_NAME))
        return int(rows[0][0]) if rows else 0

    async def _segment_frames(self, seq: int) -> list[Frame]:
        holds = select(*_SEGMENT_COLUMNS).where(
            SEGMENTS.c.first_seq <= seq, SEGMENTS.c.last_seq >= seq
        )
        rows = await self._rows(holds)
        for first_seq, last_seq, digest, blob in rows:
            return unpack(Segment(first_seq, last_seq, digest), blob)
        return []

    async def _rows(self, query: Executable) -> Sequence[tuple[Any, ...]]:
        with failures_named(self._path):
            async with self._connection.begin():
                rows: Sequence[tuple[Any, ...]] = (await self._connection.execute(query)).all()
        return rows


def refuse_foreign(path: Path) -> None:
    """Refuse a path that leads to no SQLite database at all.

    Raises:
        NotFoundError: there is no such file.
        LogVersionError: it is something else.
        LogError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no log at {path}") from error
    except OSError as error:
        raise LogError(f"the log {path} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise LogVersionError(f"{path} is not a Shunter log: it is no SQLite database")


def frame_of(row: Sequence[Any]) -> Frame:
    """Return the frame of a table row, if its values are of the proper types."""
    if [type(value) for value in row] != _FRAME_TYPES:
        raise LogDamagedError(f"the frame at sequence number {row[0]} has a damaged row", row[0])
    return Frame(*row)
