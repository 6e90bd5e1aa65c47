"""Questions in SQL to a log, also to what SQLite cannot read: compressed frames, sealed segments.

The question has a connection of its own, which may only read. There `events` is a temporary view
over all events of the log; it hides the one in the file, which shows plain frames alone.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import orjson

from shunter.errors import LogDamagedError, ShunterError, UsageError
from shunter.events.log.opening import path_of
from shunter.events.log.sqlite import Row, connect, failures_named
from shunter.events.log.sqlite_source import refuse_absent, unpack_bytes, unpack_segment
from shunter.events.log.stores import Segment
from shunter.events.log.tables import VIEW_OF

_ALL_FRAMES = """(
       SELECT sealed.value ->> 0 AS first_seq, sealed.value -> 1 AS payload
         FROM segments, json_each(unsealed(segments.first_seq, last_seq, digest, frames)) AS sealed
       UNION ALL
       SELECT first_seq, unpacked(payload, first_seq) FROM main.frames) AS frames"""
_VIEW = VIEW_OF.format(frames=_ALL_FRAMES, json="frames.payload").replace("VIEW", "TEMP VIEW", 1)
_SQL_ERRORS = {
    *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_TOOBIG),
}
_STEPS_BETWEEN = 100_000
"""After so many steps of SQLite Python has a look whether the question is interrupted."""
_LOOKING = frozenset(("table_info", "table_xinfo", "table_list", "index_list", "index_info"))
"""The pragmas that only tell what there is."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The names of the columns, and the rows, each a value for a column."""

    columns: Sequence[str]
    rows: Iterator[Row]


@contextmanager
def query_log(url: str, question: str) -> Iterator[Answered]:
    """Ask a log one question in SQL over all of its events.

    It is one that `read_log` can open.

    What is read is not proven: `LogReader.verify` does that.

    Raises:
        NotFoundError: there is no such log.
        LogDamagedError: what is read is not what was written, as far as it shows.
        UsageError: the question is none that can be answered, or would change something.
    """
    path = path_of(url)
    refuse_absent(path)
    with failures_named(path), closing(connect(path, "ro")) as connection:
        asked = _Asked(connection)
        with asked.failures_said():
            cursor = connection.execute(question)
            if cursor.description is None:
                raise UsageError("the question has no answer: expected a SELECT")
            with closing(asked.rows(cursor)) as rows:  # before the connection, wherever it is left
                yield Answered([column for column, *_ in cursor.description], rows)


class _Asked:
    """A connection for a question, and what stopped a function of ours in it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._stopped_by: ShunterError | None = None
        for name, count, function in (
            ("unpacked", 2, self._unpacked),
            ("unsealed", 4, self._unsealed),
        ):
            connection.create_function(name, count, self._kept(function), deterministic=True)
        connection.execute(_VIEW)
        connection.execute("PRAGMA query_only=ON")
        connection.set_authorizer(_authorized)
        # Python acts on Ctrl-C between its own steps, and SQLite has none of them otherwise.
        connection.set_progress_handler(lambda: 0, _STEPS_BETWEEN)

    def rows(self, cursor: sqlite3.Cursor) -> Generator[Row, None, None]:
        """Yield the rows of an answer."""
        with self.failures_said():
            yield from cursor

    @contextmanager
    def failures_said(self) -> Iterator[None]:
        """Raise what stopped a question: damage, Ctrl-C, or what is wrong with it."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if self._stopped_by is not None:
                raise self._stopped_by from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error
            if code in _SQL_ERRORS:
                raise UsageError(
                    f"the question cannot be answered: {error}; it may be one SELECT over `events` "
                    "(seq, at_us, kind, job_id, payload) or another table of the log"
                ) from error
            raise
        except sqlite3.Warning as error:
            raise UsageError(f"the question cannot be answered: {error}") from error

    def _kept(self, function: Callable[..., str]) -> Callable[..., str | None]:
        """Keep why a function failed: SQLite says only that it did."""

        def kept(*values: object) -> str | None:
            try:
                return function(*values)
            except ShunterError as error:
                self._stopped_by = error
                raise

        return kept

    def _unpacked(self, payload: str | bytes, first_seq: int) -> str:
        """Return the JSON of a frame."""
        if isinstance(payload, str):
            return payload
        return _text(unpack_bytes(payload, "the frame", first_seq), "the frame", first_seq)

    def _unsealed(self, first_seq: int, last_seq: int, digest: str, blob: bytes) -> str:
        """Return the frames of a segment as JSON: pairs of a first number and a payload."""
        segment = Segment(first_seq, last_seq, digest)
        frames = unpack_segment(segment, blob)
        pairs = [(frame.first_seq, orjson.Fragment(frame.payload)) for frame in frames]
        return _text(orjson.dumps(pairs), "the segment", first_seq)


def _authorized(action: int, name: str | None, *_: str | None) -> int:
    """Refuse what SQLite lets a reader do: make other files, change settings."""
    is_other = action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
    is_setting = action == sqlite3.SQLITE_PRAGMA and str(name).lower() not in _LOOKING
    return sqlite3.SQLITE_DENY if is_other or is_setting else sqlite3.SQLITE_OK


def _text(payload: bytes, what: str, seq: int) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise LogDamagedError(
            f"{what} at sequence number {seq} is damaged: {error}", seq
        ) from error
