"""The objects of a log file: its tables and its view as they were made, and nothing beside them.

No command reads the view, people do; and a trigger would change what a writer writes. So they are
compared, word by word, with what this version or its migrations make.
"""

import re
from collections.abc import Mapping
from functools import cache

from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateTable

from shunter.events.log.sql.tables import ADDED_IN, METADATA, OLDEST, VIEW

__all__ = ["strange_object", "trigger_in"]

_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_JOB_FRAMES = """
CREATE TABLE job_frames (
    job_id VARCHAR NOT NULL, first_seq INTEGER NOT NULL, PRIMARY KEY (job_id, first_seq)
) WITHOUT ROWID
"""
"""What revision 0001 had, and a writer of a later one dropped."""

_Object = tuple[str, str]
"""Type and name of an object."""


async def strange_object(connection: AsyncConnection, revision: str) -> str:
    """Return what is in the file or lacks that should not, in words; empty: nothing.

    Args:
        connection: to the file.
        revision: the revision of its tables.
    """
    expected = _expected(revision)
    found = await _found(connection)
    for (kind, name), sql in found.items():
        if (kind, name) not in expected:
            return f"its {kind} {name} is none that Shunter made"
        if sql != expected[kind, name]:
            return f"its {kind} {name} was changed"
    missing = sorted(expected.keys() - found.keys())
    return f"its {missing[0][0]} {missing[0][1]} is missing" if missing else ""


async def trigger_in(connection: AsyncConnection) -> str:
    """Return the name of a trigger in the file; empty: there is none."""
    names = [name for kind, name in await _found(connection) if kind == "trigger"]
    return names[0] if names else ""


async def _found(connection: AsyncConnection) -> dict[_Object, str]:
    rows = (await connection.exec_driver_sql(_OBJECTS)).mappings().all()
    return {
        (str(row["type"]), str(row["name"])): _words(str(row["sql"]))
        for row in sorted(rows, key=lambda row: str(row["name"]))
    }


@cache
def _expected(revision: str) -> Mapping[_Object, str]:
    """Return the objects of a revision of the tables."""
    dialect = sqlite.dialect()
    later = {name for added, names in ADDED_IN.items() if added > revision for name in names}
    tables = {
        table.name: str(CreateTable(table).compile(dialect=dialect))
        for table in METADATA.tables.values()
        if table.name not in later
    }
    if revision == OLDEST:
        tables["job_frames"] = _JOB_FRAMES
    views = {("view", "events"): _words(VIEW)}
    return {("table", name): _words(sql) for name, sql in tables.items()} | views


def _words(sql: str) -> str:
    """Return a statement without what says nothing: spaces, and quotes about names."""
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.replace('"', "").split()))
