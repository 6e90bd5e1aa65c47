"""The lives of jobs as this daemon saw them: what `show` and `history` answer from memory.

Fed with every durable event, in order. Jobs that were submitted before the daemon started are not
among them until somebody asked: the log has those.
"""

from collections import OrderedDict

from shunter.app.api.documents.lives import Life
from shunter.events.facts.jobs import JOB_ENDS, JobSubmitted
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId

__all__ = ["Lives"]

ENDED_MOST = 10_000


class Lives:
    """Lives by job: all that go on, and the newest of those that have ended."""

    def __init__(self) -> None:
        self._going: dict[JobId, Life] = {}
        self._ended: OrderedDict[JobId, Life] = OrderedDict()

    def of(self, job_id: JobId) -> Life | None:
        """Return the life of a job up to the last event taken; None: not known here."""
        return self._going.get(job_id) or self._ended.get(job_id)

    def take(self, event: Event) -> None:
        """Go through the next durable event."""
        job_id = getattr(event, "job_id", None)
        if job_id is None:
            return
        if isinstance(event, JobSubmitted):
            self._going[job_id] = Life(event)
        elif (life := self._going.get(job_id)) is not None:
            life.take(event)
            if isinstance(event, JOB_ENDS):
                del self._going[job_id]
                self.keep(job_id, life)

    def adopt(self, job_id: JobId, life: Life) -> None:
        """Go on with a life read from the log, up to the last event taken."""
        if life.outcome is None:
            self._going[job_id] = life
        else:
            self.keep(job_id, life)

    def keep(self, job_id: JobId, life: Life) -> None:
        """Keep the life of a job that has ended; the one kept longest may go for it."""
        self._ended[job_id] = life
        if len(self._ended) > ENDED_MOST:
            self._ended.popitem(last=False)
