"""The supervisor's end of the channel: what a job says, one checked message after the other.

A message is a line of JSON of at most 4096 bytes (shunter/train/channel.py lists them). One that is
no JSON, too long, of an unknown kind, or has a value of a wrong type or beyond all measure is
counted and dropped. So is what a job would have noted beyond a hundred notes and one a second.
Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from shunter.backends.node.messages.shapes import (
    WrongMessageError,
    a_choice,
    a_flag,
    a_number,
    a_record,
    a_text,
    a_whole,
    cleaned,
    parsed,
)
from shunter.backends.node.records import LINE_BYTES_MAX

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Message, Shape

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
