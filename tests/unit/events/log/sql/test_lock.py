"""One writer a file: the lock is exclusive, leaves nothing behind, and is no one's for ever."""

from pathlib import Path

import pytest

from shunter.errors import LogError
from shunter.events.log import WriterLock


def test_second_writer_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with WriterLock(path), pytest.raises(LogError, match="another process"):
        WriterLock(path)
    with WriterLock(path):
        pass
    assert sorted(tmp_path.iterdir()) == []


def test_file_left_by_a_killed_process_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "run.db.lock").touch()
    with WriterLock(tmp_path / "run.db") as lock:
        lock.release()
        lock.release()
    assert sorted(tmp_path.iterdir()) == []


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be written: No such file"):
        WriterLock(tmp_path / "missing" / "run.db")
