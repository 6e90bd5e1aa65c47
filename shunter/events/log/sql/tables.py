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

from shunter.events.codec import row_fields
from shunter.events.facts import KINDS

REVISION = "0003"
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


def event_field_rows() -> list[tuple[str, int, str]]:
    """Return the rows of `event_fields`: what stands where, from position 3 on."""
    return [
        (name, position, field)
        for name, kind in KINDS.items()
        for position, field in enumerate(row_fields(kind))
        if position > 2
    ]
