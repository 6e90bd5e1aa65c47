"""Rules for the facts about speed and use."""

from shunter.core.fold.tenure import attempt_of
from shunter.core.state import State
from shunter.errors import IllegalEventError
from shunter.events.facts.profiles import ProfileMeasured, ProfileSampled


def profile_sampled(state: State, event: ProfileSampled) -> None:
    """Only a note for now: policies that learn from samples observe them in the log."""
    attempt_of(state, event.job_id, event.attempt, "ProfileSampled")


def profile_measured(state: State, event: ProfileMeasured) -> None:
    """Refuse a kind that later versions emit."""
    raise IllegalEventError(f"ProfileMeasured of {event.model}: not emitted by this version")
