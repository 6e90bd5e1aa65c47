"""What is derived from the events of a log, brought up to its end or made anew."""

from pathlib import Path

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.events.log.reader import LogReader
from shunter.events.log.sql.lock import WriterLock
from shunter.events.log.sql.meta import check_version
from shunter.events.log.sql.past_jobs import PastUpto, keep_past, make_past_empty, past_upto
from shunter.events.log.sql.source import open_source, refuse_foreign
from shunter.events.log.sql.sqlite import connected, failures_named, leave_write_ahead
from shunter.events.log.sql.tables import JOB_INDEX
from shunter.events.past_jobs import PastRows

__all__ = ["bring_past_up_to_date", "reindex"]

ROWS = 20_000
"""So many rows of past jobs are added at once."""


async def reindex(path: Path) -> None:
    """Make the tables of past jobs anew.

    The index of jobs is made when somebody asks for a job.
    """
    refuse_foreign(path)
    with WriterLock(path), failures_named(path):
        # With a write-ahead log, so that the events can be read while the tables grow.
        async with connected(path, "rwc", durable=True) as connection:
            try:
                async with connection.begin():
                    if not (await check_version(connection, path)).is_current:
                        from shunter.events.log.sql.upgrading import upgrade_here

                        await upgrade_here(connection)
                    await connection.execute(delete(JOB_INDEX))
                    await _bring(connection, path, anew=True)
            finally:
                await leave_write_ahead(connection)


async def bring_past_up_to_date(connection: AsyncConnection, path: Path) -> PastUpto:
    """Have the tables of past jobs say all that a log says; return up to where.

    They lack what was written without them: by an older version, or by a simulation.
    """
    with failures_named(path):
        async with connection.begin():
            return await _bring(connection, path, anew=False)


async def _bring(connection: AsyncConnection, path: Path, *, anew: bool) -> PastUpto:
    """Do so in the transaction that is open; the log is read beside it."""
    async with open_source(path) as source:
        reader = LogReader(source)
        head = await reader.head()
        upto = None if anew else await past_upto(connection)
        if upto is None or upto.seq > head.seq:
            await make_past_empty(connection)
            upto = PastUpto()
        rows = PastRows()
        async for frame in reader.frames(upto.seq, head.seq):
            rows.extend(frame.past(upto.seq))
            if frame.last_seq >= head.seq or len(rows.ended) >= ROWS:
                upto = upto.after(rows, frame.last_seq)
                await keep_past(connection, rows, upto)
                rows = PastRows()
    return upto
