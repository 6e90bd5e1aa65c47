"""Outcomes of jobs beside the snapshots, and an index of jobs that can be checked."""

from alembic import op

revision = "0002"
down_revision = "0001"

_TABLES = (
    """
    CREATE TABLE outcomes (
        seq INTEGER NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        digest VARCHAR NOT NULL,
        pairs BLOB NOT NULL,
        PRIMARY KEY (seq)
    )
    """,
    """
    CREATE TABLE job_index (
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        digest VARCHAR NOT NULL,
        names BLOB NOT NULL,
        PRIMARY KEY (first_seq)
    )
    """,
)


def upgrade() -> None:
    """Make the new tables; drop the old index, which is derived."""
    for table in _TABLES:
        op.execute(table)
    op.execute("DROP TABLE job_frames")
    op.execute("DELETE FROM meta WHERE name = 'job_frames_seq'")
