"""The derived table `job_frames`: which frames hold events about a job.

Nothing depends on it but the speed of one job's story. `meta` says how far it goes; a live writer
keeps it up with its frames, and a reader brings it up to date, a chunk a transaction.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import orjson
from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogError
from shunter.events.log.frames import Frame, Head
from shunter.events.log.sql.sqlite import connected, failures_named
from shunter.events.log.sql.tables import INDEXED_NAME, JOB_FRAMES, META

_ADD = insert(JOB_FRAMES).prefix_with("OR IGNORE")


class IndexedSource(Protocol):
    """What bringing the index up to date reads."""

    async def head(self) -> Head:
        """Return where the log ends now."""
        ...

    async def chunk(self, seq: int) -> Sequence[Frame]:
        """Return some frames in order, the first being the one that should hold `seq`."""
        ...

    async def indexed_seq(self) -> int:
        """Return up to which sequence number the index goes."""
        ...


async def index_frames(
    connection: AsyncConnection, indexed_seq: int, frames: Sequence[Frame]
) -> None:
    """Add frames in the open transaction, if the index ends at `indexed_seq`."""
    if not frames:
        return
    moved = await connection.execute(
        update(META)
        .where(META.c.name == INDEXED_NAME, META.c.value == str(indexed_seq))
        .values(value=str(frames[-1].last_seq))
    )
    rows = [
        {"job_id": job_id, "first_seq": frame.first_seq}
        for frame in frames
        for job_id in _job_ids(frame)
    ]
    if rows and moved.rowcount == 1:
        await connection.execute(_ADD, rows)


async def fresh_index(path: Path, source: IndexedSource) -> bool:
    """Bring the index up to the head; False where the file cannot be written."""
    head = await source.head()
    indexed = await source.indexed_seq()
    if indexed == head.seq:
        return True
    try:
        with failures_named(path):
            async with connected(path, "rw") as connection:
                while indexed < head.seq:
                    frames = [f for f in await source.chunk(indexed + 1) if f.last_seq <= head.seq]
                    if not frames:
                        return False
                    async with connection.begin():
                        await index_frames(connection, indexed, frames)
                    indexed = frames[-1].last_seq
    except LogError:
        return False
    return await source.indexed_seq() >= head.seq


def _job_ids(frame: Frame) -> list[str]:
    """Return the jobs that events of the frame are about, sorted."""
    return sorted({row[2] for row in orjson.loads(frame.payload)} - {None})
