"""What a log in SQLite does besides: its file, its terms, its writers, its tables and its view."""

import asyncio
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from sqlalchemy import create_engine

from shunter.errors import LogError, LogExistsError, LogVersionError, NotFoundError, StaleTermError
from shunter.events import SCHEMA, JobId
from shunter.events.log import (
    REVISION,
    LogWriter,
    WriterConnection,
    claim_log,
    export_jsonl,
    open_log,
    open_past_jobs,
    read_log,
    reindex_log,
    seal,
    sqlite,
    upgrade_log,
    upgrade_tables,
    writing,
)
from tests.contracts.event_logs import (
    content,
    events_of,
    files_in,
    put,
    query,
    remove,
    set_mode,
    snapshot,
    story,
)

pytestmark = pytest.mark.asyncio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest_asyncio.fixture
async def unwritable(tmp_path: Path) -> AsyncIterator[Path]:
    """A directory with a log, in which nothing can be written."""
    await write_story(tmp_path / "run.db")
    set_mode(tmp_path, 0o555)
    yield tmp_path
    set_mode(tmp_path, 0o755)


async def write_story(path: Path, events: int = 45, frame_events: int | None = 10) -> str:
    async with open_log(str(path), frame_events=frame_events) as log:
        log.append(story(events))
    return log.digest


def schema_of(path: Path) -> list[tuple[object, ...]]:
    rows = query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY name")
    return [
        (kind, name, re.sub(r"\s+|(?<=\() | (?=\))", " ", f"{sql}")) for kind, name, sql in rows
    ]


IS_READ = """
import fcntl, os, struct, sys
with open(sys.argv[1], "r+b") as file:
    asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0x40000002, 510, 0)
    kind, *_, pid = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    print(kind != fcntl.F_UNLCK)
"""


def is_locked(path: Path) -> bool:
    """Say whether another process sees the lock of one that has the log open by SQLite."""
    words = [sys.executable, "-c", IS_READ, str(path)]
    return subprocess.run(words, capture_output=True, check=True).stdout == b"True\n"


async def use(log: LogWriter, path: Path) -> AsyncIterator[str]:
    """Use a log that this process writes in every way there is."""
    for name, opened in (("its writer", log), ("its path", str(path))):
        async with read_log(opened) as reader:
            yield f"being read by {name}"
            await reader.verify()
            await export_jsonl(reader, io.BytesIO())
        yield f"read by {name}"
    with closing(open_past_jobs(log)) as past:
        assert past.outcome(JobId("j1")) is not None
    yield "a look at past jobs"
    for refused in (claim_log, reindex_log, upgrade_log):
        with pytest.raises(LogError):
            await refused(str(path))
        yield refused.__name__
    for overwrite in (False, True):
        with pytest.raises(LogError):
            async with open_log(str(path), overwrite=overwrite, resume=True):
                pass
        yield f"a second writer, overwrite={overwrite}"


async def test_no_use_of_a_log_takes_the_locks_of_its_writer(path: Path) -> None:
    async with open_log(str(path), durable=True, frame_events=None) as log:
        log.append(story(8))
        await log.commit()
        assert is_locked(path)
        async for how in use(log, path):
            assert is_locked(path), how
            assert query(path, "SELECT count(*) FROM events") == [(8,)]
            assert is_locked(path), "a reader of this process that left"


async def test_folder_and_pipe_are_no_logs_and_are_not_opened(tmp_path: Path, path: Path) -> None:
    os.mkfifo(path)
    for place in (tmp_path, path):
        with pytest.raises(LogError, match="not a file"):
            async with read_log(str(place)):
                pass


async def write_around(path: Path, change: Callable[[], None]) -> None:
    """Commit four events, have the files changed, and try to commit four more."""
    async with open_log(str(path), durable=True, frame_events=None) as log:
        log.append(story(4))
        await log.commit()
        change()
        with pytest.raises(LogError, match="is no longer the one"):
            async with read_log(log):
                pass
        log.append(story(4))
        await log.commit()


@pytest.mark.parametrize("removed", ["run.db-wal", "run.db"])
async def test_writer_whose_file_is_removed_keeps_nothing_more(path: Path, removed: str) -> None:
    with pytest.raises(LogError, match=rf"{removed} is no longer .* another process removed it"):
        await write_around(path, lambda: remove(path.with_name(removed)))
    left = [name for name in files_in(path.parent) if name == "run.db"]
    if left:
        async with read_log(str(path)) as reader:
            assert len(await events_of(reader)) == 4
    assert bool(left) == (removed != "run.db")


async def test_file_that_takes_the_place_of_a_log_is_left_alone(path: Path) -> None:
    def replace() -> None:
        path.rename(path.with_name("old.db"))
        put(path, b"my only thesis")

    with pytest.raises(LogError, match=r"run\.db is no longer .* another process replaced it"):
        await write_around(path, replace)
    assert content(path) == b"my only thesis"


@pytest.mark.parametrize("prefix", ["", "sqlite:///", "sqlite+aiosqlite:///"])
async def test_every_address_of_a_file_leads_to_it(path: Path, prefix: str) -> None:
    async with open_log(f"{prefix}{path}") as log:
        log.append(story(3))
    assert files_in(path.parent) == ["run.db"]
    async with read_log(f"{prefix}{path}") as reader:
        assert await events_of(reader) == story(3)


async def test_relative_path_and_odd_names_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_log("sqlite+aiosqlite:///a b?c#d%41.db") as log:
        log.append(story(3))
    assert files_in(tmp_path) == ["a b?c#d%41.db"]


async def test_closed_log_is_one_file(path: Path) -> None:
    await write_story(path)
    assert files_in(path.parent) == ["run.db"]


async def test_log_that_exists_is_not_touched(path: Path) -> None:
    await write_story(path)
    before = content(path)
    with pytest.raises(LogExistsError, match="there already"):
        async with open_log(str(path)):
            pass
    assert content(path) == before
    assert files_in(path.parent) == ["run.db"]


async def test_overwriting_starts_anew(path: Path) -> None:
    await write_story(path)
    async with open_log(str(path), overwrite=True) as log:
        assert (log.seq, log.term) == (0, 1)
        log.append(story(3))
    async with read_log(str(path)) as reader:
        assert await events_of(reader) == story(3)


async def test_left_over_write_ahead_log_is_not_played_into_a_new_log(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE left_over (x)")
    connection.commit()
    wal = path.with_name("run.db-wal")
    kept = content(wal)
    connection.close()
    remove(path)
    put(wal, kept)
    await write_story(path)
    assert query(path, "SELECT count(*) FROM sqlite_master WHERE name = 'left_over'") == [(0,)]


@pytest.mark.parametrize("held", [b"", None], ids=["empty file", "database without tables"])
async def test_file_that_holds_nothing_counts_as_absent(path: Path, held: bytes | None) -> None:
    if held is None:
        query(path, "PRAGMA journal_mode=WAL")
        assert content(path)
    else:
        put(path, held)
    await write_story(path)
    async with read_log(str(path)) as reader:
        assert (await reader.head()).seq == 45


@pytest.mark.parametrize("option", ["overwrite", "resume"])
async def test_file_that_is_no_log_is_not_touched(path: Path, option: str) -> None:
    put(path, b"my only thesis")
    with pytest.raises(LogVersionError, match="not a Shunter log"):
        async with open_log(str(path), overwrite=option == "overwrite", resume=option == "resume"):
            pass
    assert content(path) == b"my only thesis"
    remove(path)
    query(path, "CREATE TABLE accounts (x)")
    with pytest.raises(LogVersionError, match="not a Shunter log"):
        async with open_log(str(path), overwrite=option == "overwrite", resume=option == "resume"):
            pass
    assert query(path, "SELECT * FROM accounts") == []


async def test_places_where_no_log_can_be_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is no directory"):
        async with open_log(str(tmp_path / "missing" / "run.db")):
            pass
    with pytest.raises(LogError, match="not a file"):
        async with open_log(str(tmp_path)):
            pass
    with pytest.raises(NotFoundError, match="there is no log"):
        async with read_log(str(tmp_path / "run.db")):
            pass
    with pytest.raises(LogError, match="cannot be read"):
        async with read_log(str(tmp_path)):
            pass


@pytest.mark.needs("another user than root")
async def test_directory_that_cannot_be_written_is_named(unwritable: Path) -> None:
    with pytest.raises(LogError, match="cannot be written"):
        async with open_log(str(unwritable / "other.db")):
            pass
    async with read_log(str(unwritable / "run.db")) as reader:
        assert (await reader.verify()).events == 45
        assert len(await reader.job_events("j3")) == 3


async def test_resuming_goes_on_in_the_next_term(path: Path) -> None:
    async with open_log(str(path), frame_events=None, resume=True) as log:
        assert log.term == 1
        log.append(story(3))
    for term in (2, 3):
        async with open_log(str(path), frame_events=None, resume=True) as log:
            assert log.term == term
            log.append(story(1))
    async with read_log(str(path)) as reader:
        assert [frame.term async for frame in reader.frames()] == [1, 2, 3]
        report = await reader.verify()
        assert (report.events, report.term, report.digest) == (5, 3, log.digest)


async def test_second_writer_is_refused_while_the_first_is_open(path: Path) -> None:
    async with open_log(str(path), frame_events=None) as log:
        log.append(story(1))
        await log.commit()
        for overwrite in (True, False):
            with pytest.raises(LogError, match="being written by another process"):
                async with open_log(str(path), overwrite=overwrite, resume=not overwrite):
                    pass
        log.append(story(1))
        await log.commit()
        assert log.term == 1


async def test_place_of_a_log_is_held_before_there_is_one(path: Path) -> None:
    claim = await claim_log(str(path))
    assert claim is not None
    with claim:
        for attempt in (claim_log(str(path)), write_story(path)):
            with pytest.raises(LogError, match="is being written by another process"):
                await attempt
        assert files_in(path.parent) == ["run.db.lock"]
        async with open_log(str(path), claim=claim) as log:
            log.append(story(1))
            with pytest.raises(LogExistsError):
                await claim_log(str(path))
    assert files_in(path.parent) == ["run.db"]
    assert await claim_log("none:") is None


async def test_second_process_is_refused_and_says_so(path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from shunter.events.log import open_log\n"
        "async def main():\n"
        "    async with open_log(sys.argv[1], resume=True): pass\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    async with open_log(str(path), frame_events=None):
        refused = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert "LogError: the log" in refused.stderr
    assert "is being written by another process" in refused.stderr


async def test_writer_with_a_stale_term_writes_nothing(path: Path) -> None:
    async with open_log(str(path), frame_events=None) as log:
        log.append(story(2))
        await log.commit()
        # What another machine does that does not see the lock: it takes the next term.
        query(path, "UPDATE head SET term = term + 1")
        log.append(story(1))
        with pytest.raises(StaleTermError, match="newer scheduler") as caught:
            await log.commit()
        assert caught.value.seq == 2
        with pytest.raises(StaleTermError):
            log.append(story(1))
    assert query(path, "SELECT sum(count) FROM frames") == [(2,)]


async def test_database_held_by_another_tool_stops_the_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.01)
    async with open_log(str(path), frame_events=None) as log:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        log.append(story(1))
        with pytest.raises(LogError, match="in use by another process"):
            await log.commit()
        holder.execute("ROLLBACK")
        holder.close()
        with pytest.raises(LogError, match="in use by another process"):
            await log.commit()
    assert query(path, "SELECT count(*) FROM frames") == [(0,)]


async def test_concurrent_committers_share_few_transactions(path: Path) -> None:
    async with open_log(str(path), frame_events=None, durable=True) as log:

        async def submit(place: int) -> None:
            log.append(story(4)[place % 4 : place % 4 + 1])
            await log.commit()

        await asyncio.gather(*[submit(place) for place in range(100)])
    rows = query(path, "SELECT count(*), sum(count) FROM frames")
    assert rows == [(2, 100)]


async def test_cancelled_committer_leaves_the_writer_whole(path: Path) -> None:
    async with open_log(str(path), frame_events=None) as log:
        for _ in range(20):
            log.append(story(1))
            commit = asyncio.ensure_future(log.commit())
            await asyncio.sleep(0)
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events == 20


async def test_view_shows_rows_with_names(path: Path) -> None:
    await write_story(path, 4)
    rows = query(path, "SELECT seq, at_us, kind, job_id, payload FROM events")
    assert [row[:4] for row in rows] == [
        (1, 0, "JobSubmitted", "j0"),
        (2, 1_000_000, "RoundPlanned", None),
        (3, 2_000_000, "AllocationChanged", "j0"),
        (4, 3_000_000, "JobFinished", "j0"),
    ]
    assert [json.loads(str(row[4])) for row in rows] == [
        {
            "spec": [2, "", "default", "", None, None, 0, 0, None, 1.0, 0, [], "tränñg"],
            "duration_us": 5,
        },
        {"number": 0, "skipped": 0, "seen": 1},
        {"allocation": [[["gpu001", 3]]], "because": ["order", [1, 0.5]]},
        {},
    ]


async def test_view_answers_the_plain_command_line(path: Path) -> None:
    await write_story(path)
    sql = "select kind, count(*) from events group by kind"
    assert query(path, sql) == [
        ("AllocationChanged", 11),
        ("JobFinished", 11),
        ("JobSubmitted", 12),
        ("RoundPlanned", 11),
    ]


async def test_index_of_jobs_covers_sealed_frames(path: Path) -> None:
    async with open_log(str(path), frame_events=10) as log:
        log.append(story(45))
        await log.flush()
        await log.save_snapshot(snapshot(40))
        await log.flush()
        assert len(await seal(log, 40)) == 1
    assert query(path, "SELECT count(*) FROM frames") == [(1,)]
    async with read_log(str(path)) as reader:
        assert [seq for seq, _ in await reader.job_events("j3")] == [13, 15, 16]


async def test_long_stretches_are_sealed_piece_by_piece(path: Path) -> None:
    async with open_log(str(path), frame_events=1000) as log:
        log.append(story(12_500))
        await log.flush()
        await log.save_snapshot(snapshot(12_500))
        await log.close()
    async with open_log(str(path), frame_events=None, resume=True) as log:
        segments = await seal(log, 12_000)
    assert [(s.first_seq, s.last_seq) for s in segments] == [
        (1, 5_000),
        (5_001, 10_000),
        (10_001, 12_000),
    ]
    async with read_log(str(path)) as reader:
        assert await events_of(reader, 4_990, 10_010) == story(12_500)[4_990:10_010]
        assert (await reader.verify()).segments == 3


async def test_new_log_has_the_tables_that_the_revisions_make(path: Path, tmp_path: Path) -> None:
    await write_story(path)
    made = tmp_path / "made.db"
    engine = create_engine(f"sqlite:///{made}")
    with engine.begin() as connection:
        upgrade_tables(connection)
    engine.dispose()
    assert schema_of(path) == schema_of(made)
    stamped = query(path, "SELECT version_num FROM alembic_version")
    assert stamped == query(made, "SELECT version_num FROM alembic_version") == [(REVISION,)]
    assert query(path, "SELECT value FROM meta WHERE name = 'schema'") == [(str(SCHEMA),)]


async def test_upgrading_a_log_of_today_changes_nothing(path: Path) -> None:
    digest = await write_story(path)
    before = schema_of(path)
    await upgrade_log(str(path))
    assert schema_of(path) == before
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).digest == digest


async def test_several_logs_are_upgraded_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(4)]
    for path in paths:
        await write_story(path)
    async with anyio.create_task_group() as tasks:
        for path in paths:
            tasks.start_soon(upgrade_log, str(path))
    assert [schema_of(path) for path in paths] == [schema_of(paths[0])] * 4


async def test_change_that_is_interrupted_at_its_beginning_leaves_no_transaction(
    path: Path,
) -> None:
    """As by Ctrl-C, which anyio's own scopes cannot do to a thread."""
    await write_story(path)
    async with writing(path, "rw") as connection:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            begun = asyncio.create_task(_hold(connection))
            await anyio.sleep(0.1)
            begun.cancel()
            await anyio.sleep(0.1)
            other.execute("COMMIT")
        with pytest.raises(asyncio.CancelledError):
            await begun
        assert not await connection.visit(lambda plain: plain.in_transaction)


async def _hold(connection: WriterConnection) -> None:
    async with connection.transaction():
        await anyio.sleep_forever()


async def test_only_logs_are_upgraded(path: Path) -> None:
    with pytest.raises(NotFoundError):
        await upgrade_log(str(path))
    put(path, b"my only thesis")
    with pytest.raises(LogVersionError, match="not a Shunter log"):
        await upgrade_log(str(path))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = value + 1 WHERE name = 'schema'",
        "UPDATE alembic_version SET version_num = '9999'",
    ],
)
async def test_log_of_a_newer_version_is_refused(path: Path, change: str) -> None:
    await write_story(path)
    query(path, change)
    before = content(path)
    with pytest.raises(LogVersionError, match="newer Shunter"):
        async with read_log(str(path)):
            pass
    with pytest.raises(LogVersionError, match="newer Shunter"):
        async with open_log(str(path), resume=True):
            pass
    with pytest.raises(LogVersionError, match="newer Shunter"):
        await upgrade_log(str(path))
    assert content(path) == before


async def test_log_with_older_tables_asks_for_an_upgrade(path: Path) -> None:
    await write_story(path)
    query(path, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(LogVersionError, match="upgrade it first"):
        async with read_log(str(path)):
            pass


async def test_each_term_has_the_sources_of_its_writer(tmp_path: Path) -> None:
    url = str(tmp_path / "run.db")
    for number in (1, 2):
        async with open_log(url, resume=True, frame_events=None) as log:
            await log.note_sources({"shunter": f"commit {number}"})
            log.append(story(4))
    async with read_log(url) as reader:
        assert await reader.sources() == {
            1: {"shunter": "commit 1"},
            2: {"shunter": "commit 2"},
        }
