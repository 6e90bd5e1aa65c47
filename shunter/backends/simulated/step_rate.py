"""How fast the work of one attempt gets done, in units: microseconds at base speed, or steps.

Steps are counted by their rate where a table has one, as policies count them, else by the speed.

All counts are whole and rounded down, and `time_for` is the exact inverse: the first microsecond
at which that many units are done.
"""

from shunter.core.progress import NEVER_US, steps_in, time_for_us, worked_us
from shunter.events.values.fact import fact


@fact
class StepRate:
    """A job of `units` that takes `duration_us` at speed 1, at the speed it has now.

    `rate` is in steps per second; None where units are no steps or no table has their rate.
    """

    speed: float
    units: int
    duration_us: int
    rate: float | None = None

    @property
    def is_continuous(self) -> bool:
        """Whether units are microseconds of work, not steps."""
        return self.units == self.duration_us

    def done_in(self, elapsed_us: int) -> int:
        """Return how many units get done in a stretch of time."""
        if self.is_continuous:
            return worked_us(elapsed_us, self.speed)
        if self.rate is not None:
            return steps_in(elapsed_us, self.rate)
        if not self.duration_us:
            return self.units
        if self.speed == 1.0:
            return elapsed_us * self.units // self.duration_us
        return int(elapsed_us * self.speed * self.units / self.duration_us)

    def time_for(self, units: int) -> int | None:
        """Return the shortest time for so many units, None where it is never.

        Never is as well what would take `NEVER_US` or longer.
        """
        if not units or not self.duration_us:
            return 0
        if self.speed <= 0:
            return None
        if self.is_continuous:
            needed_us = time_for_us(units, self.speed)
            return needed_us if needed_us < NEVER_US else None
        if self.rate is not None:
            if not units * 1_000_000 < NEVER_US * self.rate:
                return None
            needed_us = max(0, int(units / self.rate * 1_000_000) - 1)
        elif self.speed == 1.0:
            return -(-units * self.duration_us // self.units)
        else:
            in_all = self.units * self.speed
            if not units * self.duration_us < NEVER_US * in_all:
                return None
            needed_us = int(units * self.duration_us / in_all)
        while self.done_in(needed_us) < units:
            needed_us += 1
        return needed_us

    def work_us(self, units: int) -> int:
        """Return the work of so many units, in microseconds at base speed."""
        return units * self.duration_us // self.units if self.units else 0
