"""When a gang over several servers has its turns: by the clock, so that all of them keep it alike.

No server asks another whose turn it is, and none could while no scheduler is there. So each is told
the same timetable, `length_us` from `first_us` on in each `period_us`, and gives the gang its GPUs
then. Instants are microseconds since the epoch, or of the virtual clock. Only the standard library
of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Timetable"]


class Timetable(NamedTuple):
    """The turns of a gang, one in each period."""

    period_us: int
    first_us: int
    length_us: int

    def covers(self, at_us: int) -> bool:
        """Say whether an instant is within a turn."""
        return (at_us - self.first_us) % self.period_us < self.length_us

    def began_us(self, at_us: int) -> int:
        """Return when the last turn at or before an instant was to begin."""
        return at_us - (at_us - self.first_us) % self.period_us

    def ended_us(self, at_us: int) -> int:
        """Return when the last turn that is over at an instant was to end."""
        end_us = self.began_us(at_us) + self.length_us
        return end_us if end_us <= at_us else end_us - self.period_us

    def changes_us(self, at_us: int) -> int | None:
        """Return when a turn begins or ends next, after an instant; None: none ever does."""
        if not 0 < self.length_us < self.period_us:
            return None
        into_us = (at_us - self.first_us) % self.period_us
        upto_us = self.length_us if into_us < self.length_us else self.period_us
        return at_us + upto_us - into_us
