"""Which of a job's own events gave it GPUs, and when its attempts began."""

from collections.abc import Sequence

from shunter.ask.replaying.why.job_events import Own
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.kinds import Event


def launches_of(own: Sequence[Own]) -> list[tuple[int, int]] | None:
    """Return when attempts began: (number, instant); None: events do not say.

    Where outcomes take no time, the decision is the launch. Otherwise a job may have to wait for
    others to leave its GPUs, and only the fold knows until when.
    """
    granted = [each for each in own if _grants(each.event)]
    if any(not each.event.instant for each in granted):  # type: ignore[union-attr]  # all grants
        return None
    return [(each.seq, each.event.at_us) for each in granted]


def last_grant(own: Sequence[Own]) -> Own | None:
    """Return the last event that gave a job GPUs, of its own events."""
    return next((each for each in reversed(own) if _grants(each.event)), None)


def _grants(event: Event) -> bool:
    return isinstance(event, AllocationChanged) and bool(event.allocation.shares)
