"""The first tables of a log: frames, head, segments, snapshots, and what is derived from them."""

from alembic import op

revision = "0001"
down_revision = None

_TABLES = (
    """
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
    """
    CREATE TABLE head (
        seq INTEGER NOT NULL,
        chain BLOB NOT NULL,
        term INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE segments (
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        chain BLOB NOT NULL,
        digest VARCHAR NOT NULL,
        frames BLOB NOT NULL,
        PRIMARY KEY (first_seq)
    )
    """,
    """
    CREATE TABLE snapshots (
        seq INTEGER NOT NULL,
        at_us INTEGER NOT NULL,
        digest VARCHAR NOT NULL,
        state BLOB NOT NULL,
        memory BLOB NOT NULL,
        PRIMARY KEY (seq)
    )
    """,
    """
    CREATE TABLE meta (
        name VARCHAR NOT NULL,
        value VARCHAR NOT NULL,
        PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE job_frames (
        job_id VARCHAR NOT NULL,
        first_seq INTEGER NOT NULL,
        PRIMARY KEY (job_id, first_seq)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE event_fields (
        kind VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        name VARCHAR NOT NULL,
        PRIMARY KEY (kind, position)
    ) WITHOUT ROWID
    """,
)
_VIEW = """
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


def upgrade() -> None:
    """Make the tables and the view."""
    for table in _TABLES:
        op.execute(table)
    op.execute(_VIEW)
