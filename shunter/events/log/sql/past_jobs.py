"""The tables of past jobs: written with the events they are made of, read one job at a time.

    past_jobs    how a job ended, by the number of that event
    past_keys    under which key a job was submitted
    past_upto    one row: up to which event the others go, and the highest number of an id in them

A live writer keeps them up to date, and begins by adding what they lack; logs of simulations have
them empty. All of it can be made anew from the events.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import aiosqlite
import orjson

from shunter.errors import LogDamagedError
from shunter.events.facts import Outcome
from shunter.events.log.consistency import REINDEX
from shunter.events.log.sql.sqlite import Row, at_once, connect, failures_named, rows_of
from shunter.events.past_jobs import EndedJob, PastRows
from shunter.events.values import JobId

_UPTO = """
SELECT seq, last_number, digest, (SELECT max(seq) FROM past_jobs), (SELECT max(seq) FROM past_keys)
  FROM past_upto
"""
_JOBS = "SELECT seq, job_id, outcome FROM past_jobs WHERE seq > ? AND seq <= ? ORDER BY seq"
_KEYS = 'SELECT seq, "key", job_id FROM past_keys WHERE seq > ? AND seq <= ? ORDER BY seq'


@dataclass(frozen=True, slots=True)
class PastUpto:
    """Up to which event the tables go; `last_number` is the highest of ids like j12."""

    seq: int = 0
    last_number: int = 0

    def after(self, rows: PastRows, seq: int) -> "PastUpto":
        """Return the same once rows are added, up to an event."""
        return PastUpto(seq, max(self.last_number, rows.last_number))

    @property
    def digest(self) -> str:
        """What tells whether the row is the one that was written."""
        return blake2b(orjson.dumps([self.seq, self.last_number]), digest_size=16).hexdigest()


def past_upto(connection: sqlite3.Connection) -> PastUpto | None:
    """Return up to where the tables go; None: what says so is not what was written."""
    return _upto_in(connection.execute(_UPTO).fetchall())


async def sound_upto(connection: aiosqlite.Connection, path: Path) -> int:
    """Return up to which event the tables go.

    Raises:
        LogDamagedError: what says so is not what was written, or they go further.
    """
    rows = await rows_of(connection, _UPTO)
    upto = _upto_in(rows)
    if upto is None or any(type(seq) is int and seq > upto.seq for seq in rows[0][3:]):
        raise LogDamagedError(f"the table past_upto of {path} was changed; {REINDEX}")
    return upto.seq


async def stored_past(connection: aiosqlite.Connection, after: int, to: int) -> PastRows:
    """Return what the tables say of the events after one, up to another."""
    async with at_once(connection):
        jobs = await rows_of(connection, _JOBS, after, to)
        keys = await rows_of(connection, _KEYS, after, to)
    return PastRows([EndedJob(*row) for row in jobs], [(a, b, c) for a, b, c in keys])


def keep_past(connection: sqlite3.Connection, rows: PastRows, upto: PastUpto) -> None:
    """Add rows, and say up to where the tables go then.

    In the transaction that is open.
    """
    connection.executemany(
        "INSERT INTO past_jobs (seq, job_id, outcome) VALUES (?, ?, ?)",
        [(ended.seq, ended.job_id, str(ended.outcome)) for ended in rows.ended],
    )
    connection.executemany('INSERT INTO past_keys (seq, "key", job_id) VALUES (?, ?, ?)', rows.keys)
    connection.execute("DELETE FROM past_upto")
    connection.execute(
        "INSERT INTO past_upto (seq, last_number, digest) VALUES (?, ?, ?)",
        (upto.seq, upto.last_number, upto.digest),
    )


def make_past_empty(connection: sqlite3.Connection) -> None:
    """Let the tables say nothing, up to no event, in the transaction that is open."""
    connection.execute("DELETE FROM past_jobs")
    connection.execute("DELETE FROM past_keys")
    keep_past(connection, PastRows(), PastUpto())


class SqlPastJobs:
    """Looks past jobs up in the tables of a log that is being written, one at a time.

    A look takes some microseconds, so it is not worth a thread; it sees what is durable. To be used
    on the thread that made it.
    """

    def __init__(self, path: Path) -> None:
        """Open the log.

        Raises:
            LogError: it cannot be read.
        """
        self._path = path
        with failures_named(path):
            self._connection = connect(path, "ro")

    def outcome(self, job_id: JobId) -> Outcome | None:
        """Return how a job ended; None: it has not, or there never was one."""
        newest = "SELECT outcome FROM past_jobs WHERE job_id = ? ORDER BY seq DESC LIMIT 1"
        rows = self._rows(newest, job_id)
        return None if not rows else self._outcome(rows[0][0])

    def job_of(self, key: str) -> JobId | None:
        """Return the job that was submitted under a key; None: there is none."""
        newest = "SELECT job_id FROM past_keys WHERE key = ? ORDER BY seq DESC LIMIT 1"
        rows = self._rows(newest, key)
        return JobId(str(rows[0][0])) if rows else None

    def ended_before(self, seq: int, most: int) -> list[EndedJob]:
        """Return the last jobs that ended before an event, the newest first."""
        page = "SELECT seq, job_id, outcome FROM past_jobs WHERE seq < ? ORDER BY seq DESC LIMIT ?"
        return [
            EndedJob(int(str(number)), JobId(str(job_id)), self._outcome(outcome))
            for number, job_id, outcome in self._rows(page, seq, most)
        ]

    @property
    def last_number(self) -> int:
        """The highest number of an id like j12 of a job that has ended, or is lost; or 0."""
        rows = self._rows("SELECT last_number FROM past_upto")
        return int(str(rows[0][0])) if rows else 0

    def close(self) -> None:
        """Let go of the log."""
        self._connection.close()

    def _outcome(self, text: object) -> Outcome:
        try:
            return Outcome(str(text))
        except ValueError as error:
            raise LogDamagedError(
                f"the table past_jobs of the log {self._path} is damaged: {error}; {REINDEX}"
            ) from error

    def _rows(self, query: str, *values: str | int) -> Sequence[tuple[object, ...]]:
        with failures_named(self._path):
            return self._connection.execute(query, values).fetchall()


def _upto_in(rows: Sequence[Row]) -> PastUpto | None:
    if len(rows) != 1 or [type(value) for value in rows[0][:3]] != [int, int, str]:
        return None
    found = PastUpto(rows[0][0], rows[0][1])
    return found if found.digest == rows[0][2] else None
