"""Arrays of which only so many tasks may run at once: the others are held until it is their turn.

A task has its turn when fewer than the bound are under way, the first submitted first: whichever
task ends, the next one follows, however long the others take. To the policies a task without a
turn is a job on hold, which the scheduler puts there and takes from there itself. Under way is
what holds GPUs, and what waits for them and is held by nobody; so a task that somebody suspended
lets another one pass, and gets a turn anew once it is resumed.
"""

from collections.abc import Mapping

from shunter.core.state import Job
from shunter.events.facts import JOB_ENDS, AttemptLost, GpusReleased, JobHeld, LaunchFailed
from shunter.events.values import (
    ARRAY,
    BACKING_OFF,
    CHECKPOINT,
    STAYS,
    JobId,
    JobSpec,
    Reason,
    Wait,
)

__all__ = ["ARRAY", "TURNING", "Arrays", "has_no_turn", "turn_of", "under_way"]

Jobs = Mapping[JobId, Job]

TURNING = frozenset((*JOB_ENDS, JobHeld, GpusReleased, AttemptLost, LaunchFailed))
"""The kinds after which fewer tasks of an array may be under way."""


def has_no_turn(job: Job) -> bool:
    """Say whether a task waits for others of its array to end."""
    return job.is_on_hold and job.held_by == ARRAY


def under_way(jobs: Mapping[JobId, Job], spec: JobSpec) -> tuple[JobId, ...]:
    """Return the tasks of an array that have their turn."""
    tasks = [job for job in jobs.values() if job.spec.array == spec.array]
    return tuple(job.job_id for job in tasks if _is_under_way(job))


def turn_of(spec: JobSpec) -> Wait:
    """Return why a task without a turn waits: for others, of which so many may run."""
    return Wait(Reason.array_limit, detail=f"{ARRAY}:{spec.at_once}")


class Arrays:
    """The tasks of arrays with a bound, in the order in which they came."""

    def __init__(self) -> None:
        self._tasks: dict[JobId, dict[JobId, None]] = {}

    def add(self, job: Job) -> None:
        """Note a task of an array with a bound; any other job is none of ours."""
        if job.spec.at_once is not None and job.spec.array:
            self._tasks.setdefault(job.spec.array, {})[job.job_id] = None

    def is_full(self, task: Job, jobs: Jobs) -> bool:
        """Say whether as many others of a task's array are under way as may be."""
        bound, others = task.spec.at_once, self._tasks.get(task.spec.array, {})
        if bound is None or task.job_id not in others:
            return False
        count = 0
        for job_id in others:
            job = jobs.get(job_id)
            if job is not None and job is not task and _is_under_way(job):
                count += 1
                if count >= bound:
                    return True
        return False

    @property
    def is_set(self) -> bool:
        """Whether there is any such task."""
        return bool(self._tasks)

    def due(self, jobs: Jobs) -> list[JobId]:
        """Return the tasks whose turn it is now, of all jobs that have not ended."""
        found: list[JobId] = []
        for array in list(self._tasks):
            found += self._turns(array, jobs)
        return found

    def _turns(self, array: JobId, jobs: Jobs) -> list[JobId]:
        tasks = self._tasks[array]
        for job_id in [job_id for job_id in tasks if job_id not in jobs]:
            del tasks[job_id]
        if not tasks:
            del self._tasks[array]
            return []
        bound = next(iter(jobs[job_id].spec.at_once for job_id in tasks)) or 0
        free = bound - sum(_is_under_way(jobs[job_id]) for job_id in tasks)
        waiting = [job_id for job_id in tasks if has_no_turn(jobs[job_id])] if free > 0 else []
        return waiting[: max(0, free)]


def _is_under_way(job: Job) -> bool:
    is_held = job.is_on_hold and job.held_by not in (BACKING_OFF, CHECKPOINT, STAYS)
    return not is_held or job.since_us is not None or bool(job.allocation.shares)
