"""What a job says through its FIFO, what its supervisor notes in its journal, and what it is told.

All three are lines of JSON. A wrong line of a job is counted and dropped, and so is a note beyond a
hundred and one a second; a wrong order is dropped. A journal is read from an offset, in pieces.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from shunter.backends.node.messages import (
    FACTS,
    KIND_SAID,
    READ_MOST,
    Command,
    JobMessage,
    Note,
    Notes,
    kind_in,
)
from shunter.backends.node.records import LINE_BYTES_MAX, open_regular
from shunter.backends.node.shapes import (
    COUNT_MOST,
    Message,
    WrongMessageError,
    a_whole,
    an_object,
    cleaned,
    field,
    parsed,
)

CAUSE_CHARACTERS = 200
WARNING_CHARACTERS = 500
WARNINGS_MOST = 32
NOTES_AT_ONCE = 100
NOTES_A_SECOND = 1.0


class Channel:
    """What a job says through its FIFO, and how much of that was dropped."""

    def __init__(self, fifo: int) -> None:
        self.dropped = 0
        self.cause = ""
        self.fifo = fifo
        self._left = b""
        self._is_skipping = False
        self._told, self._tell_at = 0, 1
        self._credit = float(NOTES_AT_ONCE)
        self._credit_s = time.monotonic()
        self._warned: set[str] = set()

    def read(self) -> list[JobMessage]:
        """Return the messages that lie there, without those that are wrong."""
        try:
            lines = (self._left + os.read(self.fifo, 1 << 16)).split(b"\n")
        except BlockingIOError:
            return []
        self._left = lines.pop()
        found: list[JobMessage] = []
        for line in lines:
            if self._is_skipping:  # the rest of one that was too long
                self._is_skipping = False
            elif line.strip():
                found += self._message(line)
        if len(self._left) > LINE_BYTES_MAX:
            if not self._is_skipping:
                self._message(self._left)
            self._left, self._is_skipping = b"", True
        return found

    def may_note(self) -> bool:
        """Say whether a job may have one more thing noted; if not, that is counted."""
        now_s = time.monotonic()
        self._credit += (now_s - self._credit_s) * NOTES_A_SECOND
        self._credit, self._credit_s = min(self._credit, float(NOTES_AT_ONCE)), now_s
        if self._credit < 1:
            self.drop(f"more than {NOTES_AT_ONCE} messages at once, and one a second")
            return False
        self._credit -= 1
        return True

    def new_warning(self, text: str) -> str:
        """Return a warning in one line, once; empty: it is known, or there are too many."""
        line = "".join(each if each.isprintable() else " " for each in text[:WARNING_CHARACTERS])
        line = cleaned(line.strip(), WARNING_CHARACTERS)
        if not line or line in self._warned:
            return ""
        if len(self._warned) == WARNINGS_MOST:
            self.drop(f"more than {WARNINGS_MOST} different warnings")
            return ""
        self._warned.add(line)
        return line

    def drop(self, cause: str) -> None:
        """Count a message that is not taken."""
        self.dropped += 1
        self.cause = cleaned(cause, CAUSE_CHARACTERS)

    def is_to_be_told(self, *, last: bool = False) -> bool:
        """Say whether to tell of the dropped: the first, the 10th, 100th, the last."""
        is_due = self.dropped >= self._tell_at or (last and self.dropped > self._told)
        if is_due:
            self._told = self.dropped
            self._tell_at = 10 ** len(str(self.dropped))
        return is_due

    def _message(self, line: bytes) -> list[JobMessage]:
        what = "message"
        try:
            value = parsed(_short(line))
            what = kind_in(value, KIND_SAID)
            return [JobMessage.decoded(value)]
        except WrongMessageError as error:
            self.drop(f"{what}: {error}")
            return []


def _short(line: bytes) -> bytes:
    if len(line) > LINE_BYTES_MAX:
        raise WrongMessageError(f"has more than {LINE_BYTES_MAX} bytes")
    return line


def commands_in(fifo: int) -> list[Command]:
    """Return the orders that lie in a FIFO; what is none is dropped."""
    try:
        lines = os.read(fifo, 1 << 16).splitlines()
    except BlockingIOError:
        return []
    found = []
    for line in lines:
        with suppress(WrongMessageError, RecursionError):
            found.append(Command.decoded(parsed(line)))
    return found


# The journal of an attempt: a JSON object a line; the n-th line ever written is note n.
#
# A scheduler acknowledges notes whose facts are durable, and the supervisor drops them: a first
# line `{"trimmed": N, "facts": F}` says how many are gone, and how many of these were facts.

KEPT_MOST = 256
JOURNAL_READ_BYTES = 1 << 16
FILE_BYTES_MOST = 1 << 20


class Trimmed(Message):
    """The first line of a journal of which notes are gone."""

    trimmed: int = field(a_whole(1))
    facts: int = field(a_whole(0, COUNT_MOST))


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
            number, facts = head.trimmed, head.facts
            continue
        number += 1
        note = _noted(line, number)
        if number <= after:
            facts += note.what in FACTS
            continue
        if len(notes) == READ_MOST or (notes and size + len(line) > JOURNAL_READ_BYTES):
            return Notes(after=after, facts=facts, notes=tuple(notes))
        size += len(line)
        note.at_ns = before = note.at_ns or before
        notes.append(note)
    return Notes(after=after, facts=facts, notes=tuple(notes), is_all=True)


def _trim_of(line: bytes) -> Trimmed | None:
    try:
        return Trimmed.decoded(parsed(line))
    except WrongMessageError:
        return None


def _noted(line: bytes, number: int) -> Note:
    """Return a note; for a line that is none, one that says so."""
    try:
        return Note.decoded({**an_object(parsed(line)), "n": number})
    except WrongMessageError as error:
        cause = f"its journal, line {number}: {error}"
        return Note(n=number, what="refused", at_ns=0, count=1, cause=cause)


def _lines_of(path: str) -> list[bytes]:
    """Return the whole lines of a file, of its first mebibyte."""
    try:
        with open(open_regular(path), "rb") as file:
            content = file.read(FILE_BYTES_MOST)
    except OSError:
        return []
    return content.split(b"\n")[:-1]
