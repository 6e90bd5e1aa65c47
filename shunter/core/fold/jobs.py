"""Rules for the facts about submissions and their ends."""

from shunter.core.backoff import backoff_us
from shunter.core.fold.attempt_transitions import (
    depart,
    fall_back,
    is_met,
    job_of,
    was_not_preempted,
)
from shunter.core.fold.checkpoints import settle_demand
from shunter.core.state import ENDING, SUSPENDING, WAITING, FoldResult, Job, Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts import (
    Event,
    JobCancelled,
    JobCancelRequested,
    JobFailed,
    JobFinished,
    JobGroupChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReleased,
    JobResized,
    JobRetried,
    JobSubmitted,
    Outcome,
    TimeLimitReached,
    outcome_of,
)
from shunter.events.values import ARRAY, BACKING_OFF, CHECKPOINT, STAYS, TIMEOUT, JobId

_FINISHED = Outcome.finished  # members are slow to look up


def job_submitted(state: State, event: JobSubmitted) -> None:
    """Put a new job at the end of the line."""
    job_id, spec = event.job_id, event.spec
    if job_id in state.jobs:
        raise IllegalEventError(f"job {job_id} was submitted twice")
    job = Job(job_id, state.submitted, spec, state.demand_of(spec), event.at_us)
    state.queue_of(job)
    job.waiting_since_us = event.at_us
    job.priority = spec.priority
    state.submitted += 1
    state.jobs[job_id] = job
    if event.duration_us is not None:
        state.durations_us[job_id] = event.duration_us
    if spec.depends_on:
        _wait_for_others(state, job, event.ended)


def job_rejected(state: State, event: JobRejected) -> FoldResult:
    """End a job that can never run."""
    return depart(state, job_of(state, event.job_id, "JobRejected"), event.at_us, Outcome.rejected)


def job_held(state: State, event: JobHeld) -> None:
    """Keep a job from starting."""
    job = job_of(state, event.job_id, "JobHeld")
    job.is_on_hold = True
    job.held_by = event.by
    backs_off = event.by == BACKING_OFF and event.until_us is None
    waits_us = backoff_us(job.launches_failed) if backs_off else None
    job.back_at_us = event.until_us if waits_us is None else event.at_us + waits_us


_OF_ITSELF = (ARRAY, BACKING_OFF, CHECKPOINT, STAYS)


def job_released(state: State, event: JobReleased) -> None:
    """Let a held job start; one that somebody else releases, wherever it fits."""
    job = job_of(state, event.job_id, "JobReleased")
    if not job.is_on_hold:
        raise IllegalEventError(f"job {event.job_id} was released but not held")
    if event.by not in _OF_ITSELF:
        job.stays_on = None
    job.is_on_hold = False
    job.held_by = ""
    job.back_at_us = None


def job_resized(state: State, event: JobResized) -> None:
    """Let a job ask for another number of GPUs, from its next attempt on."""
    job = job_of(state, event.job_id, "JobResized")
    if event.gpus < 1 or not job.spec.gpus:
        raise IllegalEventError(
            f"JobResized of job {event.job_id} from {job.spec.gpus} to {event.gpus} GPUs"
        )
    # From what was submitted, so that no rounding adds up from size to size.
    first = job.submitted_spec
    is_as_submitted = event.gpus == first.gpus
    job.spec = first if is_as_submitted else first.resized(event.gpus)
    job.first_spec = None if is_as_submitted else first
    settle_demand(state, job)


def job_priority_changed(state: State, event: JobPriorityChanged) -> None:
    """Give a job another priority."""
    job_of(state, event.job_id, "JobPriorityChanged").priority = event.priority


def job_group_changed(state: State, event: JobGroupChanged) -> None:
    """No part of this version moves jobs between groups."""
    raise IllegalEventError(f"JobGroupChanged of job {event.job_id}: not emitted by this version")


def job_cancel_requested(state: State, event: JobCancelRequested) -> None:
    """Note that a job shall end."""
    _end(job_of(state, event.job_id, "JobCancelRequested"), "cancelled")


def time_limit_reached(state: State, event: TimeLimitReached) -> None:
    """Note that a job has used up its time."""
    _end(job_of(state, event.job_id, "TimeLimitReached"), TIMEOUT)


def job_retried(state: State, event: JobRetried) -> FoldResult:
    """Put a job back whose attempt failed by itself."""
    job = job_of(state, event.job_id, "JobRetried")
    ended = job.phase is ENDING or job.phase is WAITING  # the latter: its server was lost as well
    if job.attempt != event.attempt or not ended or job.end_cause:
        raise IllegalEventError(
            f"JobRetried of attempt {event.attempt} of job {event.job_id}, which is at attempt "
            f"{job.attempt} and {job.phase}"
        )
    job.exit_code = None
    return fall_back(state, job, event.at_us)


def job_finished(state: State, event: JobFinished) -> FoldResult:
    """End a job that did its work."""
    job = state.jobs.get(event.job_id) or job_of(state, event.job_id, "JobFinished")
    return depart(state, job, event.at_us, _FINISHED)


def job_failed(state: State, event: JobFailed) -> FoldResult:
    """End a job that did not."""
    return depart(state, job_of(state, event.job_id, "JobFailed"), event.at_us, outcome_of(event))


def job_cancelled(state: State, event: JobCancelled) -> FoldResult:
    """End a job because somebody wanted it."""
    return depart(
        state, job_of(state, event.job_id, "JobCancelled"), event.at_us, Outcome.cancelled
    )


def _end(job: Job, cause: str) -> None:
    job.end_cause = job.end_cause or cause
    if job.since_us is not None:
        if job.phase is SUSPENDING:
            was_not_preempted(job)
        job.phase = ENDING


def _wait_for_others(state: State, job: Job, ended: tuple[tuple[JobId, Outcome], ...]) -> None:
    """Count the dependencies that are not met; those never to be met count for ever."""
    outcomes = dict(ended)
    for dependency in job.spec.depends_on:
        outcome = outcomes.get(dependency.job_id)
        if outcome is None:
            job.blocked_by += 1
            state.dependants.setdefault(dependency.job_id, []).append(job.job_id)
        elif not is_met(job, dependency.job_id, outcome):
            job.blocked_by += 1


RULES: dict[type[Event], Rule] = {
    JobSubmitted: job_submitted,
    JobRejected: job_rejected,
    JobHeld: job_held,
    JobReleased: job_released,
    JobResized: job_resized,
    JobRetried: job_retried,
    JobPriorityChanged: job_priority_changed,
    JobGroupChanged: job_group_changed,
    JobCancelRequested: job_cancel_requested,
    TimeLimitReached: time_limit_reached,
    JobFinished: job_finished,
    JobFailed: job_failed,
    JobCancelled: job_cancelled,
}
