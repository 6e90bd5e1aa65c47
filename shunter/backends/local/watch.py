"""One attempt as the daemon sees it: what its records say, and what of that was told already."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.node import attempts
from shunter.core.intake.inputs import AttemptExited
from shunter.events.facts.execution import (
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    GpusReleased,
    JobSuspended,
    SuspendAcknowledged,
    SuspendEscalated,
)
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import SuspendMode

Record = dict[str, Any]


@dataclass(slots=True)
class Watch:
    """An attempt that may run, how much of it has been told, and what it is yet to be told."""

    job_id: JobId
    attempt: int
    folder: str
    migrated_from: tuple[NodeName, ...] = ()
    told_start: bool = False
    told_notes: int = 0
    is_over: bool = False
    started: Record | None = None
    order: Record | None = None

    def look(self) -> tuple[Record, list[Record]]:
        """Read its records; one that lost its supervisor is swept until nothing is left."""
        known = attempts.probe(self.folder)
        if known["state"] == "lost" and attempts.sweep(self.folder):
            known["state"] = "running"
        return known, attempts.journal(self.folder)

    def tell(self, known: Record, notes: list[Record], inbox: Inbox) -> Iterator[Stamped]:
        """Return what has not been told yet, in order, and note that it has been."""
        job_id, attempt, came_from = self.job_id, self.attempt, self.migrated_from
        self.started = known["started"]
        if self.started is not None and not self.told_start:
            self.told_start = True
            yield lambda at_us: AttemptStarted(at_us, job_id, attempt, "", came_from)
        fresh, self.told_notes = notes[self.told_notes :], len(notes)
        for note in fresh:
            stamped = _NOTES.get(note["what"])
            if stamped is not None:
                yield stamped(self, note)
        if known["state"] == "ended" and not self.is_over:
            self.is_over = True
            yield from self._end(known, notes, inbox)
        elif known["state"] == "lost" and not self.is_over:
            self.is_over = True
            yield lambda at_us: AttemptLost(at_us, job_id, attempt, "supervisor lost")

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
            ended_us = inbox.instant_us(status["ended_ns"])
            yield lambda at_us: AttemptExited(
                at_us, job_id, attempt, status["code"], released=True, ended_us=min(ended_us, at_us)
            )


def _acknowledged(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: SuspendAcknowledged(at_us, watch.job_id, watch.attempt)


def _escalated(watch: Watch, note: Record) -> Stamped:
    mode = SuspendMode(note["mode"])
    return lambda at_us: SuspendEscalated(at_us, watch.job_id, watch.attempt, mode)


def _saved(watch: Watch, note: Record) -> Stamped:
    return lambda at_us: CheckpointSaved(
        at_us, watch.job_id, watch.attempt, note["checkpoint"], note["step"], note["bytes"]
    )


_NOTES: dict[str, Callable[[Watch, Record], Stamped]] = {
    "acknowledged": _acknowledged,
    "escalated": _escalated,
    "saved": _saved,
}
