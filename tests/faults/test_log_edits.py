"""Any value of any table, changed: `log verify` finds it, and no command fails but in one line."""

import asyncio
import io
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from string import Template

import pytest

from shunter.ask import fold_events, fold_log, log_statistics, state_at
from shunter.ask.why import document, explain
from shunter.core import State, state_digest
from shunter.errors import LogDamagedError, LogError, ShunterError
from shunter.events import JobSubmitted
from shunter.events.log import LogReader, export_jsonl, open_log, read_log, seal
from shunter.run import snapshot_of_state
from tests.contracts.event_logs import query
from tests.factories import World, policy, run, scheduler_started, servers, trace_job
from tests.replay.recording import rebuilt

pytestmark = pytest.mark.asyncio

JOBS = tuple(trace_job(number, 1 + number % 4, at=7 * number, lasts=30) for number in range(30))
WORLD = World(servers=servers(4, 2), jobs=JOBS, round_us=5)
ASKED = JOBS[12].job_id
VALUES = ("0", "-1", "7", "1e18", "'text'", "''", "'12'", "x''", "x'00ff'", "x'789c03'", "2.5")
CHANGES = (*VALUES, "{0} + 1", "{0} - 1", "{0} || '1'", "substr({0}, 2)")
TABLES = {
    "alembic_version": ("version_num",),
    "event_fields": ("kind", "position", "name"),
    "frames": ("first_seq", "count", "at_us", "term", "chain", "payload"),
    "head": ("seq", "chain", "term"),
    "meta": ("name", "value"),
    "past_jobs": ("seq", "job_id", "outcome"),
    "past_keys": ("seq", "key", "job_id"),
    "past_upto": ("seq", "last_number", "digest"),
    "segments": ("first_seq", "last_seq", "chain", "digest", "frames"),
    "snapshots": ("seq", "at_us", "digest", "state", "memory"),
}
COUNT = Template("SELECT count(*) FROM $table")
ROW = Template("($keys) IN (SELECT $keys FROM $table ORDER BY $keys LIMIT 1 OFFSET $place)")
DELETE = Template("DELETE FROM $table WHERE $where")
UPDATE = Template("UPDATE $table SET $column = $value WHERE $where")
EVERY = 7
"""Of all edits, one in so many is made; all of them take some minutes."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two terms that has everything a log can have, closed."""
    path = tmp_path_factory.mktemp("sound") / "run.db"
    asyncio.run(write(path))
    return path


async def write(path: Path) -> None:
    events = [
        replace(event, dedupe_key=f"key {event.job_id}")
        if isinstance(event, JobSubmitted)
        else event
        for event in run(WORLD, policy("las")).events
    ]
    half = len(events) // 2
    middle = events[half - 1].at_us
    parts = (events[:half], [scheduler_started(2, middle, "las"), *events[half:]])
    state = State()
    for part in parts:
        async with open_log(str(path), frame_events=None, durable=True, resume=True) as log:
            for first in range(0, len(part), 10):
                step = part[first : first + 10]
                log.append(step)
                await log.commit()
                fold_events(state, step)
                if state.seq % 40 < 10:
                    await log.save_snapshot(snapshot_of_state(state, b"[]"))
            if part is parts[0]:
                await seal(log, 30)


def edits(path: Path, table: str) -> list[str]:
    """Return statements that change one value, or take one row away: first, middle and last."""
    keys = "kind, position" if table == "event_fields" else "rowid"
    of_table = {"keys": keys, "table": table}
    count = int(str(query(path, COUNT.substitute(of_table))[0][0]))
    found = []
    for place in sorted({0, count // 2, count - 1}):
        where = ROW.substitute(of_table, place=place)
        found.append(DELETE.substitute(of_table, where=where))
        found += [
            UPDATE.substitute(of_table, column=column, value=value.format(column), where=where)
            for column in TABLES[table]
            for value in CHANGES
        ]
    return found


def edited(path: Path, copy: Path, sql: str) -> bool:
    """Make a copy with an edit, and nothing beside it; say whether it changes anything."""
    for file in sorted(copy.parent.iterdir()):
        file.unlink()
    shutil.copy(path, copy)
    connection = sqlite3.connect(copy)
    before = [*connection.iterdump()]
    try:
        with connection:
            connection.execute(sql)
        # Read again as it lies there: a value may not fit its column.
        return [*connection.iterdump()] != before
    except sqlite3.Error:
        return False
    finally:
        connection.close()


async def why(reader: LogReader) -> object:
    head = await reader.head()
    rebuild = rebuilt(policy("las"), WORLD.rules(instant=True))
    said = document(await explain(reader, ASKED, head.seq, 10**9, rebuild))
    del said["log"]
    return said


async def story(reader: LogReader) -> object:
    return await reader.job_events(ASKED)


async def stats(reader: LogReader) -> object:
    counted = await log_statistics(reader)
    return counted["kinds"], counted["terms"], counted["span"]


async def export(reader: LogReader) -> object:
    lines = io.BytesIO()
    await export_jsonl(reader, lines)
    return lines.getvalue()


async def replayed(reader: LogReader) -> object:
    return state_digest((await fold_log(reader)).state)


async def state(reader: LogReader) -> object:
    return state_digest(await state_at(reader, (await reader.head()).seq))


COMMANDS: tuple[Callable[[LogReader], Awaitable[object]], ...] = (
    why,
    story,
    stats,
    export,
    replayed,
    state,
)


async def said(path: Path) -> list[object]:
    """Return what each command says of a log; a fault where it says that it cannot."""
    found: list[object] = []
    for command in COMMANDS:
        try:
            async with read_log(str(path)) as reader:
                found.append(await command(reader))
        except ShunterError as error:
            found.append(error)
    return found


async def is_sound(path: Path) -> bool:
    try:
        async with read_log(str(path)) as reader:
            await reader.verify()
    except LogError:
        return False
    return True


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DROP VIEW events; CREATE VIEW events AS SELECT 1 AS seq", "its view events was changed"),
        ("DROP VIEW events", "its view events is missing"),
        ("CREATE VIEW jobs AS SELECT 1 AS job", "its view jobs is none that Shunter made"),
        ("CREATE INDEX by_time ON frames (at_us)", "its index by_time is none that Shunter"),
        ("ALTER TABLE frames ADD COLUMN note TEXT", "its table frames was changed"),
        ("INSERT INTO event_fields VALUES ('JobLost', 3, 'x')", "event_fields"),
        (
            "CREATE TRIGGER t AFTER INSERT ON frames BEGIN DELETE FROM frames; END",
            "its trigger t is none",
        ),
    ],
)
async def test_what_shunter_did_not_make_in_the_file_is_told(
    sound: Path, tmp_path: Path, sql: str, what: str
) -> None:
    copy = tmp_path / sound.name
    shutil.copy(sound, copy)
    connection = sqlite3.connect(copy)
    connection.executescript(sql)
    connection.close()

    async with read_log(str(copy)) as reader:
        with pytest.raises(LogDamagedError, match=what):
            await reader.verify()


async def test_nothing_is_written_where_a_trigger_would_change_it(
    sound: Path, tmp_path: Path
) -> None:
    copy = tmp_path / sound.name
    shutil.copy(sound, copy)
    connection = sqlite3.connect(copy)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON frames BEGIN DELETE FROM frames; END")
    connection.close()
    before = copy.read_bytes()

    with pytest.raises(LogDamagedError, match="has a trigger t, which Shunter did not make"):
        async with open_log(str(copy), resume=True):
            pass

    assert copy.read_bytes() == before


@pytest.mark.parametrize("table", TABLES)
async def test_every_edit_is_found_and_no_command_says_what_is_not_so(
    sound: Path, tmp_path: Path, table: str
) -> None:
    """Goal: whatever a command relies on is verified. Method: edits, here and there."""
    whole, copy = await said(sound), tmp_path / sound.name
    assert not any(isinstance(each, ShunterError) for each in whole)
    made = 0
    for number, sql in enumerate(edits(sound, table)):
        if number % EVERY or not edited(sound, copy, sql):
            continue
        made += 1
        # A snapshot less is as if it had been superseded.
        assert await is_sound(copy) == sql.startswith("DELETE FROM snapshots"), sql
        for one, other in zip(await said(copy), whole, strict=True):
            assert isinstance(one, ShunterError) or one == other, sql
        with suppress(ShunterError):
            async with open_log(str(copy), frame_events=None, resume=True) as log:
                log.append([scheduler_started(log.term, 10**9, "las")])
    assert made > 2
