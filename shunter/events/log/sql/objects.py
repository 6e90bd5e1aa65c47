"""The objects of a log file: its tables and its view as they were made, and nothing beside them.

No command reads the view, people do; and a trigger would change what a writer writes. So they are
compared, word by word, with what this version or its migrations make.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from functools import cache

import aiosqlite

from shunter.events.log.sql.sqlite import Row, rows_of
from shunter.events.log.sql.tables import ADDED_IN, OLDEST, TABLES, VIEW

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
    views = {("view", "events"): _words(VIEW)}
    return {("table", name): _words(sql) for name, sql in tables.items()} | views


def _words(sql: str) -> str:
    """Return a statement without what says nothing: spaces, and quotes about names."""
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.replace('"', "").split()))
