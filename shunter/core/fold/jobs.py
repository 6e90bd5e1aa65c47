"""Rules for the facts about submissions, their ends, and what jobs measure of themselves."""

from shunter.core.fold.attempts import (
    attempt_of,
    backoff_us,
    depart,
    enter,
    fall_back,
    is_met,
    job_of,
    settle_demand,
    was_not_preempted,
)
from shunter.core.speeds import (
    BestBatch,
    MeasuredCell,
    MeasuredRate,
    has_learnt_floor,
    with_cell,
    with_placement,
)
from shunter.core.state import ENDING, SUSPENDING, WAITING, FoldResult, Job, Rule, State
from shunter.errors import IllegalEventError
from shunter.events import (
    ARRAY,
    BACKING_OFF,
    CHECKPOINT,
    STAYS,
    TIMEOUT,
    Event,
    JobId,
    facts,
    outcome_of,
)

_FINISHED = facts.Outcome.finished  # members are slow to look up


def job_submitted(state: State, event: facts.JobSubmitted) -> None:
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


def job_rejected(state: State, event: facts.JobRejected) -> FoldResult:
    """End a job that can never run."""
    return depart(
        state, job_of(state, event.job_id, "JobRejected"), event.at_us, facts.Outcome.rejected
    )


def job_held(state: State, event: facts.JobHeld) -> None:
    """Keep a job from starting."""
    job = job_of(state, event.job_id, "JobHeld")
    job.is_on_hold = True
    job.held_by = event.by
    backs_off = event.by == BACKING_OFF and event.until_us is None
    waits_us = backoff_us(job.launches_failed) if backs_off else None
    job.back_at_us = event.until_us if waits_us is None else event.at_us + waits_us


_OF_ITSELF = (ARRAY, BACKING_OFF, CHECKPOINT, STAYS)


def job_released(state: State, event: facts.JobReleased) -> None:
    """Let a held job start; one that somebody else releases, wherever it fits."""
    job = job_of(state, event.job_id, "JobReleased")
    if not job.is_on_hold:
        raise IllegalEventError(f"job {event.job_id} was released but not held")
    if event.by not in _OF_ITSELF:
        job.stays_on = None
    job.is_on_hold = False
    job.held_by = ""
    job.back_at_us = None


def job_resized(state: State, event: facts.JobResized) -> None:
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


def job_priority_changed(state: State, event: facts.JobPriorityChanged) -> None:
    """Give a job another priority."""
    job_of(state, event.job_id, "JobPriorityChanged").priority = event.priority


def job_group_changed(state: State, event: facts.JobGroupChanged) -> None:
    """No part of this version moves jobs between groups."""
    raise IllegalEventError(f"JobGroupChanged of job {event.job_id}: not emitted by this version")


def job_cancel_requested(state: State, event: facts.JobCancelRequested) -> None:
    """Note that a job shall end."""
    _end(job_of(state, event.job_id, "JobCancelRequested"), "cancelled")


def time_limit_reached(state: State, event: facts.TimeLimitReached) -> None:
    """Note that a job has used up its time."""
    _end(job_of(state, event.job_id, "TimeLimitReached"), TIMEOUT)


def job_retried(state: State, event: facts.JobRetried) -> FoldResult:
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


def job_finished(state: State, event: facts.JobFinished) -> FoldResult:
    """End a job that did its work."""
    job = state.jobs.get(event.job_id) or job_of(state, event.job_id, "JobFinished")
    return depart(state, job, event.at_us, _FINISHED)


def job_failed(state: State, event: facts.JobFailed) -> FoldResult:
    """End a job that did not."""
    return depart(state, job_of(state, event.job_id, "JobFailed"), event.at_us, outcome_of(event))


def job_cancelled(state: State, event: facts.JobCancelled) -> FoldResult:
    """End a job because somebody wanted it."""
    return depart(
        state, job_of(state, event.job_id, "JobCancelled"), event.at_us, facts.Outcome.cancelled
    )


def _end(job: Job, cause: str) -> None:
    job.end_cause = job.end_cause or cause
    if job.since_us is not None:
        if job.phase is SUSPENDING:
            was_not_preempted(job)
        enter(job, ENDING)


def _wait_for_others(
    state: State, job: Job, ended: tuple[tuple[JobId, facts.Outcome], ...]
) -> None:
    """Count the dependencies that are not met; those never to be met count for ever."""
    outcomes = dict(ended)
    for dependency in job.spec.depends_on:
        outcome = outcomes.get(dependency.job_id)
        if outcome is None:
            job.blocked_by += 1
            state.dependants.setdefault(dependency.job_id, []).append(job.job_id)
        elif not is_met(job, dependency.job_id, outcome):
            job.blocked_by += 1


# Speed and use.


def profile_sampled(state: State, event: facts.ProfileSampled) -> None:
    """Remember a job's rate and its model's largest messages; the rest is a note."""
    job = attempt_of(state, event)
    _note_pace(state, job, event)
    note_messages(state.messages, job.spec.model, event)


def note_messages(
    messages: dict[str, tuple[int, int]], model: str, sample: facts.ProfileSampled
) -> None:
    """Note what a sample saw of a model's messages, if it saw any.

    It may have seen part of a mini-batch only. So of the largest message, and of all those of a
    mini-batch, the most that was ever seen counts, in whatever order samples came.
    """
    largest, total = sample.message_bytes_largest, sample.message_bytes_total
    if model and largest and total and largest <= total:
        before = messages.get(model, (0, 0))
        messages[model] = (max(before[0], largest), max(before[1], total))


def _note_pace(state: State, job: Job, sample: facts.ProfileSampled) -> None:
    """Note how far a job is and how fast, as far as samples have told both."""
    step, batch_us, before = sample.step, None, job.measured_rate
    if sample.batch_s is not None:
        batch_us = round(sample.batch_s * 1e6)
        pace = job.pace
        if job.speed != pace.speed:
            pace = pace.at_speed(job.speed, job.service_us(sample.at_us))
        job.pace = pace.sampled(batch_us, sample)
        _note_best(state, job)
    if before is not None:
        step = before.step if step is None else step
        batch_us = before.batch_us if batch_us is None else batch_us
    if step is not None and batch_us is not None:
        job.measured_rate = MeasuredRate(step, batch_us, sample.at_us)


def _note_best(state: State, job: Job) -> None:
    """Note the fastest mini-batch of a job that has its GPUs to itself on its turn."""
    mean_us, shares = job.pace.batch_us_at(job.speed), job.held.shares
    if mean_us is None or job.packed_with or not shares:
        return
    gpu_type = state.cluster.servers[shares[0].node].configuration.gpu_type
    best, gpus = job.best_batch, job.held.gpus
    is_alike = best is not None and (best.gpu_type, best.gpus) == (gpu_type, gpus)
    if best is None or not is_alike or mean_us < best.batch_us:
        job.best_batch = BestBatch(gpu_type, gpus, mean_us)


def profile_measured(state: State, event: facts.ProfileMeasured) -> None:
    """Only a note: it says how fast jobs will be, not what is true of one."""


def sensitivity_corrected(state: State, event: facts.SensitivityCorrected) -> None:
    """Note how fast a model really is with some CPUs and memory."""
    job_of(state, event.job_id, "SensitivityCorrected")
    cell = MeasuredCell(event.gpus, event.cpus_milli, event.memory_mb, event.measured)
    state.corrections[event.model] = with_cell(state.corrections.get(event.model, ()), cell)


def tolerance_learnt(state: State, event: facts.ToleranceLearnt) -> None:
    """Note how fast gangs of a model are in a placement; bound their floors anew."""
    job_of(state, event.job_id, "ToleranceLearnt")
    if not event.model or event.batch_us < 1 or event.samples < 1 or sum(event.split) < 2:
        raise IllegalEventError(
            f"ToleranceLearnt of job {event.job_id}: expected a model, a gang, and mini-batches "
            "that took some time"
        )
    state.learnt[event.model] = with_placement(state.learnt.get(event.model, ()), event)
    for job in state.jobs.values():
        if job.spec.model == event.model and has_learnt_floor(job.spec):
            settle_demand(state, job)


JOB_RULES: dict[type[Event], Rule] = {
    facts.JobSubmitted: job_submitted,
    facts.JobRejected: job_rejected,
    facts.JobHeld: job_held,
    facts.JobReleased: job_released,
    facts.JobResized: job_resized,
    facts.JobRetried: job_retried,
    facts.JobPriorityChanged: job_priority_changed,
    facts.JobGroupChanged: job_group_changed,
    facts.JobCancelRequested: job_cancel_requested,
    facts.TimeLimitReached: time_limit_reached,
    facts.JobFinished: job_finished,
    facts.JobFailed: job_failed,
    facts.JobCancelled: job_cancelled,
    facts.ProfileSampled: profile_sampled,
    facts.ProfileMeasured: profile_measured,
    facts.SensitivityCorrected: sensitivity_corrected,
    facts.ToleranceLearnt: tolerance_learnt,
}
