"""A journal: read from an offset in pieces, trimmed when its notes are durable, never too long."""

import json
import os
from pathlib import Path

import pytest

from shunter.backends.live import Reading
from shunter.backends.node import KEPT_MOST, READ_MOST, Journal, Known, Note, Notes, read_journal
from tests.unit.backends.node.orders import known_of


def known(notes: Notes) -> Known:
    """Return what an agent tells of an attempt with these notes."""
    return known_of(**notes)


def kinds(folder: Path, after: int = 0) -> list[tuple[int, str]]:
    return [(note["n"], note["what"]) for note in read_journal(str(folder), after)["notes"]]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    found = Journal(str(tmp_path))
    found.add("requested", mode="cooperative")
    found.add("acknowledged")
    found.add("saved", checkpoint="c", step=1, bytes=2)
    return found


def test_reading_goes_on_after_the_last_note(journal: Journal, tmp_path: Path) -> None:
    assert kinds(tmp_path) == [(1, "requested"), (2, "acknowledged"), (3, "saved")]
    assert kinds(tmp_path, 2) == [(3, "saved")]
    assert kinds(tmp_path, 3) == []
    assert read_journal(str(tmp_path), 3)["facts"] == 2


def test_acknowledged_notes_are_gone_and_the_others_keep_their_numbers(
    journal: Journal, tmp_path: Path
) -> None:
    journal.acknowledge(2)
    assert kinds(tmp_path) == [(3, "saved")]
    assert read_journal(str(tmp_path))["facts"] == 1
    journal.add("stopped")
    journal.acknowledge(1)
    assert kinds(tmp_path, 3) == [(4, "stopped")]
    journal.acknowledge(99)
    assert kinds(tmp_path) == []
    assert read_journal(str(tmp_path))["facts"] == 3
    journal.add("continued")
    assert kinds(tmp_path) == [(5, "continued")]


def test_long_journal_is_read_in_pieces(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    fullness = []
    for step in range(KEPT_MOST):
        fullness.append(journal.is_full)
        journal.add("saved", checkpoint="c", step=step, bytes=None)
    assert [*fullness, journal.is_full] == [False] * KEPT_MOST + [True]
    reading, steps, pieces = Reading(), [], 0
    while True:
        read = known(read_journal(str(tmp_path), reading.read))
        steps += [note.step for note in reading.take(read)]
        pieces += 1
        if read.is_all:
            break
    assert steps == list(range(KEPT_MOST))
    assert pieces == -(-KEPT_MOST // READ_MOST)
    journal.acknowledge(reading.read)
    assert not journal.is_full
    assert (tmp_path / "journal").stat().st_size < 100


@pytest.mark.parametrize(
    "line",
    [
        b'{"what": "saved", "step": "x", "at_ns": 1}',
        b'{"what": "escalated", "mode": "sesame", "at_ns": 1}',
        b'{"what": "saved", "at_ns": 99999999999999999999999}',
        b'{"what": "saved", "checkpoint": "\\ud800", "at_ns": 1}',
        b"[1]",
        b"\xff",
        b"[" * 9000,
    ],
)
def test_line_that_is_no_note_is_told_as_one_that_was_refused(tmp_path: Path, line: bytes) -> None:
    good = json.dumps({"what": "acknowledged", "at_ns": 1}).encode()
    (tmp_path / "journal").write_bytes(line + b"\n" + good + b"\n")
    assert kinds(tmp_path) == [(1, "refused"), (2, "acknowledged")]


def test_note_of_another_version_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text('{"what": "sang", "song": [1], "at_ns": 3}\n')
    assert kinds(tmp_path) == [(1, "other")]
    assert read_journal(str(tmp_path), 1)["facts"] == 0


def test_fifo_or_a_link_in_place_of_a_journal_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal")
    assert read_journal(str(tmp_path))["notes"] == ()
    (tmp_path / "journal").unlink()
    (tmp_path / "other").write_text('{"what": "acknowledged", "at_ns": 1}\n')
    (tmp_path / "journal").symlink_to(tmp_path / "other")
    assert read_journal(str(tmp_path))["notes"] == ()


def test_piece_from_further_on_than_was_read_is_not_taken() -> None:
    reading = Reading()
    note = Note(n=8, what="saved", at_ns=1)
    ahead = Notes(after=7, facts=7, notes=(note,), is_all=True)
    taken = [reading.take(known(ahead)), reading.take(known(ahead.replaced(after=0, facts=5)))]
    assert [[each.n for each in notes] for notes in taken] == [[], [8]]
    assert (reading.read, reading.facts) == (8, 5)
