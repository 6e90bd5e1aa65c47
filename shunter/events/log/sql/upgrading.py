"""Moves a log file's tables to this version, by Alembic, which is imported here alone."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from shunter.events.log.sql.lock import WriterLock
from shunter.events.log.sql.meta import check_version, write_meta
from shunter.events.log.sql.past_jobs import make_past_empty, past_upto
from shunter.events.log.sql.source import refuse_foreign
from shunter.events.log.sql.sqlite import connected, failures_named

MIGRATIONS = Path(__file__).with_name("migrations")


async def upgrade(path: Path) -> None:
    """Bring the tables up to date, in one transaction, while nobody else writes."""
    refuse_foreign(path)
    with WriterLock(path), failures_named(path):
        async with connected(path, "rw", durable=True) as connection, connection.begin():
            await check_version(connection, path, oldest="0000")
            await upgrade_here(connection)
            await check_version(connection, path)


async def upgrade_here(connection: AsyncConnection) -> None:
    """Bring the tables up to date in the transaction that is open."""
    await connection.run_sync(upgrade_tables)
    if await past_upto(connection) is None:
        await make_past_empty(connection)  # a live writer fills the new tables
    await write_meta(connection, {})


def upgrade_tables(connection: Connection, revision: str = "head") -> None:
    """Run the revisions that are missing, in the transaction that is open."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
