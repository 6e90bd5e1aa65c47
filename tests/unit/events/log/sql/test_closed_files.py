"""Logs that cannot be opened: which file, whose it is, and what to do."""

import asyncio
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shunter.errors import LogError
from shunter.events.log import connect, failures_named, reading

NOBODY = 65_534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that all users may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _said_by_another_user(do: Callable[[], object]) -> str:
    """Return the LogError of something that a process of another user does."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            do()
        except LogError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


def _open(path: Path) -> None:
    with failures_named(path), closing(connect(path, "rwc")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS a (b)")
        connection.execute("INSERT INTO a VALUES (1)")
        connection.commit()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_log_of_another_user_says_whose_it_is(mode: int, open_folder: Path) -> None:
    folder, path = open_folder, open_folder / "run.db"
    _open(path)
    path.chmod(mode)
    said = _said_by_another_user(lambda: _open(path))
    what = f"read {path}" if mode == 0o600 else f"write {folder}"
    assert f"may not {what}, which belongs to root: work as root" in said
    assert "unable to open" not in said
    folder.chmod(0o777)
    said = _said_by_another_user(lambda: _open(path))
    verb = "read" if mode == 0o600 else "write"
    assert f"may not {verb} {path}, which belongs to root: work as root" in said


def test_reader_that_cannot_open_a_log_leaves_no_thread_of_the_driver(tmp_path: Path) -> None:
    """Goal: no traceback of such a thread once the loop that it answers is gone."""

    async def read() -> None:
        with failures_named(tmp_path / "run.db"):
            async with reading(tmp_path / "run.db"):
                pass

    before = threading.active_count()
    with pytest.raises(LogError, match=r"run\.db cannot be opened"):
        asyncio.run(read())
    assert [each.name for each in threading.enumerate()[before:] if "connection" in each.name] == []


def test_folder_where_a_log_is_to_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.db").mkdir()
    with pytest.raises(LogError, match=r"run\.db is no file: move it away, or name another log"):
        _open(tmp_path / "run.db")


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"there is no folder .*/away: make it"):
        _open(tmp_path / "away" / "run.db")


def test_sqlites_own_words_are_gone_only_where_we_know_better(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no such table"), failures_named(tmp_path / "run.db"):
        sqlite3.connect(":memory:").execute("SELECT * FROM a")
