"""Jobs whose attempts leave though nobody asked them to: the wait grows, and ends by a bound.

An attempt leaves with exit code 75. Whether it made progress is known by the steps of the
checkpoints its job tells: the last one is higher than where the attempt before left. An attempt of
a job that tells none made progress if it lived for long. Without progress a job waits longer each
time, and fails in the end. How often that was in a row is counted from the term's start on.
"""

from collections.abc import Sequence
from typing import Final

from shunter.core.backoff import BACKING_OFF, LONG_US, backoff_us
from shunter.core.planning.planner import RoundRules
from shunter.core.state import Job, State
from shunter.events.facts import CheckpointSaved, JobFailed, JobHeld, JobSuspended
from shunter.events.values import JobId

DEPARTURES_MOST: Final = 8
"""With so many departures in a row without progress a job fails that has no retries.

With retries it fails once it has had as many further attempts.
"""


class Departures:
    """What the attempts of jobs that left unasked have come to."""

    __slots__ = ("_counts", "_failing", "_left", "_rules", "_saved", "_state")

    def __init__(self, state: State, rules: RoundRules) -> None:
        self._state, self._rules = state, rules
        self._counts: dict[JobId, int] = {}
        self._saved: dict[JobId, int] = {}
        self._left: dict[JobId, int] = {}
        self._failing: dict[JobId, str] = {}

    def saved(self, fact: CheckpointSaved, before: object) -> Sequence[JobHeld]:
        """Note the step of a checkpoint; nothing follows."""
        if fact.step is not None:
            self._saved[fact.job_id] = fact.step
        return ()

    def left(self, fact: JobSuspended, began_us: int | None) -> Sequence[JobHeld]:
        """Let a job wait whose attempt left, or fail once its GPUs are released.

        An attempt that somebody else ended, such as Slurm, says so as its cause, and is not
        counted.
        """
        job, at_us = self._state.jobs[fact.job_id], fact.at_us
        count = 0
        if self._rules.bounds_departures and not fact.cause:
            count = self._count(job, 0 if began_us is None else at_us - began_us)
        if count >= (job.spec.retries + 1 if job.spec.retries else DEPARTURES_MOST):
            times = "once" if count == 1 else f"{count} times in a row"
            self._failing[job.job_id] = f"left {times} by itself (exit code 75) without progress"
            return ()
        until_us = at_us + backoff_us(count) if count > 1 else None
        return () if job.is_on_hold else (JobHeld(at_us, job.job_id, BACKING_OFF, until_us),)

    def released(self, job: Job, at_us: int) -> Sequence[JobFailed]:
        """Fail a job that has left too often, now that its GPUs are released."""
        cause = self._failing.pop(job.job_id, "")
        return (JobFailed(at_us, job.job_id, cause),) if cause else ()

    def _count(self, job: Job, lived_us: int) -> int:
        """Count a departure; return how many in a row there were without progress."""
        for known in (self._counts, self._saved, self._left):
            for gone in [job_id for job_id in known if job_id not in self._state.jobs]:
                del known[gone]
        job_id, step = job.job_id, self._saved.get(job.job_id)
        progresses = lived_us >= LONG_US if step is None else step > self._left.get(job_id, -1)
        if step is not None:
            self._left[job_id] = step
        self._counts[job_id] = 0 if progresses else self._counts.get(job_id, 0) + 1
        return self._counts[job_id]
