"""Connections to a log in SQLite: how they are set up, and what their failures are called.

Who changes a log has a plain connection, and a transaction is one visit to a thread: a driver for
asyncio hands each statement to its thread and back, and its cursor twice more, which for a commit
of one event comes to twenty visits and costs more than what is written. Who reads one asks one
question at a time, and has the driver's connection, whose thread is its own.
"""

import os
import pwd
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar, TypeVarTuple
from urllib.parse import quote

import aiosqlite
import anyio
import anyio.to_thread

from shunter.errors import LogDamagedError, LogError

_ROLLBACK = "-journal"
_WRITE_AHEAD = "-wal"
SIDE_FILES = (_WRITE_AHEAD, "-shm", _ROLLBACK)
BUSY_S = 10.0
"""How long a statement waits for another process's transaction before it fails."""

ROWS_AT_ONCE = 64
"""So many rows the driver hands over in a visit to its thread, where they are iterated over."""

Mode = Literal["ro", "rw", "rwc"]
Row = Sequence[Any]
"""Of a table whose file may be damaged: the types of its values are checked before it is used."""
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


def connect(path: Path, mode: Mode, *, durable: bool = False) -> sqlite3.Connection:
    """Connect to a file to read (`ro`), change (`rw`) or write a log there (`rwc`).

    The last creates the file if need be, and lets others read while it writes (write-ahead log).
    `durable` syncs each commit to the disk, not only each checkpoint.
    """
    connection = sqlite3.connect(
        _address(path, mode),
        uri=True,
        isolation_level=None,  # no transactions but ours, which take the write lock at once
        timeout=BUSY_S,
        check_same_thread=False,  # one after the other, by whichever thread is free
    )
    try:
        if mode == "rwc":
            connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}").close()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def wal_path(path: Path) -> Path:
    """Return where the write-ahead log of a log lies while it is written."""
    return path.with_name(path.name + _WRITE_AHEAD)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the write lock, and keep all of what is changed meanwhile, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        _roll_back(connection)


@asynccontextmanager
async def writing(
    path: Path, mode: Literal["rw", "rwc"], *, durable: bool = False
) -> AsyncIterator["WriterConnection"]:
    """Connect to a file to change it, as `connect` does.

    Raises:
        LogError: it cannot be opened.
    """
    with failures_named(path):
        connection = await anyio.to_thread.run_sync(lambda: connect(path, mode, durable=durable))
    writer = WriterConnection(path, connection)
    try:
        yield writer
    finally:
        with anyio.CancelScope(shield=True):
            await writer.visit(sqlite3.Connection.close)


class WriterConnection:
    """Changes one log, through a connection of its own.

    Another may write between changes.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._thread = anyio.CapacityLimiter(1)  # never behind those who read
        # Who awaits a visit may be cancelled, by Ctrl-C for one; the thread goes on to its end.
        self._visit = Lock()

    async def change(
        self, work: Callable[[sqlite3.Connection, *_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """Do some work in a transaction: all of it or nothing, in one visit to a thread.

        Raises:
            LogError: the log cannot be written.
        """

        def whole(connection: sqlite3.Connection) -> _Result:
            with transaction(connection):
                return work(connection, *arguments)

        return await self.visit(whole)

    async def visit(
        self, work: Callable[[sqlite3.Connection, *_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """Do some work in the transaction that is open, if there is one.

        Raises:
            LogError: the log cannot be written.
        """

        def alone() -> _Result:
            with self._visit:
                return work(self._connection, *arguments)

        with failures_named(self._path):
            return await anyio.to_thread.run_sync(alone, limiter=self._thread)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Take the write lock for a change of several visits: all of them or nothing."""
        try:
            await self.visit(_execute, "BEGIN IMMEDIATE")
            yield
            await self.visit(_execute, "COMMIT")
        finally:
            with anyio.CancelScope(shield=True):
                await self.visit(_roll_back)

    async def leave_write_ahead(self) -> None:
        """Turn the database into one plain file, unless somebody reads it just now.

        A finished log can then be copied alone, and read where nothing may be written beside it.
        """
        with suppress(LogError):
            await self.visit(_execute, "PRAGMA busy_timeout=0")
            await self.visit(_execute, "PRAGMA journal_mode=DELETE")


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """Connect to a file to read it."""
    if path.with_name(path.name + _ROLLBACK).exists():
        await anyio.to_thread.run_sync(_undo_half_change, path)
    # It is opened here: the driver's thread, where it cannot open a file, outlives our loop and
    # prints a traceback.
    opened = await anyio.to_thread.run_sync(_opened_to_read, path)
    connection = await aiosqlite.Connection(lambda: opened, ROWS_AT_ONCE)
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


def _opened_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        _address(path, "ro"),
        uri=True,
        isolation_level=None,
        timeout=BUSY_S,
        check_same_thread=False,  # one after the other: this thread, then the driver's
    )


@asynccontextmanager
async def at_once(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """Have several queries answered as of one instant."""
    await connection.execute_fetchall("BEGIN")
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await connection.rollback()


async def rows_of(connection: aiosqlite.Connection, query: str, *values: int) -> Sequence[Row]:
    """Return the rows that answer a query."""
    return [*await connection.execute_fetchall(query, values)]


async def is_empty(connection: aiosqlite.Connection) -> bool:
    """Say whether the database has no tables at all."""
    return not await rows_of(connection, "SELECT 1 FROM sqlite_master LIMIT 1")


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Turn what the driver raises into a LogError that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        precise = getattr(error, "sqlite_errorcode", 0)
        code = precise & 0xFF
        if code in _DAMAGE or "malformed" in str(error):
            raise LogDamagedError(
                f"the log {path} is damaged: {error}; stop what writes it, and put the log, its "
                "-wal and its anchor back from one copy (`shunter log verify COPY` says whether "
                "that is whole)"
            ) from error
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
            raise LogError(f"the log {path} cannot be opened: {_why_closed(path)}") from error
        if code == sqlite3.SQLITE_READONLY:
            raise LogError(f"the log {path} cannot be written: {_why_closed(path)}") from error
        raise LogError(f"the log {path} cannot be read or written: {error}") from error


def _why_closed(path: Path) -> str:
    """Return why a log or what lies beside it cannot be opened, and what to do."""
    beside = [path.with_name(path.name + end) for end in ("", *SIDE_FILES)]
    for one in (path.parent, *beside):
        try:
            found = one.stat()
        except FileNotFoundError:
            if one == path.parent:
                return f"there is no folder {one}: make it"
            continue
        except OSError as error:
            return f"{one}: {error.strerror}"
        if one != path.parent and not stat.S_ISREG(found.st_mode):
            return f"{one} is no file: move it away, or name another log"
        for access, verb in ((os.R_OK, "read"), (os.W_OK, "write")):
            if not os.access(one, access):
                owner = _user_name(found.st_uid)
                return (
                    f"user {_user_name(os.geteuid())} may not {verb} {one}, which belongs to "
                    f"{owner}: work as {owner}, have them change its permissions, or name another"
                )
    return "its disk, or the limit of open files (`ulimit -n`), may be at its end"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _address(path: Path, mode: Mode) -> str:
    return f"file:{quote(str(path))}?mode={mode}"


def _execute(connection: sqlite3.Connection, statement: str) -> None:
    connection.execute(statement).close()


def _roll_back(connection: sqlite3.Connection) -> None:
    """Undo a transaction, if one is open: a full disk may have ended it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _undo_half_change(path: Path) -> None:
    """Undo what a writer that was killed left half done in the file itself.

    That is so while a log becomes a write-ahead log, or one plain file again. To open it for a
    change is enough: SQLite undoes it then, and waits for a writer who is still at it. Who may
    not change the file is told what is the matter when they read it.
    """
    with (
        suppress(sqlite3.Error),
        closing(connect(path, "rw")) as connection,
        transaction(connection),
    ):
        pass
