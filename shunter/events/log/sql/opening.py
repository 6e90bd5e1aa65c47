"""How a log file comes to be written: found, made or replaced, locked, checked, its term taken."""

import os
import sqlite3
import stat
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

from shunter.errors import LogDamagedError, LogError, LogExistsError
from shunter.events.log.frames import GENESIS, Head, WithoutLost
from shunter.events.log.reader import LogReader
from shunter.events.log.sql.anchor import Anchor, anchor_path, read_anchor, refuse_lost_whole
from shunter.events.log.sql.lock import WriterLock
from shunter.events.log.sql.meta import (
    BESIDE,
    Meta,
    begin_term,
    check_version,
    create_tables,
    write_meta,
)
from shunter.events.log.sql.objects import trigger_in
from shunter.events.log.sql.source import open_source, refusing_foreign
from shunter.events.log.sql.sqlite import (
    SIDE_FILES,
    at_once,
    failures_named,
    is_empty,
    reading,
    writing,
)
from shunter.events.log.sql.store import SqlStore
from shunter.events.log.sql.tables import ANCHOR_NAME


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
        store = SqlStore(path, connection, owned.pop_all(), head.term, anchor)
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
        from shunter.events.log.sql.upgrading import upgrade_here

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

    Raises:
        LogError: the file is not ours, or cannot be made.
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
