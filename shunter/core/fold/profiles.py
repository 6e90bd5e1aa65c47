"""Rules for the facts about speed and use."""

from shunter.core.fold.tenure import attempt_of
from shunter.core.state import State
from shunter.errors import IllegalEventError
from shunter.events.facts.profiles import ProfileMeasured, ProfileSampled


def profile_sampled(state: State, event: ProfileSampled) -> None:
    """Remember the largest messages of each model; the rest is only a note."""
    job = attempt_of(state, event.job_id, event.attempt, "ProfileSampled")
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


def profile_measured(state: State, event: ProfileMeasured) -> None:
    """Refuse a kind that later versions emit."""
    raise IllegalEventError(f"ProfileMeasured of {event.model}: not emitted by this version")
