"""One attempt as the session of its node sees it: what was told, and whether there is news.

A look costs two `stat` where nothing has changed. The end of a supervisor is awaited by its pidfd,
where the kernel has them, so that quiet jobs cost nothing and one that is killed is missed at once.
Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH116

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import NO_END, is_held, probe, send, sweep
from shunter.backends.node.messages.attempt_records import sample_in
from shunter.backends.node.messages.journal import read_journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Notes, Probe, Sample, Started

UNREAD: Notes = {"after": 0, "facts": None, "notes": [], "is_all": False}
NEVER = (-1, -1, -1)


class Watched:
    """What is known of an attempt, and what of it was told already.

    `end` is a file that gets readable when its supervisor ends, or -1.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.told: tuple[str, bool] | None = None
        self.read = 0
        self.end = -1
        self._acknowledged = 0
        self._sampled_ns = 0
        self._sample_stamp = 0
        self._seen = NEVER

    def may_have_news(self) -> bool:
        """Say whether a look could show anything new."""
        return self.end < 0 or self.has_changed()

    def has_changed(self) -> bool:
        """Say whether its records have changed since it was told."""
        return self.told is None or _stamp(self.folder) != self._seen

    def look(self) -> tuple[Probe, bool]:
        """Return its state, and whether that is settled.

        It is not while what a lost supervisor has left is being swept.
        """
        self.note_seen()  # first: what changes from here on is news
        known, is_settled = probe(self.folder), True
        if known["state"] in NO_END and sweep(self.folder):
            known["state"], is_settled = "running", False
        started = known["started"]
        if known["state"] == "running" and started is not None and self.end < 0:
            self.end = _opened_end(self.folder, started)
        self.told = (known["state"], started is None)
        return known, is_settled

    def note_seen(self) -> None:
        """Note that its records were seen as they are."""
        self._seen = _stamp(self.folder)

    def journal(self, *, with_notes: bool) -> Notes:
        """Return a piece of what its journal says that was not read."""
        found = read_journal(self.folder, self.read) if with_notes else UNREAD
        if found["notes"]:
            self.read = found["notes"][-1]["n"]
        if not found["is_all"]:
            self._seen = NEVER
        return found

    def acknowledge(self, durable: int, term: int) -> None:
        """Let its supervisor drop the notes that are in the log, once it takes the order."""
        if durable > self._acknowledged:
            order = {"do": "acknowledge", "upto": durable, "term": term}
            if self.send(order):
                self._acknowledged = durable

    def send(self, order: Mapping[str, object]) -> bool:
        """Hand an order to its supervisor; False if nobody takes it."""
        return send(self.folder, order)

    def sample(self) -> Sample | None:
        """Return its newest sample; None if that was told, or there is none."""
        try:
            stamp = os.stat(f"{self.folder}/sample").st_mtime_ns
        except OSError:
            return None
        if stamp == self._sample_stamp:
            return None
        self._sample_stamp, sample = stamp, sample_in(self.folder)
        if sample is None or sample["at_ns"] <= self._sampled_ns:
            return None
        self._sampled_ns = sample["at_ns"]
        return sample


def _opened_end(folder: str, started: Started) -> int:
    """Return what gets readable when a supervisor ends; -1 where that cannot be had."""
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        end = os.pidfd_open(started["pid"])
    except OSError:
        return -1
    # Only who holds the lock is the supervisor: its process id may be somebody else's by now.
    if is_held(f"{folder}/lock"):
        return end
    os.close(end)
    return -1


def _stamp(folder: str) -> tuple[int, int, int]:
    """Return what changes when a record appears in a folder, or the journal changes."""
    try:
        appeared = os.stat(folder).st_mtime_ns
    except OSError:
        return NEVER
    try:
        journal = os.stat(f"{folder}/journal")
    except OSError:
        return appeared, 0, 0
    return appeared, journal.st_size, journal.st_mtime_ns
