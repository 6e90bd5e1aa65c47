"""The tables of a log in SQL, and the view `events` that people and tools read.

    frames       the log itself, a run of events a row
    head         one row: where the log ends, and whose it is
    segments     runs of frames, sealed: compressed and read-only (not in the view)
    snapshots    state and policy memory at a sequence number
    outcomes     how jobs ended, a run of them a row, beside snapshots of older versions
    meta         what kind of file this is: the version of the vocabulary, where terms begin,
                 from which code they decided,
                 whether an anchor lies beside it, and digests, over `event_fields` and over these
                 rows, the term of the head and the revision
    past_jobs    derived: how jobs ended; with past_keys, the keys of submissions, and past_upto,
                 which says up to which event both go
    job_index    derived: which kinds of events, about which jobs, are in a run of frames
    event_fields derived: the names of the fields of each kind, for the view

A change here needs a revision in `migrations/versions` that makes it in files that are there.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from shunter.events.codec import row_fields
from shunter.events.kinds import KINDS

REVISION = "0003"
"""The newest revision of the tables; a new log is stamped with it."""

OLDEST = "0001"
"""The oldest revision that is read as it is; a writer brings the tables up to date."""

ADDED_IN = {
    "0002": ("outcomes", "job_index"),
    "0003": ("past_jobs", "past_keys", "past_upto"),
}
"""The tables that revisions added, by revision."""

# SQLite takes only INTEGER for its row id, which makes a key as cheap as it gets.
_Number = BigInteger().with_variant(Integer, "sqlite")

METADATA = MetaData()

FRAMES = Table(
    "frames",
    METADATA,
    Column("first_seq", _Number, primary_key=True, autoincrement=False),
    Column("count", _Number, nullable=False),
    Column("at_us", _Number, nullable=False),
    Column("term", _Number, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    # Text, because SQLite 3.40 refuses JSON in a blob and the newest ones read one as JSONB.
    Column("payload", Text, nullable=False),
)
HEAD = Table(
    "head",
    METADATA,
    Column("seq", _Number, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    Column("term", _Number, nullable=False),
)
SEGMENTS = Table(
    "segments",
    METADATA,
    Column("first_seq", _Number, primary_key=True, autoincrement=False),
    Column("last_seq", _Number, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    Column("digest", String, nullable=False),
    Column("frames", LargeBinary, nullable=False),
)
SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("at_us", _Number, nullable=False),
    Column("digest", String, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("memory", LargeBinary, nullable=False),
)
META = Table(
    "meta",
    METADATA,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)
OUTCOMES = Table(
    "outcomes",
    METADATA,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("first", _Number, nullable=False),
    Column("count", _Number, nullable=False),
    Column("digest", String, nullable=False),
    Column("pairs", LargeBinary, nullable=False),
)
PAST_JOBS = Table(
    "past_jobs",
    METADATA,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("job_id", String, nullable=False),
    Column("outcome", String, nullable=False),
    UniqueConstraint("job_id", "seq"),
)
PAST_KEYS = Table(
    "past_keys",
    METADATA,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("key", String, nullable=False),
    Column("job_id", String, nullable=False),
    UniqueConstraint("key", "seq"),
)
PAST_UPTO = Table(
    "past_upto",
    METADATA,
    Column("seq", _Number, nullable=False),
    Column("last_number", _Number, nullable=False),
    Column("digest", String, nullable=False),
)
JOB_INDEX = Table(
    "job_index",
    METADATA,
    Column("first_seq", _Number, primary_key=True, autoincrement=False),
    Column("last_seq", _Number, nullable=False),
    Column("digest", String, nullable=False),
    Column("names", LargeBinary, nullable=False),
)
EVENT_FIELDS = Table(
    "event_fields",
    METADATA,
    Column("kind", String, primary_key=True),
    Column("position", _Number, primary_key=True, autoincrement=False),
    Column("name", String, nullable=False),
    sqlite_with_rowid=False,
)
# Alembic's own table, under its own name: a new log is stamped without importing Alembic.
ALEMBIC_VERSION = Table(
    "alembic_version",
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

VIEW = """
CREATE VIEW events (seq, at_us, kind, job_id, payload) AS
SELECT frames.first_seq + event."key",
       json_extract(event.value, '$[1]'),
       json_extract(event.value, '$[0]'),
       json_extract(event.value, '$[2]'),
       (SELECT json_group_object(field.name, event.value -> field.position)
          FROM event_fields AS field
         WHERE field.kind = json_extract(event.value, '$[0]')
           AND field.position < json_array_length(event.value))
  FROM frames, json_each(frames.payload) AS event
"""
"""Rows for people. The last column costs time only where it is selected; a field that holds its
default at the end of a row is left out, and so are the events of sealed segments."""

SCHEMA_NAME = "schema"
ANCHOR_NAME = "anchor"
TERMS_NAME = "terms"
SOURCES_NAME = "sources"
FIELDS_NAME = "event_fields"
DIGEST_NAME = "digest"


def event_field_rows() -> list[dict[str, object]]:
    """Return the rows of `event_fields`: what stands where, from position 3 on."""
    return [
        {"kind": name, "position": position, "name": field}
        for name, kind in KINDS.items()
        for position, field in enumerate(row_fields(kind))
        if position > 2
    ]
