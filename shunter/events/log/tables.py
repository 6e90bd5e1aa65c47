"""The tables of a log in SQL, and the view `events` that people and tools read.

    frames       the log itself, a run of events a row: JSON, or in a log of a simulation zlib of it
    head         one row: where the log ends, and whose it is
    segments     runs of frames, sealed: compressed and read-only (not in the view)
    snapshots    state and policy memory at a sequence number
    outcomes     how jobs ended, a run of them a row, next to snapshots of older versions
    meta         what kind of file this is: the version of the vocabulary, where terms begin,
                 from which code they decided, whether there is an anchor, and digests, over
                 `event_fields` and over these rows, the term of the head and the revision
    past_jobs    derived: how jobs ended; with past_keys, the keys of submissions, and past_upto,
                 which says up to which event both go
    job_index    derived: which kinds of events, about which jobs, are in a run of frames
    event_fields derived: the names of the fields of each kind, for the view

A change here needs a revision in `migrations/versions` for old files. In this order: how the tables
are made, that nothing else is in a file, past jobs, and `meta`.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path

import aiosqlite
import orjson

from shunter.errors import LogDamagedError, LogVersionError
from shunter.events.codec import SCHEMA, row_fields
from shunter.events.facts import KINDS, Outcome
from shunter.events.log.frames import GENESIS, REINDEX, Head
from shunter.events.log.sqlite import Row, at_once, connect, failures_named, rows_of
from shunter.events.past_jobs import EndedJob, PastRows
from shunter.events.values import JobId

REVISION = "0004"
"""The newest revision of the tables; a new log is stamped with it."""

OLDEST = "0001"
"""The oldest revision that is read as it is; a writer brings the tables up to date."""

ADDED_IN = {
    "0002": ("outcomes", "job_index"),
    "0003": ("past_jobs", "past_keys", "past_upto"),
}
"""The tables that revisions added, by revision."""

TABLES = {
    "frames": """
CREATE TABLE frames (
    first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    term INTEGER NOT NULL,
    chain BLOB NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (first_seq)
)
""",
    "head": """
CREATE TABLE head (
    seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    term INTEGER NOT NULL
)
""",
    "segments": """
CREATE TABLE segments (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    digest VARCHAR NOT NULL,
    frames BLOB NOT NULL,
    PRIMARY KEY (first_seq)
)
""",
    "snapshots": """
CREATE TABLE snapshots (
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    state BLOB NOT NULL,
    memory BLOB NOT NULL,
    PRIMARY KEY (seq)
)
""",
    "meta": """
CREATE TABLE meta (
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL,
    PRIMARY KEY (name)
)
""",
    "outcomes": """
CREATE TABLE outcomes (
    seq INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    pairs BLOB NOT NULL,
    PRIMARY KEY (seq)
)
""",
    "past_jobs": """
CREATE TABLE past_jobs (
    seq INTEGER NOT NULL,
    job_id VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (job_id, seq)
)
""",
    "past_keys": """
CREATE TABLE past_keys (
    seq INTEGER NOT NULL,
    "key" VARCHAR NOT NULL,
    job_id VARCHAR NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE ("key", seq)
)
""",
    "past_upto": """
CREATE TABLE past_upto (
    seq INTEGER NOT NULL,
    last_number INTEGER NOT NULL,
    digest VARCHAR NOT NULL
)
""",
    "job_index": """
CREATE TABLE job_index (
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    names BLOB NOT NULL,
    PRIMARY KEY (first_seq)
)
""",
    "event_fields": """
CREATE TABLE event_fields (
    kind VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    PRIMARY KEY (kind, position)
) WITHOUT ROWID
""",
    "alembic_version": """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
""",
}
"""What makes the tables of a new log, by name.

SQLite takes only INTEGER for its row id, which makes a key as cheap as it gets. A payload is text,
as SQLite 3.40 refuses JSON in a blob and the newest ones read one as JSONB. The last table is
Alembic's own: a new log is stamped without importing Alembic.
"""

VIEW_OF = """
CREATE VIEW events (seq, at_us, kind, job_id, payload) AS
SELECT frames.first_seq + event."key",
       json_extract(event.value, '$[1]'),
       json_extract(event.value, '$[0]'),
       json_extract(event.value, '$[2]'),
       (SELECT json_group_object(field.name, event.value -> field.position)
          FROM event_fields AS field
         WHERE field.kind = json_extract(event.value, '$[0]')
           AND field.position < json_array_length(event.value))
  FROM {frames}, json_each({json}) AS event
"""
"""The view over frames, whose JSON is `json`."""

VIEW = VIEW_OF.format(
    frames="frames",
    json="""
       CASE WHEN typeof(frames.payload) = 'text' THEN frames.payload
            ELSE json_extract('[]', 'this log is compressed: ask it by `shunter log sql`, not ' ||
                                    'by sqlite3 (frame ' || frames.first_seq || ')')
       END""",
)
"""Rows for people. The last column costs time only where it is selected; a field that holds its
default at the end of a row is left out, and so are the events of sealed segments.

SQLite names a JSON path that is none in its error: so a compressed log says how to read it."""

SCHEMA_NAME = "schema"
ANCHOR_NAME = "anchor"
TERMS_NAME = "terms"
SOURCES_NAME = "sources"
FIELDS_NAME = "event_fields"
DIGEST_NAME = "digest"


def event_field_rows() -> list[tuple[str, int, str]]:
    """Return the rows of `event_fields`: what stands where, from position 3 on."""
    return [
        (name, position, field)
        for name, kind in KINDS.items()
        for position, field in enumerate(row_fields(kind))
        if position > 2
    ]


# The objects of a log file. A trigger would change what a writer writes, so nothing else may be
# there.

_OBJECTS = """
SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_JOB_FRAMES = """
CREATE TABLE job_frames (
    job_id VARCHAR NOT NULL, first_seq INTEGER NOT NULL, PRIMARY KEY (job_id, first_seq)
) WITHOUT ROWID
"""
"""What revision 0001 had, and a writer of a later one dropped."""

_Object = tuple[str, str]
"""Type and name of an object."""


async def strange_object(connection: aiosqlite.Connection, revision: str) -> str:
    """Return what is in the file or lacks that should not, in words; empty: nothing.

    Args:
        connection: to the file.
        revision: the revision of its tables.
    """
    expected = _expected(revision)
    found = _objects_in(await rows_of(connection, _OBJECTS))
    for (kind, name), sql in found.items():
        if (kind, name) not in expected:
            return f"its {kind} {name} is none that Shunter made"
        if sql != expected[kind, name]:
            return f"its {kind} {name} was changed"
    missing = sorted(expected.keys() - found.keys())
    return f"its {missing[0][0]} {missing[0][1]} is missing" if missing else ""


def trigger_in(connection: sqlite3.Connection) -> str:
    """Return the name of a trigger in the file; empty: there is none."""
    found = _objects_in(connection.execute(_OBJECTS))
    names = [name for kind, name in found if kind == "trigger"]
    return names[0] if names else ""


def _objects_in(rows: Iterable[Row]) -> dict[_Object, str]:
    return {(str(kind), str(name)): _words(str(sql)) for kind, name, sql in rows}


@cache
def _expected(revision: str) -> Mapping[_Object, str]:
    """Return the objects of a revision of the tables."""
    later = {name for added, names in ADDED_IN.items() if added > revision for name in names}
    tables = {name: sql for name, sql in TABLES.items() if name not in later}
    if revision == OLDEST:
        tables["job_frames"] = _JOB_FRAMES
    view = VIEW if revision >= "0004" else VIEW_OF.format(frames="frames", json="frames.payload")
    views = {("view", "events"): _words(view)}
    return {("table", name): _words(sql) for name, sql in tables.items()} | views


def _words(sql: str) -> str:
    """Return a statement without what says nothing: spaces, and quotes about names."""
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.replace('"', "").split()))


# The tables of past jobs, all derived from events; empty in logs of simulations.
#
#     past_jobs    how a job ended, by the number of that event
#     past_keys    under which key a job was submitted
#     past_upto    one row: up to which event the others go, and the highest number in a job id

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


# The table `meta`: one digest over its rows, the revision and the head's term, as nothing else in
# the file would show that these were changed.

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
    rows[DIGEST_NAME] = _meta_digest(rows, term, revision)
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
        if len(terms) == 1 and digest != _meta_digest(rows, terms[0][0], revision):
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


def _meta_digest(rows: Mapping[str, str], term: object, revision: str) -> str:
    """Return the digest of all rows but its own, with the term and the revision."""
    return _over([*(repr((name, rows[name])) for name in sorted(rows, key=repr)), term, revision])


def _fields_digest(rows: Iterable[Row]) -> str:
    return _over(sorted(repr(row) for row in rows))


def _over(values: Sequence[object]) -> str:
    """Return a digest, by `repr`: a damaged file holds values of any type."""
    return blake2b(repr(values).encode(), digest_size=32).hexdigest()
