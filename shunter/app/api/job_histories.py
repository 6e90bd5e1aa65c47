"""The histories of jobs as this daemon saw them: what `show` and `history` answer from memory.

Fed with every durable event, in order. Jobs that were submitted before the daemon started are not
among them until somebody asked: the log has those.
"""

from collections import OrderedDict

from shunter.app.api.documents.job_history import JobHistory
from shunter.events.facts.jobs import JOB_ENDS, JobSubmitted
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId

__all__ = ["JobHistories"]

ENDED_MOST = 10_000


class JobHistories:
    """Histories by job: all that go on, and the newest of those that have ended."""

    def __init__(self) -> None:
        self._going: dict[JobId, JobHistory] = {}
        self._ended: OrderedDict[JobId, JobHistory] = OrderedDict()

    def of(self, job_id: JobId) -> JobHistory | None:
        """Return the history of a job up to the last event taken; None: not known here."""
        return self._going.get(job_id) or self._ended.get(job_id)

    def take(self, event: Event) -> None:
        """Go through the next durable event."""
        job_id = getattr(event, "job_id", None)
        if job_id is None:
            return
        if isinstance(event, JobSubmitted):
            self._going[job_id] = JobHistory(event)
        elif (history := self._going.get(job_id)) is not None:
            history.take(event)
            if isinstance(event, JOB_ENDS):
                del self._going[job_id]
                self.keep(job_id, history)

    def adopt(self, job_id: JobId, history: JobHistory) -> None:
        """Go on with a history read from the log, up to the last event taken."""
        if history.outcome is None:
            self._going[job_id] = history
        else:
            self.keep(job_id, history)

    def keep(self, job_id: JobId, history: JobHistory) -> None:
        """Keep the history of a job that has ended; the one kept longest may go for it."""
        self._ended[job_id] = history
        if len(self._ended) > ENDED_MOST:
            self._ended.popitem(last=False)
