"""A log whose file a process was changing when it died: the next to open it undoes the change.

A log becomes a write-ahead log when it is opened, and one plain file again when it is closed. In
between, SQLite keeps a rollback journal beside it, which must be played back before anybody reads.
"""

import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import pytest_asyncio
from anyio import run_process, to_thread

from shunter.errors import LogError
from shunter.events.log import SIDE_FILES, open_log, read_log
from tests.contracts.event_logs import story

pytestmark = pytest.mark.asyncio

EVENTS = 14
READONLY = "file:{}?mode=ro"

TRIES = 200
MAKES = """
import itertools, sqlite3, sys
for number in itertools.count():
    sqlite3.connect(f"{sys.argv[1]}/{number}.db").execute("PRAGMA journal_mode=WAL")
"""
AS_NOBODY = """
import os, sys, anyio
from shunter.errors import LogError
from shunter.events.log import open_log, read_log
async def read(path):
    async with read_log(path):
        pass
async def write(path):
    async with open_log(path):
        pass
other = sys.argv[1] + ".other"
anyio.run(write, other)
anyio.run(read, other)  # so that all is imported
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    anyio.run(read, sys.argv[1])
except LogError as error:
    print(error)
"""


def die_in_mid_change(path: Path, dead: Path) -> None:
    """Leave in `dead` what a process leaves that dies while it changes the file at `path`."""
    connection = sqlite3.connect(path, isolation_level=None)
    # A cache this small spills: the journal and part of the change are on the disk.
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE half (done BLOB)")
    connection.executemany("INSERT INTO half VALUES (?)", [(bytes(3000),)] * 50)
    for file in sorted(path.parent.glob(path.name + "*")):
        shutil.copy(file, dead.with_name(dead.name + file.name.removeprefix(path.name)))
    connection.close()
    assert is_half_changed(dead)


def killed_while_making(folder: Path) -> Path:
    """Kill a process that makes one log after another, until one is left half made."""
    for number in range(TRIES):
        root = folder / str(number)
        root.mkdir()
        with subprocess.Popen([sys.executable, "-c", MAKES, str(root)]) as process:
            while not (found := sorted(root.glob("*.db"))):
                time.sleep(0.001)
            time.sleep(number * 0.001)
            process.kill()
        found = [path for path in sorted(root.glob("*.db")) if is_half_changed(path)]
        if found:
            return found[0]
    raise AssertionError("the process was never killed in mid-change")


def is_half_changed(path: Path) -> bool:
    """Say whether somebody must play a rollback journal back before the file can be read."""
    connection = sqlite3.connect(READONLY.format(path), uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK
    finally:
        connection.close()
    return False


def give_to_all(dead: Path, folder: Path) -> None:
    """Copy a log to where everybody may read it."""
    folder.chmod(0o755)
    for file in sorted(dead.parent.iterdir()):
        Path(shutil.copy(file, folder)).chmod(0o644)  # whatever the umask of this process


@pytest_asyncio.fixture
async def dead(tmp_path: Path) -> Path:
    """A finished log, changed in half."""
    path, dead = tmp_path / "run.db", tmp_path / "dead" / "run.db"
    dead.parent.mkdir()
    async with open_log(str(path)) as log:
        log.append(story(EVENTS))
    die_in_mid_change(path, dead)
    return dead


async def test_finished_log_reads_as_before(dead: Path) -> None:
    async with read_log(str(dead)) as reader:
        assert (await reader.verify()).events == EVENTS
    assert not dead.with_name("run.db-journal").exists()


async def test_finished_log_is_resumed(dead: Path) -> None:
    async with open_log(str(dead), frame_events=None, resume=True) as log:
        assert (log.seq, log.term) == (EVENTS, 2)


async def test_log_is_not_taken_for_an_empty_file(dead: Path) -> None:
    with pytest.raises(LogError, match="is there already"):
        async with open_log(str(dead)):
            pass


async def test_change_of_what_is_replaced_goes_with_it(dead: Path) -> None:
    async with open_log(str(dead), overwrite=True) as log:
        log.append(story(1))
    async with read_log(str(dead)) as reader:
        assert (await reader.verify()).events == 1
    assert not [side for side in SIDE_FILES if dead.with_name(dead.name + side).exists()]


@pytest.mark.live
@pytest.mark.parametrize("resume", [False, True])
async def test_log_whose_maker_was_killed_at_once_is_made_anew(
    tmp_path: Path, resume: bool
) -> None:
    """Goal: a scheduler killed in its first milliseconds can be started again."""
    dead = await to_thread.run_sync(killed_while_making, tmp_path)
    async with open_log(str(dead), frame_events=None, resume=resume) as log:
        assert (log.seq, log.term) == (0, 1)


@pytest.mark.needs("root")
async def test_reader_who_may_not_change_the_file_is_told_who_can(
    scratch: Path, dead: Path
) -> None:
    give_to_all(dead, scratch)
    ran = await run_process([sys.executable, "-c", AS_NOBODY, str(scratch / dead.name)])
    said = ran.stdout.decode()
    assert "was left half changed by a process that died" in said
    assert "read it once as a user who may write it" in said
