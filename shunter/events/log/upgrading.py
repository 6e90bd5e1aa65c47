"""Moves a log file's tables to this version, by Alembic, which is imported here alone."""

import sqlite3
from pathlib import Path
from threading import Lock

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, StaticPool, create_engine
from sqlalchemy.exc import DBAPIError

from shunter.events.log.sqlite import WriterLock, at_once, failures_named, reading, writing
from shunter.events.log.sqlite_source import refuse_absent, refusing_foreign
from shunter.events.log.tables import OLDEST, check_version, make_past_empty, past_upto, write_meta

_ONE_AT_A_TIME = Lock()  # what Alembic works on, it keeps for the whole process
MIGRATIONS = Path(__file__).with_name("migrations")


async def upgrade(path: Path) -> None:
    """Bring the tables up to date, in one transaction, while nobody else writes."""
    refuse_absent(path)
    with WriterLock(path):
        await _check_version(path, "0000")
        async with writing(path, "rw", durable=True) as writer:
            await writer.change(upgrade_here)
        await _check_version(path)


def upgrade_here(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date in the transaction that is open."""
    # Of one connection, ours, which SQLAlchemy neither rolls back nor closes.
    engine = create_engine(
        "sqlite://",
        creator=lambda: connection,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        skip_autocommit_rollback=True,
    )
    try:
        with engine.connect() as wrapped:
            wrapped.begin()  # so that Alembic begins none, and commits none; it is never committed
            upgrade_tables(wrapped)
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise
    if past_upto(connection) is None:
        make_past_empty(connection)  # a live writer fills the new tables
    write_meta(connection, {})


def upgrade_tables(connection: Connection, revision: str = "head") -> None:
    """Run the revisions that are missing, in the transaction that is open."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    with _ONE_AT_A_TIME:
        command.upgrade(config, revision)


async def _check_version(path: Path, oldest: str = OLDEST) -> None:
    with failures_named(path), refusing_foreign(path):
        async with reading(path) as connection, at_once(connection):
            await check_version(connection, path, oldest)
