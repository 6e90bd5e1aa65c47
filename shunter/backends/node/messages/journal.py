"""The journal of an attempt: what is noted of its suspension, its checkpoints and its messages.

A line is a JSON object; the n-th line that was ever written is the note n. A scheduler reads from
the note after the last it knows, and acknowledges those whose facts are durable. The supervisor
then drops them: a first line `{"trimmed": N, "facts": F}` says how many are gone, and how many of
these were facts for the scheduler's log. So no journal grows, and none is read twice. Only the
standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH105, PTH123

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from shunter.backends.node.messages.channel import CHECKPOINT, STEP
from shunter.backends.node.messages.shapes import (
    CLOCK_MOST,
    WrongMessageError,
    a_choice,
    a_flag,
    a_record,
    a_text,
    a_whole,
    an_object,
    parsed,
)
from shunter.backends.node.records import open_regular

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Note, Notes, Shape

KEPT_MOST = 256
READ_MOST = 100
READ_BYTES = 1 << 16
FILE_BYTES_MOST = 1 << 20

FACTS = (
    "acknowledged",
    "escalated",
    "saved",
    "stopped",
    "training",
    "continued",
    "refused",
    "turn_started",
    "turn_ended",
)
OTHER = "other"
AT_NS = a_whole(0, CLOCK_MOST)
MODE = a_text(16)
CAUSE = a_text(1000)
KINDS_NOTED: dict[str, Shape[Note]] = {
    "requested": a_record({"at_ns": AT_NS, "mode": MODE}),
    "escalated": a_record({"at_ns": AT_NS, "mode": a_choice("signal", "restart")}),
    "acknowledged": a_record({"at_ns": AT_NS}),
    "saved": a_record(
        {"at_ns": AT_NS}, {"checkpoint": CHECKPOINT, "step": STEP, "bytes": a_whole()}
    ),
    "failed": a_record({"at_ns": AT_NS}, {"error": CAUSE, "step": STEP}),
    "stopped": a_record({"at_ns": AT_NS}),
    "training": a_record({"at_ns": AT_NS}),
    "continued": a_record({"at_ns": AT_NS}),
    "refused": a_record({"at_ns": AT_NS, "count": a_whole(1), "cause": CAUSE}),
    "turn_started": a_record(
        {"at_ns": AT_NS, "mask": a_whole(1, 2**1024 - 1)}, {"can_move": a_flag}
    ),
    "turn_ended": a_record({"at_ns": AT_NS}),
    OTHER: a_record({"at_ns": AT_NS}),  # a kind of another version
}
KIND_NOTED: Shape[Note] = a_record({"what": a_text(40)})
NUMBER_NOTED: Shape[Note] = a_record({"n": a_whole(1)})
HEAD: Shape[dict[str, int]] = a_record({"trimmed": a_whole(1), "facts": a_whole()})


class Journal:
    """The journal of an attempt as its supervisor keeps it."""

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/journal"
        self._lines: list[tuple[str, bytes]] = []
        self._trimmed = self._facts = 0
        self._is_torn = False

    @property
    def is_full(self) -> bool:
        """Whether so much is unread that nothing more of a job's may be noted."""
        return len(self._lines) >= KEPT_MOST

    def add(self, what: str, **fields: object) -> None:
        """Add a note; on a full disk it is kept, and written by a later `mend`."""
        line = json.dumps({"what": what, "at_ns": time.monotonic_ns(), **fields}).encode() + b"\n"
        self._lines.append((what, line))
        if self._is_torn or not self._append(line):
            self._is_torn = True
            self.mend()

    def acknowledge(self, upto: int) -> None:
        """Drop the notes up to a number: the scheduler has them, durably."""
        count = min(upto - self._trimmed, len(self._lines))
        if count > 0:
            self._facts += sum(1 for what, _ in self._lines[:count] if what in FACTS)
            self._trimmed += count
            del self._lines[:count]
            self._is_torn = True
            self.mend()

    def mend(self, *, anew: bool = False) -> None:
        """Write what the file should hold, if it does not; a full disk makes that later."""
        if not (self._is_torn or anew):
            return
        head = b""
        if self._trimmed:
            head = json.dumps({"trimmed": self._trimmed, "facts": self._facts}).encode() + b"\n"
        try:
            with open(f"{self._path}.new", "wb") as file:
                file.write(head + b"".join(line for _, line in self._lines))
            os.replace(f"{self._path}.new", self._path)
        except OSError:
            return
        self._is_torn = False

    def _append(self, line: bytes) -> bool:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                return os.write(file, line) == len(line)
            finally:
                os.close(file)
        except OSError:
            return False


def read_journal(folder: str, after: int = 0) -> Notes:
    """Return a piece of a journal, from the note after one on."""
    number = facts = size = 0
    notes: list[Note] = []
    before = 0
    for line in _lines_of(f"{folder}/journal"):
        head = None if number else _trim_of(line)
        if head is not None:
            number, facts = head["trimmed"], head["facts"]
            continue
        number += 1
        note = _noted(line, number)
        if number <= after:
            facts += note["what"] in FACTS
            continue
        if len(notes) == READ_MOST or (notes and size + len(line) > READ_BYTES):
            return {"after": after, "facts": facts, "notes": notes, "is_all": False}
        size += len(line)
        note["at_ns"] = before = note["at_ns"] or before
        notes.append(note)
    return {"after": after, "facts": facts, "notes": notes, "is_all": True}


def a_note(value: object) -> Note:
    """Hold a value to be a note as it is told, with its number."""
    number, what = NUMBER_NOTED(value)["n"], KIND_NOTED(value)["what"]
    what = what if what in KINDS_NOTED else OTHER
    return {"n": number, "what": what, **KINDS_NOTED[what](value)}


def _trim_of(line: bytes) -> dict[str, int] | None:
    try:
        return HEAD(parsed(line))
    except WrongMessageError:
        return None


def _noted(line: bytes, number: int) -> Note:
    """Return a note; for a line that is none, one that says so."""
    try:
        return a_note({**an_object(parsed(line)), "n": number})
    except WrongMessageError as error:
        cause = f"its journal, line {number}: {error}"
        return {"n": number, "what": "refused", "at_ns": 0, "count": 1, "cause": cause}


def _lines_of(path: str) -> list[bytes]:
    """Return the whole lines of a file, of its first mebibyte."""
    try:
        with open(open_regular(path), "rb") as file:
            content = file.read(FILE_BYTES_MOST)
    except OSError:
        return []
    return content.split(b"\n")[:-1]
