"""Rules for the facts about speed and use."""

from shunter.core.fold.attempt_transitions import attempt_of, job_of
from shunter.core.performance.correction import MeasuredCell, with_cell
from shunter.core.state import Job, MeasuredRate, Rule, State
from shunter.events.facts.profiles import (
    ProfileMeasured,
    ProfileSampled,
    SensitivityCorrected,
)
from shunter.events.kinds import Event


def profile_sampled(state: State, event: ProfileSampled) -> None:
    """Remember a job's rate and its model's largest messages; the rest is a note."""
    job = attempt_of(state, event.job_id, event.attempt, "ProfileSampled")
    _note_pace(job, event)
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


def _note_pace(job: Job, sample: ProfileSampled) -> None:
    """Note how far a job is and how fast, as far as samples have told both."""
    step, batch_us, before = sample.step, None, job.measured_rate
    if sample.batch_s is not None:
        batch_us = round(sample.batch_s * 1e6)
    if before is not None:
        step = before.step if step is None else step
        batch_us = before.batch_us if batch_us is None else batch_us
    if step is not None and batch_us is not None:
        job.measured_rate = MeasuredRate(step, batch_us, sample.at_us)


def profile_measured(state: State, event: ProfileMeasured) -> None:
    """Only a note: it says how fast jobs will be, not what is true of one."""


def sensitivity_corrected(state: State, event: SensitivityCorrected) -> None:
    """Note how fast a model really is with some CPUs and memory."""
    job_of(state, event.job_id, "SensitivityCorrected")
    cell = MeasuredCell(event.gpus, event.cpus_milli, event.memory_mb, event.measured)
    state.corrections[event.model] = with_cell(state.corrections.get(event.model, ()), cell)


RULES: dict[type[Event], Rule] = {
    ProfileSampled: profile_sampled,
    ProfileMeasured: profile_measured,
    SensitivityCorrected: sensitivity_corrected,
}
