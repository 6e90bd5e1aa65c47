"""Rules for the facts about speed and use."""

from shunter.core.fold.tenure import attempt_of
from shunter.core.state import State
from shunter.errors import IllegalEventError
from shunter.events.facts.profiles import ProfileMeasured, ProfileSampled


def profile_sampled(state: State, event: ProfileSampled) -> None:
    """Remember the largest messages of each model; the rest is only a note.

    A sample may have seen part of a mini-batch only. So of the largest message, and of all of a
    mini-batch, the most that was ever seen counts, in whatever order samples came.
    """
    job = attempt_of(state, event.job_id, event.attempt, "ProfileSampled")
    largest, total, model = event.message_bytes_largest, event.message_bytes_total, job.spec.model
    if model and largest and total and largest <= total:
        before = state.messages.get(model, (0, 0))
        state.messages[model] = (max(before[0], largest), max(before[1], total))


def profile_measured(state: State, event: ProfileMeasured) -> None:
    """Refuse a kind that later versions emit."""
    raise IllegalEventError(f"ProfileMeasured of {event.model}: not emitted by this version")
