"""Profiles that are due, on their way to the round loop."""

from collections.abc import Collection
from dataclasses import replace

from shunter.backends.inbox import Inbox, Stamped
from shunter.backends.profiles import Downsampler
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId

__all__ = ["forward_profiles"]


def forward_profiles(
    downsampler: Downsampler, inbox: Inbox, running: Collection[tuple[JobId, int]]
) -> None:
    """Put the profiles that are due into the inbox, of attempts that still run."""
    for profile in downsampler.due(inbox.now_us()):
        if (profile.job_id, profile.attempt) in running:
            inbox.put(_stamped(profile))


def _stamped(profile: ProfileSampled) -> Stamped:
    return lambda at_us: replace(profile, at_us=at_us)
