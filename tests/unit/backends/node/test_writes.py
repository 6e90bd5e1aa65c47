"""Writes to output wake the supervisor at once, and not more often than it wants."""

import select
from pathlib import Path

import pytest

from shunter.backends.node import PAUSE_S, Writes


def is_told(writes: Writes) -> bool:
    assert writes.fd is not None
    return bool(select.select([writes.fd], [], [], 0)[0])


def test_first_write_is_told_and_then_there_is_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "stdout.0"
    path.touch()
    writes = Writes([str(path)])
    assert not is_told(writes)
    assert writes.wait_s(1.0) == 0
    with path.open("ab", buffering=0) as file:
        file.write(b"x")
        assert is_told(writes)
        writes.take(1.0)
        assert not is_told(writes)
        assert writes.wait_s(1.0) == pytest.approx(PAUSE_S)
        file.write(b"x")
    assert is_told(writes)
    assert writes.wait_s(1.0 + PAUSE_S) == 0


def test_without_inotify_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda path: object())
    writes = Writes(["nowhere"])
    assert (writes.fd, writes.wait_s(1.0)) == (None, None)
    writes.take(1.0)
