"""Tables of past jobs, which a state no longer names."""

from alembic import op

revision = "0003"
down_revision = "0002"

_TABLES = (
    """
    CREATE TABLE past_jobs (
        seq INTEGER NOT NULL,
        job_id VARCHAR NOT NULL,
        outcome VARCHAR NOT NULL,
        PRIMARY KEY (seq),
        UNIQUE (job_id, seq)
    )
    """,
    """
    CREATE TABLE past_keys (
        seq INTEGER NOT NULL,
        "key" VARCHAR NOT NULL,
        job_id VARCHAR NOT NULL,
        PRIMARY KEY (seq),
        UNIQUE ("key", seq)
    )
    """,
    """
    CREATE TABLE past_upto (
        seq INTEGER NOT NULL,
        last_number INTEGER NOT NULL,
        digest VARCHAR NOT NULL
    )
    """,
)


def upgrade() -> None:
    """Make the new tables; the next live writer fills them."""
    for table in _TABLES:
        op.execute(table)
