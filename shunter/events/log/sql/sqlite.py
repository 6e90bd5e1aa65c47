"""Connections to a log in SQLite: how they are set up, and what their failures are called."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from shunter.errors import LogDamagedError, LogError

_ROLLBACK = "-journal"
SIDE_FILES = ("-wal", "-shm", _ROLLBACK)
BUSY_S = 10.0
"""How long a statement waits for another process's transaction before it fails."""

Mode = Literal["ro", "rw", "rwc"]
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}


@asynccontextmanager
async def connected(
    path: Path, mode: Mode, *, durable: bool = False
) -> AsyncIterator[AsyncConnection]:
    """Connect to a file to read (`ro`), change (`rw`) or write a log there (`rwc`).

    The last creates the file if need be, and lets others read while it writes (write-ahead log).
    `durable` syncs each commit to the disk, not only each checkpoint.
    """
    if mode == "ro" and path.with_name(path.name + _ROLLBACK).exists():
        await _roll_back(path)
    url = URL.create(
        "sqlite+aiosqlite",
        database=f"file:{quote(str(path))}",
        query={"uri": "true", "mode": mode},
    )
    engine = create_async_engine(
        url,
        poolclass=NullPool,
        pool_reset_on_return=None,
        # The driver begins no transaction of its own: ours take the write lock at once.
        connect_args={"isolation_level": None, "timeout": BUSY_S},
    )
    pragmas = [synchronous(durable=durable)]
    if mode == "rwc":
        pragmas.insert(0, "PRAGMA journal_mode=WAL")

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    begin = "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE"
    event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


def synchronous(*, durable: bool) -> str:
    """Return the pragma that syncs each commit to the disk, or only each checkpoint."""
    return f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}"


async def _roll_back(path: Path) -> None:
    """Undo what a writer that was killed left half done in the file itself.

    That is so while a log becomes a write-ahead log, or one plain file again. To open it for a
    change is enough: SQLite undoes it then, and waits for a writer who is still at it. Who may
    not change the file is told what is the matter when they read it.
    """
    with suppress(DBAPIError, sqlite3.Error):
        async with connected(path, "rw") as connection, connection.begin():
            pass


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Turn what the driver raises into a LogError that names the file."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        precise = getattr(cause, "sqlite_errorcode", 0)
        code = precise & 0xFF
        if code in _DAMAGE or "malformed" in str(cause):
            raise LogDamagedError(f"the log {path} is damaged: {cause}") from error
        if code == sqlite3.SQLITE_BUSY:
            raise LogError(
                f"the log {path} is in use by another process for more than {BUSY_S:g} s"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise LogError(f"the log {path} cannot be written: no space left") from error
        if precise == sqlite3.SQLITE_READONLY_ROLLBACK:
            raise LogError(
                f"the log {path} was left half changed by a process that died, and who may only "
                "read it cannot undo that; read it once as a user who may write it"
            ) from error
        if code == sqlite3.SQLITE_CANTOPEN:
            raise LogError(f"the log {path} cannot be opened: {cause}") from error
        raise LogError(f"the log {path} cannot be read or written: {cause}") from error


async def leave_write_ahead(connection: AsyncConnection) -> None:
    """Turn the database into one plain file, unless somebody reads it just now.

    A finished log can then be copied alone, and read where nothing may be written beside it.
    """
    try:
        # Past SQLAlchemy, which would begin a transaction first, in which the mode cannot change.
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute("PRAGMA busy_timeout=0")
        await driver.execute("PRAGMA journal_mode=DELETE")
    except (DBAPIError, sqlite3.Error):
        return


async def is_empty(connection: AsyncConnection) -> bool:
    """Say whether the database has no tables at all."""
    return (await connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1")).first() is None
