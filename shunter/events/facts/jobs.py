"""Facts about what users ask for, and how their jobs end."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from shunter.events.values.causes import ARRAY, BACKING_OFF, BY_POLICY, CHECKPOINT, STAYS
from shunter.events.values.fact import event
from shunter.events.values.fact_class import COMMANDED, DECIDED, DERIVED, FactClass, KindClass
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.events.values.reasons import Because, Reason


class Outcome(StrEnum):
    """How a job left the queue."""

    finished = "finished"
    failed = "failed"
    cancelled = "cancelled"
    rejected = "rejected"
    timeout = "timeout"


@event
class JobSubmitted:
    """A job was accepted into the queue.

    `duration_us` is the run time at base speed where a trace knows it; policies that do not
    declare themselves oracles never see it. `environment` are the names of variables it was given,
    each with a keyed digest of its value. `ended` are those of the jobs it depends on that had
    ended already, with how they did; logs of older versions leave it out.
    """

    at_us: int
    job_id: JobId
    spec: JobSpec
    duration_us: int | None = None
    dedupe_key: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    ended: tuple[tuple[JobId, Outcome], ...] = ()


@event
class JobRejected:
    """A submitted job can never run here, and leaves the queue."""

    at_us: int
    job_id: JobId
    reason: Reason
    needed: int = 0
    most: int = 0
    detail: str = ""


@event
class JobHeld:
    """A job may not start until it is released, at `until_us` where that is known."""

    at_us: int
    job_id: JobId
    by: str = ""
    until_us: int | None = None


@event
class JobReleased:
    """A held job may start again."""

    at_us: int
    job_id: JobId
    by: str = ""


@event
class JobResized:
    """A job wants another number of GPUs from its next attempt on.

    `by` is who wants that: its owner or an admin, or `:policy` where a plan did.
    """

    at_us: int
    job_id: JobId
    gpus: int
    by: str = ""


@event
class JobPriorityChanged:
    """A job's priority was changed; `group`: with all of its multi-job."""

    at_us: int
    job_id: JobId
    priority: int
    by: str = ""
    group: str = ""


@event
class JobGroupChanged:
    """A job joined another multi-job (or none)."""

    at_us: int
    job_id: JobId
    group: str
    by: str = ""


@event
class JobCancelRequested:
    """Somebody wants the job to end; it ends when its processes have.

    `group`: with all of its multi-job.
    """

    at_us: int
    job_id: JobId
    by: str = ""
    group: str = ""


@event
class TimeLimitReached:
    """A job has held its GPUs as long as it may, and is asked to end."""

    at_us: int
    job_id: JobId
    limit_us: int


@event
class JobRetried:
    """An attempt of a job failed by itself; the job waits for another one.

    How it ended is told before, by AttemptEnded. What still held GPUs for it is free.
    """

    at_us: int
    job_id: JobId
    attempt: int


@event
class JobFinished:
    """A job did all its work; what it still held is free.

    `ended_us` is when its processes ended, where the scheduler saw that later.
    """

    at_us: int
    job_id: JobId
    ended_us: int | None = None


@event
class JobFailed:
    """A job ended without doing its work; what it still held is free.

    `ended_us` is as in JobFinished.
    """

    at_us: int
    job_id: JobId
    cause: str
    exit_code: int | None = None
    ended_us: int | None = None


@event
class JobCancelled:
    """Somebody or a failed dependency ended a job; all it held is free.

    `ended_us` is as in JobFinished.
    """

    at_us: int
    job_id: JobId
    cause: str = ""
    ended_us: int | None = None


JOB_ENDS = (JobFinished, JobFailed, JobCancelled, JobRejected)
"""The kinds after which a job is gone."""


def end_us_of(event: JobFinished | JobFailed | JobCancelled | JobRejected) -> int:
    """Return when the processes of a job were gone, though it was seen later."""
    ended_us = None if isinstance(event, JobRejected) else event.ended_us
    return event.at_us if ended_us is None else ended_us


def outcome_of(event: JobFinished | JobFailed | JobCancelled | JobRejected) -> Outcome:
    """Return how a job ended."""
    if isinstance(event, JobFinished):
        return Outcome.finished
    if isinstance(event, JobFailed):
        return Outcome.timeout if event.cause == Outcome.timeout else Outcome.failed
    return Outcome.cancelled if isinstance(event, JobCancelled) else Outcome.rejected


JobEvent: TypeAlias = (
    JobSubmitted
    | JobRejected
    | JobHeld
    | JobReleased
    | JobResized
    | JobRetried
    | JobPriorityChanged
    | JobGroupChanged
    | JobCancelRequested
    | TimeLimitReached
    | JobFinished
    | JobFailed
    | JobCancelled
)

_HOLDERS: dict[str | Because, FactClass] = dict.fromkeys(
    (BACKING_OFF, ARRAY, CHECKPOINT, STAYS), DERIVED
)

CLASSES: Mapping[type, KindClass] = {
    JobSubmitted: KindClass(COMMANDED),
    JobRejected: KindClass(DERIVED),
    JobHeld: KindClass(COMMANDED, "by", _HOLDERS),
    JobReleased: KindClass(COMMANDED, "by", _HOLDERS),
    JobResized: KindClass(COMMANDED, "by", {BY_POLICY: DECIDED}),
    JobRetried: KindClass(DERIVED),
    JobPriorityChanged: KindClass(COMMANDED),
    JobGroupChanged: KindClass(COMMANDED),
    JobCancelRequested: KindClass(COMMANDED),
    TimeLimitReached: KindClass(DERIVED),
    JobFinished: KindClass(DERIVED),
    JobFailed: KindClass(DERIVED),
    JobCancelled: KindClass(DERIVED),
}
"""Where facts of jobs come from."""
