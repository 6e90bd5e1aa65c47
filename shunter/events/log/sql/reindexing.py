"""What is derived from the events of a log, brought up to its end or made anew."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from shunter.events.log.reader import LogReader
from shunter.events.log.sql.lock import WriterLock
from shunter.events.log.sql.meta import check_version
from shunter.events.log.sql.past_jobs import PastUpto, keep_past, make_past_empty, past_upto
from shunter.events.log.sql.source import open_source, refuse_absent, refusing_foreign
from shunter.events.log.sql.sqlite import (
    WriterConnection,
    at_once,
    failures_named,
    reading,
    writing,
)
from shunter.events.log.stores import Source
from shunter.events.past_jobs import PastRows

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
                        from shunter.events.log.sql.upgrading import upgrade_here

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
