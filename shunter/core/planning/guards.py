"""Promises to single jobs that hold under every policy.

A guarded job is pinned: it keeps its GPUs and is seated before all others. So is, whatever is
configured, one that was given GPUs and has not been launched on them yet. A job that has starved
goes to the head of the line. Index policies get both as the first part of their rank; a plan of
any policy that would suspend or move a pinned job is refused by the approver.
"""

from enum import IntEnum

from shunter.core.state import ENDING, RUNNING, Job
from shunter.events.records import fact
from shunter.events.values import Reason, SuspendMode

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

    `min_runtime_us`: what an attempt may run before it is preempted, from its first mini-batch on
    where that is told. `preemptions_per_hour`: how
    often one job is preempted in any hour at most. `starvation_us`: how long a job waits at a
    stretch before it goes to the head of the line. `launches_first`: launches take time, so a job
    keeps what it was given until it was launched there, and runs from its first mini-batch on.
    `only_lower`: a job is told to wait for the guards of those alone that would rank behind it.
    """

    min_runtime_us: int = 0
    preemptions_per_hour: int | None = None
    starvation_us: int | None = None
    launches_first: bool = False
    only_lower: bool = False

    @property
    def are_off(self) -> bool:
        """Whether no guard is configured; jobs that must never be suspended stay pinned."""
        return (
            not self.min_runtime_us
            and self.preemptions_per_hour is None
            and (self.starvation_us is None)
        )

    def pinned_by(self, job: Job, now_us: int) -> Reason | None:
        """Return what keeps a job where it is, if anything: a guard, or a launch to come."""
        guard = self.guarded_by(job, now_us)
        return Reason.guard_min_runtime if guard is None and self.is_promised(job) else guard

    def is_promised(self, job: Job) -> bool:
        """Say whether a job was given GPUs on which it has not been launched yet."""
        return (
            self.launches_first
            and job.phase is not RUNNING
            and job.phase is not ENDING
            and bool(job.allocation.shares)
        )

    def runs_from_us(self, job: Job) -> int:
        """Return the instant from which it counts what an attempt has run."""
        if self.launches_first and job.counts_from_us is not None:
            return job.counts_from_us
        return job.attempt_began_us or 0

    def guarded_by(self, job: Job, now_us: int) -> Reason | None:
        """Return the guard that keeps a job where it is, if one does."""
        if not job.allocation.shares:
            return None
        if job.spec.suspend_mode is _NEVER:
            return Reason.guard_preemption_limit
        if self._min_runtime_until(job) > now_us:
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
            if self.is_promised(job):
                return None  # its launch ends this
            ends = [self._limit_until(job)]
            ends.append(self._min_runtime_until(job))
            pinned_us = max((end for end in ends if end is not None), default=now_us)
            if pinned_us > now_us:
                return pinned_us
        starves_us = self._starves_at(job)
        return starves_us if starves_us is not None and starves_us > now_us else None

    def _min_runtime_until(self, job: Job) -> int:
        """Return until when a job has run for too short a time; 0: no more.

        What an attempt runs counts from its first mini-batch on, which may be to come; where the
        guard is off that keeps nobody.
        """
        if not self.min_runtime_us or job.since_us is None:
            return 0
        return self.runs_from_us(job) + self.min_runtime_us

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
