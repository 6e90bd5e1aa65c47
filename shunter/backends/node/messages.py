"""What jobs tell supervisors, and supervisors schedulers: checked, bounded, read from an offset.

A shape is a function that returns a value as it should be, or raises. What a job or a host says is
held to a shape where it comes in: no number of a hundred digits or text that cannot be encoded gets
further. In this order: shapes, messages of a job, records, commands, journal.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from shunter.backends.node.records import LINE_BYTES_MAX, get, open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.wire import (
        Command,
        Message,
        Note,
        Notes,
        Sample,
        Shape,
        Started,
        Status,
    )

_T = TypeVar("_T")
PROTOCOL = 2
"""The version of what agents and schedulers say: see `shunter.backends.live.messages`."""
READ_BYTES_MAX = 1 << 18  # of an output, in one answer
COUNT_MOST = 2**53 - 1  # what every reader of JSON can tell from its neighbours
CLOCK_MOST = 2**63 - 1
SHOWN_CHARACTERS = 40


class WrongMessageError(ValueError):
    """A message, or a part of it, is not what it should be."""

    def __init__(self, what: str, path: str = "") -> None:
        """Keep what is wrong, and of which part."""
        super().__init__(f"{path or 'it'} {what}")
        self.what, self.path = what, path


def checked(value: object, shape: Shape[_T]) -> _T | None:
    """Return a value as a shape has it; None if it is wrong."""
    try:
        return shape(value)
    except (WrongMessageError, RecursionError):
        return None


def parsed(line: bytes) -> object:
    """Return what a line of JSON says.

    Raises:
        WrongMessageError: it is no JSON, or nested beyond all measure.
    """
    try:
        said: object = json.loads(line)
    except (ValueError, RecursionError):
        words = shown(line.decode("utf-8", "replace"))
        raise WrongMessageError(f"is {words}, expected JSON") from None
    return said


def a_whole(least: int = 0, most: int = COUNT_MOST) -> Shape[int]:
    """Return the shape of an integer from one number to another."""

    def held(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _wrong(value, f"a whole number from {least} to {most}")
        return value

    return held


def a_number(least: float, most: float) -> Shape[float]:
    """Return the shape of a finite number from one to another."""

    def held(value: object) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not least <= value <= most  # which NaN never is
        ):
            raise _wrong(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return held


def a_text(most: int) -> Shape[str]:
    """Return the shape of a text of so many characters at most, valid in UTF-8."""

    def held(value: object) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_encodable(value):
            raise _wrong(value, f"a text of {most} characters at most")
        return value

    return held


def a_flag(value: object) -> bool:
    """Hold a value to be true or false."""
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def a_choice(*choices: str) -> Shape[str]:
    """Return the shape of one of some texts."""

    def held(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(value, f"one of {', '.join(choices)}")
        return value

    return held


def or_none(shape: Shape[_T]) -> Shape[_T | None]:
    """Return the shape of a value that may be absent."""
    return lambda value: None if value is None else shape(value)


def a_list(shape: Shape[_T], most: int) -> Shape[list[_T]]:
    """Return the shape of a list of so many values at most."""

    def held(value: object) -> list[_T]:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(value, f"a list of {most} at most")
        return [_within(f"[{number}]", shape, each) for number, each in enumerate(value)]

    return held


def a_row(*shapes: Shape[object]) -> Shape[list[object]]:
    """Return the shape of a list with one value for each of the shapes."""

    def held(value: object) -> list[object]:
        if not isinstance(value, list) or len(value) != len(shapes):
            raise _wrong(value, f"a list of {len(shapes)}")
        pairs = enumerate(zip(shapes, value))
        return [_within(f"[{number}]", shape, each) for number, (shape, each) in pairs]

    return held


def a_record(
    needed: Mapping[str, Shape[object]],
    others: Mapping[str, Shape[object]] | None = None,
    *,
    leaves_out: bool = False,
) -> Shape[Any]:
    """Return the shape of an object: what it needs, and what it may have.

    What it may have and has not is None, or left out too; anything more is left out. Who names the
    shape says what type such an object has (`wire`).
    """

    def held(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        for name in needed:
            if name not in value:
                raise WrongMessageError("is missing", name)
        found = {name: _within(name, shape, value[name]) for name, shape in needed.items()}
        for name, shape in (others or {}).items():
            given = value.get(name)
            if given is not None or not leaves_out:
                found[name] = None if given is None else _within(name, shape, given)
        return found

    return held


def an_object(value: object) -> dict[str, object]:
    """Hold a value to be an object, whatever is in it."""
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    return value


def cleaned(value: object, most: int) -> str:
    """Return somebody's words as a text that can be encoded and is not too long."""
    said = value if isinstance(value, str) else shown(value)
    return said[:most].encode("utf-8", "backslashreplace").decode("utf-8")[:most]


def shown(value: object) -> str:
    """Return how a wrong value is told of: its beginning, in plain letters."""
    if isinstance(value, int) and not -CLOCK_MOST <= value <= CLOCK_MOST:
        return "a whole number of more than 64 bits"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    said = ascii(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= SHOWN_CHARACTERS else said[:SHOWN_CHARACTERS] + "…"


def _within(name: str, shape: Shape[_T], value: object) -> _T:
    try:
        return shape(value)
    except WrongMessageError as error:
        joint = "." if error.path and not error.path.startswith("[") else ""
        raise WrongMessageError(error.what, f"{name}{joint}{error.path}") from None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(value: object, expected: str) -> WrongMessageError:
    return WrongMessageError(f"is {shown(value)}, expected {expected}")


# Messages of a job: lines of JSON of at most 4096 bytes (shunter/train/channel.py lists them). A
# wrong one is counted and dropped, and so is a note beyond a hundred and one a second.

CAUSE_CHARACTERS = 200
NOTES_AT_ONCE = 100
NOTES_A_SECOND = 1.0
BATCH_S_MOST = 1e6
RANK_MOST = 10**6
STEP = a_whole()
CHECKPOINT = a_text(LINE_BYTES_MAX)
KINDS: dict[str, Shape[Message]] = {
    "progress": a_record(
        {"rank": a_whole(0, RANK_MOST), "step": STEP},
        {"batch_s": a_number(0, BATCH_S_MOST), "batches": a_whole(), "state": a_text(40)},
    ),
    "acknowledged": a_record({}, {"step": STEP}),
    "saved": a_record({}, {"checkpoint": CHECKPOINT, "step": STEP, "bytes": a_whole()}),
    "failed": a_record({}, {"error": a_text(LINE_BYTES_MAX), "step": STEP}),
    "turns": a_record(
        {"rank": a_whole(0, RANK_MOST), "ranks": a_whole(1, RANK_MOST)}, {"moves": a_flag}
    ),
    "standing": a_record({"rank": a_whole(0, RANK_MOST), "turn": a_whole(1)}),
}
KIND: Shape[Message] = a_record({"what": a_choice(*KINDS)})


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

    def read(self) -> list[Message]:
        """Return the messages that lie there, without those that are wrong."""
        try:
            lines = (self._left + os.read(self.fifo, 1 << 16)).split(b"\n")
        except BlockingIOError:
            return []
        self._left = lines.pop()
        found: list[Message] = []
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

    def _message(self, line: bytes) -> list[Message]:
        what = "message"
        try:
            value = parsed(_short(line))
            what = KIND(value)["what"]
            return [{"what": what, **KINDS[what](value)}]
        except WrongMessageError as error:
            self.drop(f"{what}: {error}")
            return []


def _short(line: bytes) -> bytes:
    if len(line) > LINE_BYTES_MAX:
        raise WrongMessageError(f"has more than {LINE_BYTES_MAX} bytes")
    return line


# The records of an attempt. A job can write to their folder; a wrong record counts as absent.

JOB_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
ATTEMPT_DIGITS_MOST = 9
NUMBER = a_whole(1, 10**9)
PATH = a_text(4096)
NANOSECONDS = a_whole(0, CLOCK_MOST)
CODE = a_whole(0, 255)
CPUS = a_list(a_whole(0, 1 << 16), 1 << 13)
GPU_MASK = a_whole(0, 2**1024 - 1)
PORT = a_whole(0, 65535)
SIGNAL_MOST = 127
PIDS_MOST = 4096


def a_job(value: object) -> str:
    """Hold a value to be the name of a job, which names a folder too."""
    name = a_text(128)(value)
    if not name or name.startswith(".") or not JOB_CHARACTERS.issuperset(name):
        raise WrongMessageError(f"is {shown(name)}, expected letters, digits, . _ -")
    return name


def number_of(name: str) -> int | None:
    """Return the number of the attempt that a folder is named by, if it is."""
    is_number = name.isascii() and name.isdigit() and len(name) <= ATTEMPT_DIGITS_MOST
    return int(name) if is_number and name != "0" else None


STARTED: Shape[Started] = a_record(
    {
        "boot": a_text(64),
        "started_ns": NANOSECONDS,
        "pid": a_whole(1, 2**31 - 1),
        "placement": a_list(a_row(a_text(256), GPU_MASK), 4096),
        "ranks": a_list(a_record({"cpus": CPUS}, {"pinned": a_flag}), 4096),
        "port": or_none(PORT),
        "gpus": a_list(a_text(128), 4096),
    },
    {
        "cgroup": PATH,
        "job": a_job,
        "attempt": NUMBER,
        "term": a_whole(),
        "uid": a_whole(0, 2**32 - 1),
        "since": a_whole(),
    },
)
STATUS: Shape[Status] = a_record(
    {
        "code": CODE,
        "suspended": a_flag,
        "why": a_choice("", "suspend", "terminate", "fence", "heartbeat", "rank"),
        "saved": a_flag,
        "ended_ns": NANOSECONDS,
    },
    {
        "codes": a_list(or_none(CODE), 4096),
        "stragglers": a_whole(),
        "memory_kills": a_whole(),
        "output_dropped_bytes": a_whole(),
        "saved_ns": NANOSECONDS,
        "signal": or_none(a_whole(1, SIGNAL_MOST)),
    },
)
SAMPLE: Shape[Sample] = a_record(
    {"at_ns": NANOSECONDS, "pids": a_list(a_whole(0, 2**31 - 1), PIDS_MOST)},
    {
        "step": STEP,
        "batch_s": a_number(0, BATCH_S_MOST),
        "printed": a_flag,
        "cpus": a_number(0, 1 << 16),
        "memory_mb": a_whole(),
    },
)


def started_in(folder: str) -> Started | None:
    """Return the record that says that an attempt started; None if there is none."""
    return checked(get(f"{folder}/started"), STARTED)


def status_in(folder: str) -> Status | None:
    """Return the record that says how an attempt ended; None if there is none."""
    return checked(get(f"{folder}/status"), STATUS)


def sample_in(folder: str) -> Sample | None:
    """Return the newest sample of an attempt; None if there is none."""
    return checked(get(f"{folder}/sample"), SAMPLE)


# Commands to a supervisor, read from its FIFO.

WEIGHT_LEAST, WEIGHT_MOST = 1e-6, 1e6
PACK_MOST = 256
SERVER_MOST = 1024
TIMETABLE = a_list(a_whole(), 3)
COMMAND: Shape[Command] = a_record(
    {"do": a_text(16)},
    {
        "term": a_whole(),
        "mode": a_text(16),
        "upto": a_whole(),
        "mask": GPU_MASK,
        "number": a_whole(),
        "weight": a_number(WEIGHT_LEAST, WEIGHT_MOST),
        "pack": a_text(PACK_MOST),
        "timetable": TIMETABLE,
        "server": a_text(SERVER_MOST),
        "until": a_whole(),
    },
)


def commands_in(fifo: int) -> list[Command]:
    """Return the orders that lie in a FIFO; what is none is dropped."""
    try:
        lines = os.read(fifo, 1 << 16).splitlines()
    except BlockingIOError:
        return []
    found = []
    for line in lines:
        with suppress(WrongMessageError, RecursionError):
            found.append(COMMAND(parsed(line)))
    return found


# The journal of an attempt: a JSON object a line; the n-th line ever written is note n.
#
# A scheduler acknowledges notes whose facts are durable, and the supervisor drops them: a first
# line `{"trimmed": N, "facts": F}` says how many are gone, and how many of these were facts.

KEPT_MOST = 256
READ_MOST = 100
JOURNAL_READ_BYTES = 1 << 16
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
        if len(notes) == READ_MOST or (notes and size + len(line) > JOURNAL_READ_BYTES):
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
