"""Rules for the facts about speed and use."""

from shunter.core.fold.attempt_transitions import attempt_of, job_of
from shunter.core.fold.checkpoints import settle_demand
from shunter.core.performance.correction import MeasuredCell, with_cell
from shunter.core.performance.learnt_tolerance import has_learnt_floor, with_placement
from shunter.core.performance.trials import BestBatch, MeasuredRate
from shunter.core.state import Job, Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts import (
    Event,
    ProfileMeasured,
    ProfileSampled,
    SensitivityCorrected,
    ToleranceLearnt,
)


def profile_sampled(state: State, event: ProfileSampled) -> None:
    """Remember a job's rate and its model's largest messages; the rest is a note."""
    job = attempt_of(state, event.job_id, event.attempt, "ProfileSampled")
    _note_pace(state, job, event)
    note_messages(state.messages, job.spec.model, event)


def note_messages(messages: dict[str, tuple[int, int]], model: str, sample: ProfileSampled) -> None:
    """Note what a sample saw of a model's messages, if it saw any.

    It may have seen part of a mini-batch only. So of the largest message, and of all those of a
    mini-batch, the most that was ever seen counts, in whatever order samples came.
    """
    largest, total = sample.message_bytes_largest, sample.message_bytes_total
    if model and largest and total and largest <= total:
        before = messages.get(model, (0, 0))
        messages[model] = (max(before[0], largest), max(before[1], total))


def _note_pace(state: State, job: Job, sample: ProfileSampled) -> None:
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


def profile_measured(state: State, event: ProfileMeasured) -> None:
    """Only a note: it says how fast jobs will be, not what is true of one."""


def sensitivity_corrected(state: State, event: SensitivityCorrected) -> None:
    """Note how fast a model really is with some CPUs and memory."""
    job_of(state, event.job_id, "SensitivityCorrected")
    cell = MeasuredCell(event.gpus, event.cpus_milli, event.memory_mb, event.measured)
    state.corrections[event.model] = with_cell(state.corrections.get(event.model, ()), cell)


def tolerance_learnt(state: State, event: ToleranceLearnt) -> None:
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


RULES: dict[type[Event], Rule] = {
    ProfileSampled: profile_sampled,
    ProfileMeasured: profile_measured,
    SensitivityCorrected: sensitivity_corrected,
    ToleranceLearnt: tolerance_learnt,
}
