"""The writing of batches: one transaction is one visit to a thread.

A driver for asyncio hands each statement to its thread and back, and its cursor twice more, which
for a commit of one event comes to twenty visits and costs more than what is written. So what a log
is written with is a plain connection of its own; all else goes through that of SQLAlchemy.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread
from sqlalchemy import Delete, Insert, Update, bindparam, insert, update
from sqlalchemy.dialects import sqlite

from shunter.errors import StaleTermError
from shunter.events.log.frames import Frame, Head, Snapshot
from shunter.events.log.sql.compression import pack_bytes
from shunter.events.log.sql.past_jobs import PastUpto, past_changes
from shunter.events.log.sql.sqlite import BUSY_S, failures_named, synchronous
from shunter.events.log.sql.tables import FRAMES, HEAD, SNAPSHOTS
from shunter.events.log.stores import Batch

MOVE_HEAD = (
    update(HEAD)
    .where(HEAD.c.seq == bindparam("old_seq"), HEAD.c.term == bindparam("old_term"))
    .values(seq=bindparam("new_seq"), chain=bindparam("new_chain"))
)
_ADD_FRAMES = insert(FRAMES)
_ADD_SNAPSHOTS = insert(SNAPSHOTS).prefix_with("OR REPLACE")
_DIALECT = sqlite.dialect(paramstyle="named")


class BatchWriter:
    """Writes the batches of one log; another may write between them."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        """Connect to a log that is there; `durable` syncs each batch to the disk.

        Raises:
            LogError: it cannot be opened.
        """
        self._path = path
        self._thread = anyio.CapacityLimiter(1)  # never behind those who read
        with failures_named(path):
            self._connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=rw",
                uri=True,
                isolation_level=None,
                timeout=BUSY_S,
                check_same_thread=False,  # one after the other, by whichever thread is free
            )
            self._connection.execute(synchronous(durable=durable)).close()

    async def write(self, batch: Batch, old: Head, new: Head, past: PastUpto | None) -> None:
        """Keep a batch and move the head, all of it or nothing.

        Args:
            batch: what is kept.
            old: where the log ends, and whose it is.
            new: where it ends then.
            past: up to where the tables of past jobs go then; None leaves these alone.

        Raises:
            StaleTermError: the log does not end at `old`.
            LogError: it cannot be written.
        """
        with failures_named(self._path):
            await anyio.to_thread.run_sync(self._write, batch, old, new, past, limiter=self._thread)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _write(self, batch: Batch, old: Head, new: Head, past: PastUpto | None) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                cursor.execute(_text(MOVE_HEAD), head_change(old, new))
                refuse_stale(self._path, old, cursor.rowcount)
                frames = [_frame_row(frame) for frame in batch.frames]
                cursor.executemany(_text(_ADD_FRAMES), frames)
                snapshots = [_snapshot_row(snapshot) for snapshot in batch.snapshots]
                cursor.executemany(_text(_ADD_SNAPSHOTS), snapshots)
                for change, rows in past_changes(batch.past, past) if past is not None else ():
                    cursor.executemany(_text(change), rows)
                cursor.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # a full disk may have ended it already
                    cursor.execute("ROLLBACK")


def head_change(old: Head, new: Head) -> Mapping[str, int | bytes]:
    """Return what `MOVE_HEAD` is to be given."""
    return {
        "old_seq": old.seq,
        "old_term": old.term,
        "new_seq": new.seq,
        "new_chain": new.chain,
    }


def refuse_stale(path: Path, old: Head, moved: int) -> None:
    """Raise StaleTermError where no head was moved: another writer took over."""
    if moved != 1:
        raise StaleTermError(
            f"the log {path} is no longer at sequence number {old.seq} of term "
            f"{old.term}: a newer scheduler writes it; stop this one",
            old.seq,
        )


@cache
def _text(statement: Insert | Update | Delete) -> str:
    """Return a statement as SQLite takes it, its parameters by name."""
    return str(statement.compile(dialect=_DIALECT))


def _frame_row(frame: Frame) -> dict[str, int | bytes | str]:
    return {
        "first_seq": frame.first_seq,
        "count": frame.count,
        "at_us": frame.at_us,
        "term": frame.term,
        "chain": frame.chain,
        "payload": frame.payload.decode(),
    }


def _snapshot_row(snapshot: Snapshot) -> dict[str, int | bytes | str]:
    return {
        "seq": snapshot.seq,
        "at_us": snapshot.at_us,
        "digest": snapshot.digest,
        "state": pack_bytes(snapshot.state),
        "memory": pack_bytes(snapshot.memory),
    }
