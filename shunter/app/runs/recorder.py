"""A log that also takes snapshots on the way and says how far the run is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shunter.app.snapshots import snapshot_of
from shunter.core.scheduler import Scheduler
from shunter.events.kinds import Event
from shunter.events.log import LogWriter

__all__ = ["Recorder", "Report"]

STEPS_BETWEEN_REPORTS = 500
Report = Callable[[int, int], None]
"""Told now and then how many jobs have ended, and of how many."""


@dataclass
class Recorder:
    """Stands between round loop and log; where nobody needs it, the log does alone.

    `report` is told of the jobs that have ended, every few hundred steps.
    """

    core: Scheduler
    log: LogWriter
    jobs: int
    snapshot_every: int = 0
    report: Report | None = None
    _snapshot_due: int = 0
    _steps: int = 0

    def __post_init__(self) -> None:
        """Set the first snapshot's place."""
        self._snapshot_due = self.snapshot_every

    def append(self, events: Sequence[Event]) -> int:
        """Fix the order of events."""
        return self.log.append(events)

    async def commit(self) -> None:
        """Commit, after a snapshot if one is due."""
        if self.snapshot_every and self.log.seq >= self._snapshot_due:
            await self.log.save_snapshot(*snapshot_of(self.core, self.log.outcomes_kept))
            self._snapshot_due = self.log.seq + self.snapshot_every
        await self.log.commit()
        self._steps += 1
        if self.report is not None and self._steps % STEPS_BETWEEN_REPORTS == 0:
            self.report(len(self.core.state.ended), self.jobs)
