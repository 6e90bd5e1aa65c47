"""Moves a log file's tables to this version, by Alembic, which is imported here alone."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from shunter.events.log.sql.lock import WriterLock
from shunter.events.log.sql.meta import check_version, write_meta
from shunter.events.log.sql.source import refuse_foreign
from shunter.events.log.sql.sqlite import connected, failures_named

MIGRATIONS = Path(__file__).with_name("migrations")


async def upgrade(path: Path) -> None:
    """Bring the tables up to date, in one transaction, while nobody else writes."""
    refuse_foreign(path)
    with WriterLock(path), failures_named(path):
        async with connected(path, "rw", durable=True) as connection, connection.begin():
            await check_version(connection, path, oldest="0000")
            await connection.run_sync(upgrade_tables)
            await write_meta(connection, {})
            await check_version(connection, path)


def upgrade_tables(connection: Connection, revision: str = "head") -> None:
    """Run the revisions that are missing, in the transaction that is open."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
