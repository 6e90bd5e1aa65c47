"""One attempt as the daemon sees it: what its records say, and what of that was told already."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.node import attempts
from shunter.backends.node.records import boot_id
from shunter.core.intake.inputs import AttemptExited
from shunter.events.facts.execution import (
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobContinued,
    JobStopped,
    JobSuspended,
    LaunchFailed,
    SuspendAcknowledged,
    SuspendEscalated,
)
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import SuspendMode

Record = dict[str, Any]
Stamp = tuple[int, int]
NEVER: Stamp = (-1, -1)
NOT_BEGUN = "its supervisor was gone before it began"


@dataclass(slots=True)
class Watch:
    """An attempt that may run, what of it was told, and what it is yet to be told.

    `told_notes` counts the notes of its journal that became facts.
    """

    job_id: JobId
    attempt: int
    folder: str
    migrated_from: tuple[NodeName, ...] = ()
    told_start: bool = False
    told_notes: int = 0
    is_over: bool = False
    is_awaited: bool = False
    started: Record | None = None
    order: Record | None = None
    seen: Stamp = NEVER

    def may_have_news(self) -> bool:
        """Say whether a look could show anything new, at the price of two `stat`."""
        is_busy = self.order is not None or not self.is_awaited
        return is_busy or _stamp(self.folder) != self.seen

    def look(self) -> tuple[Record, list[Record]]:
        """Read its records; one that lost its supervisor is swept until nothing is left."""
        self.seen = _stamp(self.folder)  # first: what changes from here on is news
        known = attempts.probe(self.folder)
        if known["state"] == "lost" and attempts.sweep(self.folder):
            known["state"] = "running"
            self.seen = NEVER
        return known, attempts.journal(self.folder)

    def open_end(self) -> int | None:
        """Return what gets readable when the supervisor ends; None if it is unknown."""
        if self.started is None or not hasattr(os, "pidfd_open"):
            return None
        try:
            end = os.pidfd_open(self.started["pid"])
        except OSError:
            return None
        # Only who holds the lock is the supervisor: its process id may be somebody else's by now.
        if not attempts.is_held(f"{self.folder}/lock"):
            os.close(end)
            return None
        return end

    def tell(self, known: Record, notes: list[Record], inbox: Inbox) -> Iterator[Stamped]:
        """Return what has not been told yet, in order, and note that it has been."""
        job_id, attempt, came_from = self.job_id, self.attempt, self.migrated_from
        self.started = known["started"]
        if self.started is not None and not self.told_start:
            self.told_start = True
            yield lambda at_us: AttemptStarted(at_us, job_id, attempt, "", came_from)
        telling = [note for note in notes if note["what"] in _NOTES]
        fresh, self.told_notes = telling[self.told_notes :], len(telling)
        for note in fresh:
            yield _NOTES[note["what"]](self, note)
        if known["state"] == "ended" and not self.is_over:
            self.is_over = True
            yield from self._end(known, notes, inbox)
        elif known["state"] == "lost" and not self.is_over:
            self.is_over = True
            yield lambda at_us: AttemptLost(at_us, job_id, attempt, "supervisor lost")
        elif known["state"] == "absent" and not self.is_over:
            self.is_over = True
            yield lambda at_us: LaunchFailed(at_us, job_id, attempt, NOT_BEGUN)

    def _end(self, known: Record, notes: list[Record], inbox: Inbox) -> Iterator[Stamped]:
        job_id, attempt, status = self.job_id, self.attempt, known["status"]
        if status["suspended"]:
            saved_ns = [known["started"]["started_ns"]]
            saved_ns += [note["at_ns"] for note in notes if note["what"] == "saved"]
            lost_us = 0 if status["saved"] else (status["ended_ns"] - saved_ns[-1]) // 1000
            yield lambda at_us: JobSuspended(at_us, job_id, attempt, None, lost_us)
            yield lambda at_us: GpusReleased(at_us, job_id, attempt)
        elif status["why"] in ("heartbeat", "fence"):
            yield lambda at_us: AttemptLost(at_us, job_id, attempt, status["why"])
        else:
            # Its clock began anew if the machine was booted since: then the seeing counts.
            is_ours = known["started"]["boot"] == boot_id()
            ended_us = inbox.instant_us(status["ended_ns"]) if is_ours else None
            yield lambda at_us: AttemptExited(
                at_us,
                job_id,
                attempt,
                status["code"],
                released=True,
                ended_us=at_us if ended_us is None else min(ended_us, at_us),
            )


def _stamp(folder: str) -> Stamp:
    """Return what changes when a record appears in a folder, or the journal grows."""
    try:
        appeared = os.stat(folder).st_mtime_ns  # noqa: PTH116  half the price of a Path's
    except OSError:
        return NEVER
    try:
        noted = os.stat(f"{folder}/journal").st_size  # noqa: PTH116  as above
    except OSError:
        noted = 0
    return appeared, noted


def _acknowledged(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: SuspendAcknowledged(at_us, watch.job_id, watch.attempt)


def _escalated(watch: Watch, note: Record) -> Stamped:
    mode = SuspendMode(note["mode"])
    return lambda at_us: SuspendEscalated(at_us, watch.job_id, watch.attempt, mode)


def _saved(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: CheckpointSaved(
        at_us, watch.job_id, watch.attempt, note["checkpoint"], note["step"], note["bytes"]
    )


def _stopped(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: JobStopped(at_us, watch.job_id, watch.attempt)


def _continued(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: JobContinued(at_us, watch.job_id, watch.attempt)


_NOTES: dict[str, Callable[[Watch, Record], Stamped]] = {
    "acknowledged": _acknowledged,
    "escalated": _escalated,
    "saved": _saved,
    "stopped": _stopped,
    "continued": _continued,
}
