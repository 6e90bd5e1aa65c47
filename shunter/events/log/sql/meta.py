"""The table `meta`: of which version a log file is, where its terms begin, if it has an anchor.

Its rows, the revision, and the term in the table `head` are under one digest, which every reader
checks. Nothing else in the file depends on them, so nothing else would tell that they were changed.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import aiosqlite
import orjson

from shunter.errors import LogDamagedError, LogVersionError
from shunter.events.codec import SCHEMA
from shunter.events.log.frames import GENESIS, Head
from shunter.events.log.sql.past_jobs import make_past_empty
from shunter.events.log.sql.sqlite import Row, rows_of
from shunter.events.log.sql.tables import (
    ADDED_IN,
    ANCHOR_NAME,
    DIGEST_NAME,
    FIELDS_NAME,
    OLDEST,
    REVISION,
    SCHEMA_NAME,
    SOURCES_NAME,
    TABLES,
    TERMS_NAME,
    VIEW,
    event_field_rows,
)

_TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_ROWS = "SELECT name, value FROM meta ORDER BY name"
_REVISIONS = "SELECT version_num FROM alembic_version"
_TERMS = "SELECT term FROM head"

BESIDE = "beside"
"""The value of the row `anchor` from the first durable opening on, until the log is closed; then it
is the sequence number at which it was."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What the table says: the revision of the tables, and its rows.

    `anchor` is a row as it is, None where there is none. `terms` are the first sequence numbers of
    terms with their numbers, from the first that is known, and `fields` the digest of the table
    `event_fields`; nothing and None in an old log. `sources` say from which code terms decided, as
    far as they noted it: digests by package.
    """

    revision: str
    anchor: str | None = None
    terms: tuple[tuple[int, int], ...] = ()
    fields: str | None = None
    sources: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def has_table(self, name: str) -> bool:
        """Whether the file is of a revision that has a table."""
        return all(self.revision >= added for added, names in ADDED_IN.items() if name in names)

    @property
    def is_current(self) -> bool:
        """Whether the file has all tables of this version."""
        return self.revision == REVISION

    @property
    def closed_at(self) -> int | None:
        """The sequence number at which the log was closed as a whole; None: it was not."""
        value = self.anchor or ""
        return int(value) if value.isdecimal() else None


def create_tables(connection: sqlite3.Connection, is_anchored: bool) -> Head:
    """Make an empty log of term 1, in the transaction that is open; return its head."""
    for made in (*TABLES.values(), VIEW):
        connection.execute(made)
    head = Head(0, GENESIS, 1)
    connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (REVISION,))
    connection.execute(
        "INSERT INTO head (seq, chain, term) VALUES (?, ?, ?)", (head.seq, head.chain, head.term)
    )
    make_past_empty(connection)
    begin_term(connection)
    if is_anchored:
        write_meta(connection, {ANCHOR_NAME: BESIDE})
    return head


def begin_term(connection: sqlite3.Connection) -> None:
    """Note the term that the head has now, and the names of fields."""
    ((seq, term),) = connection.execute("SELECT seq, term FROM head").fetchall()
    fields = event_field_rows()
    connection.execute("DELETE FROM event_fields")
    connection.executemany(
        "INSERT INTO event_fields (kind, position, name) VALUES (?, ?, ?)", fields
    )
    # A term in which nothing was written has no frames.
    known = [each for each in _terms(_rows(connection)) if each[0] <= seq]
    terms = [*known, (seq + 1, term)]
    written = {TERMS_NAME: orjson.dumps(terms).decode(), FIELDS_NAME: _fields_digest(fields)}
    write_meta(connection, {**written, SCHEMA_NAME: str(SCHEMA)})


def note_sources(connection: sqlite3.Connection, term: int, sources: Mapping[str, str]) -> None:
    """Note from which sources a term decides: digests by package."""
    known = _sources(_rows(connection))
    named = {str(number): dict(of) for number, of in {**known, term: sources}.items()}
    write_meta(connection, {SOURCES_NAME: orjson.dumps(named).decode()})


def write_meta(connection: sqlite3.Connection, written: Mapping[str, str]) -> None:
    """Write some rows, and the digest over all anew."""
    rows = {**_rows(connection), **written}
    rows.pop(DIGEST_NAME, None)
    ((revision,),) = connection.execute(_REVISIONS).fetchall()
    ((term,),) = connection.execute(_TERMS).fetchall()
    rows[DIGEST_NAME] = _digest(rows, term, revision)
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", rows.items())


async def read_fields_digest(connection: aiosqlite.Connection) -> str:
    """Return the digest of the table `event_fields`."""
    return _fields_digest(
        await rows_of(connection, "SELECT kind, position, name FROM event_fields")
    )


async def check_version(connection: aiosqlite.Connection, path: Path, oldest: str = OLDEST) -> Meta:
    """Refuse what is no log, of another version, or changed; ask it `at_once`.

    Raises:
        LogVersionError: it is something else, or of a newer Shunter, or needs an upgrade.
        LogDamagedError: a row of `meta` or the term of the head is not what was written.
    """
    names = {name for (name,) in await rows_of(connection, _TABLE_NAMES)}
    if not {"meta", "head", "frames", "alembic_version"} <= names:
        raise LogVersionError(f"{path} is not a Shunter log")
    rows = {str(name): value for name, value in await rows_of(connection, _ROWS)}
    schema = rows.get(SCHEMA_NAME, "")
    revisions = await rows_of(connection, _REVISIONS)
    revision = revisions[0][0] if len(revisions) == 1 else ""
    if not _is_version(schema) or not _is_version(revision):
        raise LogDamagedError(f"the log {path} does not say which version wrote it")
    if int(schema) > SCHEMA or revision > REVISION:
        raise LogVersionError(
            f"the log {path} was written by a newer Shunter (schema {schema}, tables {revision}; "
            f"this one knows {SCHEMA} and {REVISION}); upgrade to read it"
        )
    if revision < oldest:
        raise LogVersionError(
            f"the log {path} has tables of an older Shunter ({revision}); upgrade it first, "
            "with `shunter.events.log.upgrade_log`"
        )
    if revision == REVISION or DIGEST_NAME in rows:
        terms = await rows_of(connection, _TERMS)
        digest = rows.pop(DIGEST_NAME, None)
        # A head that is no single row is refused by whoever reads it.
        if len(terms) == 1 and digest != _digest(rows, terms[0][0], revision):
            raise LogDamagedError(
                f"the log {path} was changed: its table meta, its revision, or the term of its "
                "head is not what was written"
            )
    return Meta(
        revision, rows.get(ANCHOR_NAME), tuple(_terms(rows)), rows.get(FIELDS_NAME), _sources(rows)
    )


def _rows(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute(_ROWS).fetchall())


def _is_version(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 9


def _terms(rows: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return where terms begin, of rows whose digest was checked."""
    return [(first_seq, term) for first_seq, term in orjson.loads(rows.get(TERMS_NAME, "[]"))]


def _sources(rows: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Return from which sources terms decided, of rows whose digest was checked."""
    named = orjson.loads(rows.get(SOURCES_NAME, "{}"))
    return {int(term): dict(sources) for term, sources in named.items()}


def _digest(rows: Mapping[str, str], term: object, revision: str) -> str:
    """Return the digest of all rows but its own, with the term and the revision."""
    return _over([*(repr((name, rows[name])) for name in sorted(rows, key=repr)), term, revision])


def _fields_digest(rows: Iterable[Row]) -> str:
    return _over(sorted(repr(row) for row in rows))


def _over(values: Sequence[object]) -> str:
    """Return a digest, by `repr`: a damaged file holds values of any type."""
    return blake2b(repr(values).encode(), digest_size=32).hexdigest()
