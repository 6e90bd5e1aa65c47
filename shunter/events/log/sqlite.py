"""A log file in SQLite: connections to it, the lock of its one writer, and its anchor.

A writer has a plain connection, and visits a thread once a transaction: a driver for asyncio would
visit it twenty times for a commit of one event, which costs more than what is written. A reader
asks one question at a time, by the driver's connection.
"""

import fcntl
import os
import pwd
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Literal, Self, TypeVar, TypeVarTuple
from urllib.parse import quote

import aiosqlite
import anyio
import anyio.to_thread
import orjson

from shunter.errors import LogDamagedError, LogError
from shunter.events.log.frames import CHAIN_BYTES, GENESIS, Head, refuse_lost

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
        """Make the database one plain file, unless another process reads it just now.

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
    """Raise what the driver raises as a LogError that names the file."""
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
    owners: dict[Path, int] = {}
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
        owners[one] = found.st_uid
    for access, verb in ((os.R_OK, "read"), (os.W_OK, "write")):  # a reader need write nothing
        for one, uid in owners.items():
            if not os.access(one, access):
                owner = _user_name(uid)
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


# One writer a file: an advisory lock that dies with its process. It is on a file of its own, since
# closing any descriptor of a database drops SQLite's own locks.

LOCK_SUFFIX = ".lock"


class WriterLock:
    """Holds `PATH.lock` for one writer, from construction to `release`."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            LogError: another process (or another writer of this one) has it, or the directory
                cannot be written.
        """
        self._path = path.with_name(path.name + LOCK_SUFFIX)
        self._file: int | None = None
        while self._file is None:
            self._file = self._try_take(path)

    def release(self) -> None:
        """Give the lock back and remove its file; releasing twice is allowed."""
        if self._file is not None:
            # Removed before it is unlocked: whoever waits for it then notices and starts over.
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _try_take(self, path: Path) -> int | None:
        """Return the locked descriptor; None if its file was removed in between."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogError(f"the log {path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise LogError(
                f"the log {path} is being written by another process; stop it first, "
                "or write to another file"
            ) from error
        try:
            ours = os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            ours = False
        if ours:
            return file
        os.close(file)
        return None


# The anchor, a small file that says up to where events were synced:
#
#     log     … commit 41 ── commit 42 (synced)
#     anchor  … commit 41 ───────────────────── commit 42 (written) ──▶ acknowledged ── synced
#
# A log that ends before its anchor has lost events: SQLite drops what follows a damaged place of a
# write-ahead log without a word. The anchor is synced at once but not waited for. Its two slots are
# written alternately, so a torn write leaves the one before.

SLOT_BYTES = 4096
SLOTS = 2
ANCHOR_SUFFIX = ".anchor"

SYNC_EVERY_S = 0.2
"""At most so often: a disk that syncs for the anchor lets the log wait."""

_FRESH = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW


def anchor_path(log: Path) -> Path:
    """Return where the anchor of a log lies."""
    return log.with_name(log.name + ANCHOR_SUFFIX)


def read_anchor(log: Path) -> Head | None:
    """Return what the anchor of a log says; None if there is no anchor.

    Raises:
        LogDamagedError: neither slot holds what was written.
        LogError: it cannot be read.
    """
    path = anchor_path(log)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogError(f"the anchor {path} cannot be read: {error.strerror}") from error
    heads = [head for head in _slots(content) if head is not None]
    if not heads:
        raise LogDamagedError(
            f"the anchor {path} is damaged, so that it is not known whether its log is whole; "
            "move it away to go on without it"
        )
    return max(heads, key=lambda head: (head.term, head.seq))


def refuse_lost_whole(log: Path) -> None:
    """Raise LogDamagedError where there is no log, and an anchor says what one held."""
    anchor = read_anchor(log)
    if anchor is not None and anchor.seq:
        refuse_lost(str(log), anchor, Head(0, GENESIS, anchor.term))


class Anchor:
    """Writes the anchor of one log, while it is open for writing."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._next_slot = 0
        self._failed: OSError | None = None
        self._moved, self._closing = Event(), Event()
        self._thread = Thread(target=self._sync, name="anchor", daemon=True)
        self._thread.start()

    @classmethod
    def at(cls, log: Path, head: Head, mode: int | None) -> Self:
        """Make the anchor of a log, or replace it, with both slots at `head`.

        Raises:
            LogError: it cannot be written.
        """
        path = anchor_path(log)
        fresh = path.with_name(path.name + ".new")
        try:
            file = os.open(fresh, _FRESH, 0o666)
        except OSError as error:
            raise _failure(path, error) from error
        try:
            if mode is not None or log.exists():
                os.fchmod(file, log.stat().st_mode & 0o777 if mode is None else mode)
            os.pwrite(file, _slot(head) * SLOTS, 0)
            os.fsync(file)
            fresh.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            os.close(file)
            raise _failure(path, error) from error
        return cls(path, file)

    def move(self, head: Head) -> None:
        """Say that everything up to `head` is synced; this itself is synced right after.

        Raises:
            LogError: it cannot be written, or what was written before cannot be synced.
        """
        try:
            os.pwrite(self._file, _slot(head), self._next_slot * SLOT_BYTES)
        except OSError as error:
            self._failed = self._failed or error
        if self._failed is not None:
            raise _failure(self._path, self._failed) from self._failed
        self._next_slot = (self._next_slot + 1) % SLOTS
        self._moved.set()

    def close(self) -> None:
        """Sync it, and let go of the file, which stays."""
        self._closing.set()
        self._moved.set()
        self._thread.join()
        with suppress(OSError):  # what is not synced is behind, at worst
            os.fdatasync(self._file)
        os.close(self._file)

    def _sync(self) -> None:
        """Sync what was written, again and again; many moves make one sync."""
        while not self._closing.is_set():
            self._moved.wait()
            self._moved.clear()
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self._failed = self._failed or error
            self._closing.wait(SYNC_EVERY_S)


def _slots(content: bytes) -> Sequence[Head | None]:
    return [
        _head_in(content[place * SLOT_BYTES : (place + 1) * SLOT_BYTES]) for place in range(SLOTS)
    ]


def _slot(head: Head) -> bytes:
    """Return a slot: a line of JSON, filled up with spaces."""
    said = {"seq": head.seq, "chain": head.chain.hex(), "term": head.term}
    line = orjson.dumps({**said, "digest": _anchor_digest(head)})
    return line.ljust(SLOT_BYTES - 1) + b"\n"


def _head_in(slot: bytes) -> Head | None:
    try:
        said = orjson.loads(slot)
        head = Head(said["seq"], bytes.fromhex(said["chain"]), said["term"])
        is_whole = said["digest"] == _anchor_digest(head) and slot == _slot(head)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return head if is_whole and len(head.chain) == CHAIN_BYTES else None


def _anchor_digest(head: Head) -> str:
    text = orjson.dumps([head.seq, head.chain.hex(), head.term])
    return blake2b(text, digest_size=16).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failure(path: Path, error: OSError) -> LogError:
    return LogError(f"the anchor {path} cannot be written: {error.strerror}")
