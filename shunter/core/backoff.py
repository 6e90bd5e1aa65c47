"""How long a job waits before it is tried again: longer each time, and not for ever.

A job whose launch failed so many times fails. An attempt that failed by itself, of a job with
retries, waits as long. One whose attempts are lost soon after they began, again and again, waits in
the same way from the second loss on, and never fails of it: that is counted by the scheduler at
work, not in its state. Attempts that leave unasked wait as well (core/reactor/departures.py). To
the policies it is a job on hold, which the scheduler puts there and takes from there itself; so no
policy needs to know of it. `back_at_us` is part of the state: a scheduler that starts anew goes on
waiting where the last one stopped.
"""

from collections.abc import Mapping
from heapq import heappop, heappush

from shunter.core.rng import Rng
from shunter.core.state import Job
from shunter.events.values import BACKING_OFF, JobId

__all__ = [
    "BACKING_OFF",
    "EARLY_KEPT",
    "EARLY_US",
    "LAUNCHES_MOST",
    "LONG_US",
    "Losses",
    "Returns",
    "backoff_us",
    "jittered_us",
]

LAUNCHES_MOST = 5
"""So many launches in a row may fail; with the last of them the job does."""

LONG_US = 600_000_000
"""An attempt that lived so long was well: its loss counts as the first."""

EARLY_US = 30_000_000
"""What fails so soon after its attempt began failed in its first seconds: imports take some."""

EARLY_KEPT = 8
"""On so many shares early failures of a job are remembered, the last ones."""

_FIRST_US, _LONGEST_US = 1_000_000, 300_000_000
_DOUBLINGS_MOST = 62


def backoff_us(failed: int) -> int:
    """Return how long to wait after so many failed launches: a second, doubled."""
    return min(_LONGEST_US, _FIRST_US << max(0, failed - 1))


def jittered_us(tries: int, first_us: int, longest_us: int, rng: Rng) -> int:
    """Return how long to wait after so many tries that collided.

    It is anything up to a bound, which is `first_us`, doubled with each further try, and
    `longest_us` at most. Those who collided draw apart, and so do not meet again.
    """
    bound_us = min(longest_us, first_us << min(tries - 1, _DOUBLINGS_MOST))
    return 1 + rng.below(max(1, bound_us))


class Returns:
    """When jobs that back off may be tried again."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int, JobId]] = []

    def add(self, job: Job) -> None:
        """Note a job that backs off, if it does."""
        if job.back_at_us is not None:
            heappush(self._due, (job.back_at_us, job.ordinal, job.job_id))

    @property
    def is_set(self) -> bool:
        """Whether any job may back off."""
        return bool(self._due)

    def next_us(self, jobs: Mapping[JobId, Job]) -> int | None:
        """Return when the next job comes back; those that need not are forgotten."""
        while self._due:
            back_us, _, job_id = self._due[0]
            job = jobs.get(job_id)
            if job is not None and job.back_at_us == back_us:
                return back_us
            heappop(self._due)
        return None

    def due(self, jobs: Mapping[JobId, Job], now_us: int) -> JobId | None:
        """Take out the next job that comes back now."""
        if not self._due or (back_us := self.next_us(jobs)) is None or back_us > now_us:
            return None
        return heappop(self._due)[2]


class Losses:
    """How often in a row the attempts of a job were lost, each soon after it began."""

    def __init__(self) -> None:
        self._counts: dict[JobId, int] = {}

    def wait_us(self, job_id: JobId, lived_us: int, jobs: Mapping[JobId, Job]) -> int:
        """Count a loss; return how long the job is to wait."""
        before = self._counts.get(job_id, 0) if lived_us < LONG_US else 0
        self._counts = {known: count for known, count in self._counts.items() if known in jobs}
        self._counts[job_id] = before + 1
        return backoff_us(before) if before else 0
