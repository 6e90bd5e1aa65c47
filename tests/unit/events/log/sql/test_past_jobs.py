"""The tables of past jobs: as a writer leaves them, healed where they lack something, made anew."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shunter.errors import LogDamagedError, NotFoundError
from shunter.events import Event, JobFailed, JobFinished, JobId, Outcome
from shunter.events.log import LogWriter, open_log, open_past_jobs, read_log, reindex_log
from tests.contracts.event_logs import query
from tests.factories import scheduler_started

pytestmark = pytest.mark.asyncio

MANY = 40_000
"""More than SQLite keeps in memory of one transaction."""


def ends(first: int, last: int) -> list[Event]:
    """Return the ends of j1, j2, …: each third one fails."""
    return [
        JobFailed(n, JobId(f"j{n}"), "exit", 1) if n % 3 == 0 else JobFinished(n, JobId(f"j{n}"))
        for n in range(first, last + 1)
    ]


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def write(path: Path, *steps: list[Event], live: bool = True) -> None:
    """Append steps to a log, each in a transaction of its own."""
    frame = None if live else 1_000
    async with open_log(str(path), frame_events=frame, resume=True) as log:
        for step in steps:
            log.append(step)
            await log.commit()


async def test_simulation_leaves_the_tables_to_whoever_needs_them(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, [scheduler_started(), *ends(1, 5)], live=False)
    assert query(path, "SELECT count(*) FROM past_jobs") == [(0,)]
    assert query(path, "SELECT seq FROM past_upto") == [(0,)]
    await write(path)
    assert query(path, "SELECT seq, job_id FROM past_jobs WHERE seq > 4") == [(5, "j4"), (6, "j5")]
    assert query(path, "SELECT seq, last_number FROM past_upto") == [(6, 5)]


async def test_single_jobs_pages_and_the_highest_number_are_looked_up(tmp_path: Path) -> None:
    async def ask(log: LogWriter) -> None:
        with closing(open_past_jobs(log)) as past:
            assert past.outcome(JobId("j3")) is Outcome.failed
            assert past.outcome(JobId("j13")) is None
            assert [each.job_id for each in past.ended_before(11, 2)] == ["j9", "j8"]
            assert past.last_number == 12
            log.append(ends(13, 13))
            assert past.outcome(JobId("j13")) is None, "it is not durable yet"
            await log.commit()
            assert past.outcome(JobId("j13")) is Outcome.finished
            assert past.last_number == 13

    await write(tmp_path / "log.db", [scheduler_started(), *ends(1, 12)])
    async with open_log(str(tmp_path / "log.db"), frame_events=None, resume=True) as log:
        await ask(log)


async def test_large_log_is_reindexed_while_nothing_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, [scheduler_started(), *ends(1, MANY)], live=False)
    await reindex_log(str(path))
    assert query(path, "SELECT count(*), max(seq) FROM past_jobs") == [(MANY, MANY + 1)]
    assert files(tmp_path) == ["log.db"], "one plain file again"
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events == MANY + 1


async def test_reindexing_changes_nothing_of_a_log_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    await write(path, [scheduler_started(), *ends(1, 5)], ends(6, 9))
    query(path, "UPDATE frames SET payload = payload || ' ' WHERE first_seq > 1")
    before = query(path, "SELECT * FROM past_jobs")
    with pytest.raises(LogDamagedError, match="does not match its chain value"):
        await reindex_log(str(path))
    assert query(path, "SELECT * FROM past_jobs") == before


async def test_log_that_is_not_there_is_not_reindexed(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no log at"):
        await reindex_log(str(tmp_path / "log.db"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE past_jobs SET outcome = 'lost' WHERE seq = 3",
        "DELETE FROM past_jobs WHERE seq = 3",
        "INSERT INTO past_jobs VALUES (1, 'j99', 'finished')",
        "INSERT INTO past_jobs VALUES (99, 'j99', 'finished')",
        "INSERT INTO past_keys VALUES (3, 'me/key', 'j2')",
        "UPDATE past_upto SET last_number = 3",
        "DELETE FROM past_upto",
    ],
)
async def test_tables_that_say_something_else_are_damage_until_reindexed(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "log.db"
    await write(path, [scheduler_started(), *ends(1, 5)])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(change)
    connection.close()
    async with read_log(str(path)) as reader:
        with pytest.raises(LogDamagedError, match="shunter admin reindex"):
            await reader.verify()
    await reindex_log(str(path))
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events == 6
