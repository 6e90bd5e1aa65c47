"""The changes of a log that is written, each on a plain connection, in a transaction of its own.

Each begins by moving the head, which fences: it fails where another writer took over.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from shunter.errors import LogDamagedError, LogError, StaleTermError
from shunter.events.log.frames import GENESIS, Frame, Head, Snapshot, next_chain
from shunter.events.log.sql.compression import SEGMENT_EVENTS, pack_bytes, pack_segment
from shunter.events.log.sql.past_jobs import PastUpto, keep_past
from shunter.events.log.sql.source import FRAMES_FROM, frame_of
from shunter.events.log.stores import Batch, Segment

_MOVE_HEAD = "UPDATE head SET seq = ?, chain = ? WHERE seq = ? AND term = ?"
_ADD_FRAME = """
INSERT INTO frames (first_seq, count, at_us, term, chain, payload) VALUES (?, ?, ?, ?, ?, ?)
"""
_ADD_SNAPSHOT = """
INSERT OR REPLACE INTO snapshots (seq, at_us, digest, state, memory) VALUES (?, ?, ?, ?, ?)
"""
_ADD_SEGMENT = """
INSERT INTO segments (first_seq, last_seq, chain, digest, frames) VALUES (?, ?, ?, ?, ?)
"""


def write_batch(
    connection: sqlite3.Connection,
    path: Path,
    batch: Batch,
    old: Head,
    new: Head,
    past: PastUpto | None,
) -> None:
    """Keep a batch and move the head.

    Args:
        connection: to the log.
        path: of the log, for messages.
        batch: what is kept.
        old: where the log ends, and whose it is.
        new: where it ends then.
        past: up to where the tables of past jobs go then; None leaves these alone.

    Raises:
        StaleTermError: the log does not end at `old`.
    """
    move_head(connection, path, old, new)
    connection.executemany(_ADD_FRAME, [_frame_row(frame) for frame in batch.frames])
    connection.executemany(_ADD_SNAPSHOT, [_snapshot_row(snapshot) for snapshot in batch.snapshots])
    if past is not None:
        keep_past(connection, batch.past, past)


def move_head(connection: sqlite3.Connection, path: Path, old: Head, new: Head) -> None:
    """Have the log end elsewhere.

    Raises:
        StaleTermError: no head was moved: another writer took over.
    """
    where = (new.seq, new.chain, old.seq, old.term)
    if connection.execute(_MOVE_HEAD, where).rowcount != 1:
        raise StaleTermError(
            f"the log {path} is no longer at sequence number {old.seq} of term "
            f"{old.term}: a newer scheduler writes it; stop this one",
            old.seq,
        )


def seal_oldest(
    connection: sqlite3.Connection, path: Path, head: Head, upto_seq: int
) -> Segment | None:
    """Move the oldest frames up to `upto_seq` into one segment; None if none is left."""
    move_head(connection, path, head, head)
    _check_snapshot(connection, upto_seq)
    frames, before = _oldest_frames(connection, upto_seq)
    if not frames:
        return None
    for frame in frames:
        if next_chain(before, frame.payload) != frame.chain:
            raise LogDamagedError(f"{frame.named} is damaged and is not sealed", frame.first_seq)
        before = frame.chain
    segment, blob = pack_segment(frames)
    connection.execute(
        _ADD_SEGMENT, (segment.first_seq, segment.last_seq, before, segment.digest, blob)
    )
    connection.execute("DELETE FROM frames WHERE first_seq <= ?", (segment.last_seq,))
    return segment


def thin_snapshots(
    connection: sqlite3.Connection,
    path: Path,
    head: Head,
    superseded: Callable[[Sequence[int]], Sequence[int]],
) -> None:
    """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
    move_head(connection, path, head, head)
    rows = connection.execute("SELECT seq FROM snapshots ORDER BY seq").fetchall()
    gone = superseded([seq for (seq,) in rows])
    connection.executemany("DELETE FROM snapshots WHERE seq = ?", [(seq,) for seq in gone])


def _check_snapshot(connection: sqlite3.Connection, upto_seq: int) -> None:
    ((newest,),) = connection.execute("SELECT max(seq) FROM snapshots").fetchall()
    if newest is None or newest < upto_seq:
        raise LogError(
            f"frames up to {upto_seq} cannot be sealed: a start would have to read them, as "
            f"the newest snapshot is {'at ' + str(newest) if newest else 'missing'}",
            upto_seq,
        )


def _oldest_frames(connection: sqlite3.Connection, upto_seq: int) -> tuple[list[Frame], bytes]:
    """Return the oldest frames that end by `upto_seq`, and the chain before them."""
    ((first,),) = connection.execute("SELECT min(first_seq) FROM frames").fetchall()
    if first is None:
        return [], b""
    rows = connection.execute(FRAMES_FROM, (first, first + SEGMENT_EVENTS)).fetchall()
    frames = [frame for frame in map(frame_of, rows) if frame.last_seq <= upto_seq]
    before = connection.execute("SELECT chain FROM segments WHERE last_seq = ?", (first - 1,))
    return frames, next((chain for (chain,) in before.fetchall()), None) or GENESIS


def _frame_row(frame: Frame) -> tuple[int, int, int, int, bytes, str]:
    payload = frame.payload.decode()
    return frame.first_seq, frame.count, frame.at_us, frame.term, frame.chain, payload


def _snapshot_row(snapshot: Snapshot) -> tuple[int, int, str, bytes, bytes]:
    state, memory = pack_bytes(snapshot.state), pack_bytes(snapshot.memory)
    return snapshot.seq, snapshot.at_us, snapshot.digest, state, memory
