"""The tables of past jobs: written with the events they are made of, read one job at a time.

    past_jobs    how a job ended, by the number of that event
    past_keys    under which key a job was submitted
    past_upto    one row: up to which event the others go, and the highest number of an id in them

A live writer keeps them up to date, and begins by adding what they lack; logs of simulations have
them empty. All of it can be made anew from the events.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from sqlalchemy import Delete, Insert, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.errors import LogDamagedError
from shunter.events.facts.jobs import Outcome
from shunter.events.log.consistency import REINDEX
from shunter.events.log.sql.sqlite import BUSY_S, failures_named
from shunter.events.log.sql.tables import PAST_JOBS, PAST_KEYS, PAST_UPTO
from shunter.events.past_jobs import EndedJob, PastRows, number_of
from shunter.events.values.ids import JobId

__all__ = [
    "PastUpto",
    "SqlPastJobs",
    "keep_past",
    "make_past_empty",
    "past_changes",
    "past_upto",
    "sound_upto",
    "stored_past",
]

Rows = Sequence[Mapping[str, int | str]]

_ADD_JOBS, _ADD_KEYS = insert(PAST_JOBS), insert(PAST_KEYS)
_CLEAR_UPTO, _ADD_UPTO = delete(PAST_UPTO), insert(PAST_UPTO)


@dataclass(frozen=True, slots=True)
class PastUpto:
    """Up to which event the tables go; `last_number` is the highest of ids like j12."""

    seq: int = 0
    last_number: int = 0

    def after(self, rows: PastRows, seq: int) -> "PastUpto":
        """Return the same once rows are added, up to an event."""
        return PastUpto(seq, max([self.last_number, *(number_of(e.job_id) for e in rows.ended)]))

    @property
    def digest(self) -> str:
        """What tells whether the row is the one that was written."""
        return blake2b(orjson.dumps([self.seq, self.last_number]), digest_size=16).hexdigest()


async def past_upto(connection: AsyncConnection) -> PastUpto | None:
    """Return up to where the tables go; None: what says so is not what was written."""
    columns = (PAST_UPTO.c.seq, PAST_UPTO.c.last_number, PAST_UPTO.c.digest)
    rows = (await connection.execute(select(*columns))).all()
    if len(rows) != 1 or [type(value) for value in rows[0]] != [int, int, str]:
        return None
    found = PastUpto(rows[0][0], rows[0][1])
    return found if found.digest == rows[0][2] else None


async def sound_upto(connection: AsyncConnection, path: Path) -> int:
    """Return up to which event the tables go.

    Raises:
        LogDamagedError: what says so is not what was written, or they go further.
    """
    upto = await past_upto(connection)
    last = [
        (await connection.execute(select(func.max(table.c.seq)))).scalar_one()
        for table in (PAST_JOBS, PAST_KEYS)
    ]
    if upto is None or any(type(seq) is int and seq > upto.seq for seq in last):
        raise LogDamagedError(f"the table past_upto of {path} was changed; {REINDEX}")
    return upto.seq


async def stored_past(connection: AsyncConnection, after: int, to: int) -> PastRows:
    """Return what the tables say of the events after one, up to another."""
    found: list[Sequence[Sequence[Any]]] = []
    for table in (PAST_JOBS, PAST_KEYS):
        some = select(table).where(table.c.seq > after, table.c.seq <= to).order_by(table.c.seq)
        found.append((await connection.execute(some)).all())
    return PastRows([EndedJob(*row) for row in found[0]], [(a, b, c) for a, b, c in found[1]])


def past_changes(rows: PastRows, upto: PastUpto) -> Iterator[tuple[Insert | Delete, Rows]]:
    """Return statements, each for some rows, that add what is new.

    The last two say up to where the tables go then.
    """
    if rows.ended:
        yield (
            _ADD_JOBS,
            [{"seq": e.seq, "job_id": e.job_id, "outcome": str(e.outcome)} for e in rows.ended],
        )
    if rows.keys:
        yield (
            _ADD_KEYS,
            [{"seq": seq, "key": key, "job_id": job_id} for seq, key, job_id in rows.keys],
        )
    yield _CLEAR_UPTO, [{}]
    yield (
        _ADD_UPTO,
        [{"seq": upto.seq, "last_number": upto.last_number, "digest": upto.digest}],
    )


async def keep_past(connection: AsyncConnection, rows: PastRows, upto: PastUpto) -> None:
    """Add rows, and say up to where the tables go, in the transaction that is open."""
    for change, values in past_changes(rows, upto):
        await connection.execute(change, values)


async def make_past_empty(connection: AsyncConnection) -> None:
    """Let the tables say nothing, up to no event, in the transaction that is open."""
    await connection.execute(delete(PAST_JOBS))
    await connection.execute(delete(PAST_KEYS))
    await keep_past(connection, PastRows(), PastUpto())


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
            self._connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_S
            )

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
        """The highest number of an id like j12 of a job that has ended; 0: there is none."""
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
