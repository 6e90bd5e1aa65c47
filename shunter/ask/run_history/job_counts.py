"""How many jobs wait and how many hold something, kept up to date event by event."""

from collections import Counter

from shunter.core.state import State
from shunter.events.values.ids import JobId, QueueName


class JobCounts:
    """Counts jobs by what was last noted of each; `by_queue` are those that wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self.running = 0
        self.by_queue: Counter[QueueName] = Counter()
        self._noted: dict[JobId, tuple[bool, QueueName]] = {}

    def note(self, job_id: JobId, state: State) -> None:
        """Note how a job stands in a state: it holds something, waits, or has ended."""
        job, before = state.jobs.get(job_id), self._noted.get(job_id)
        now = None if job is None else (job.since_us is not None, job.spec.queue)
        if now == before:
            return
        if before is not None:
            self._count(before, -1)
        if now is None:
            del self._noted[job_id]
        else:
            self._noted[job_id] = now
            self._count(now, 1)

    def _count(self, noted: tuple[bool, QueueName], by: int) -> None:
        is_running, queue = noted
        if is_running:
            self.running += by
        else:
            self.waiting += by
            self.by_queue[queue] += by
