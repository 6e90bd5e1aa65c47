"""Promises to single jobs that hold under every policy.

A guarded job is pinned: it keeps its GPUs and is seated before all others. A job that has starved
goes to the head of the line. Index policies get both as the first part of their rank; a plan of
any policy that would suspend or move a pinned job is refused by the approver.
"""

from enum import IntEnum

from shunter.core.state import Job
from shunter.events.values.fact import fact
from shunter.events.values.job_spec import SuspendMode
from shunter.events.values.reasons import Reason

HOUR_US = 3_600_000_000
_NEVER = SuspendMode.never  # members are slow to look up


class Band(IntEnum):
    """The first part of every rank."""

    pinned = 0
    starved = 1
    normal = 2


@fact
class Guards:
    """The promises: all off by default; durations in microseconds.

    `min_runtime_us`: what an attempt may run before it is preempted. `preemptions_per_hour`: how
    often one job is preempted in any hour at most. `starvation_us`: how long a job waits at a
    stretch before it goes to the head of the line.
    """

    min_runtime_us: int = 0
    preemptions_per_hour: int | None = None
    starvation_us: int | None = None

    @property
    def are_off(self) -> bool:
        """Whether no guard is configured; jobs that must never be suspended stay pinned."""
        return (
            not self.min_runtime_us
            and self.preemptions_per_hour is None
            and (self.starvation_us is None)
        )

    def pinned_by(self, job: Job, now_us: int) -> Reason | None:
        """Return the guard that keeps a job where it is, if one does."""
        if not job.allocation.shares:
            return None
        if job.spec.suspend_mode is _NEVER:
            return Reason.guard_preemption_limit
        if job.since_us is not None and now_us < job.since_us + self.min_runtime_us:
            return Reason.guard_min_runtime
        until_us = self._limit_until(job)
        if until_us is not None and now_us < until_us:
            return Reason.guard_preemption_limit
        return None

    def band(self, job: Job, now_us: int) -> Band:
        """Return the first part of a job's rank; a starved job keeps it until it runs."""
        if job.allocation.shares and self.pinned_by(job, now_us):
            return Band.pinned
        starves_us = self._starves_at(job)
        return Band.starved if starves_us is not None and now_us >= starves_us else Band.normal

    def changes_at(self, job: Job, now_us: int) -> int | None:
        """Return when the band of a job changes next if nothing happens to it."""
        if job.allocation.shares:
            if job.spec.suspend_mode is SuspendMode.never:
                return None
            ends = [self._limit_until(job)]
            if job.since_us is not None:
                ends.append(job.since_us + self.min_runtime_us)
            pinned_us = max((end for end in ends if end is not None), default=now_us)
            if pinned_us > now_us:
                return pinned_us
        starves_us = self._starves_at(job)
        return starves_us if starves_us is not None and starves_us > now_us else None

    def _limit_until(self, job: Job) -> int | None:
        limit = self.preemptions_per_hour
        if limit is None or len(job.preempted_at_us) < limit:
            return None
        return job.preempted_at_us[-limit] + HOUR_US

    def _starves_at(self, job: Job) -> int | None:
        if self.starvation_us is None or job.waiting_since_us is None:
            return None
        return job.waiting_since_us + self.starvation_us


NO_GUARDS = Guards()
