"""How a lease works: four switches in which the simulators of the field differ.

A lease is a grant for one round. docs/reference/simulation.md says what each switch means, with its
costs and failures; here is the arithmetic of leases on the grid of fixed rounds. Rounds that end
with their last gang are in `world.py`.
"""

from enum import StrEnum

from shunter.core import NEVER_US, steps_in, time_for_us, worked_us
from shunter.events import fact

# The work of an attempt in units: steps where a table has its rate, else microseconds at base
# speed. Counts are rounded down; `time_for` is the first microsecond at which so many are done.


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


class Progress(StrEnum):
    """In which grains work counts."""

    continuous = "continuous"
    whole_steps = "whole_steps"


class Credit(StrEnum):
    """When the work of a lease counts."""

    as_run = "as_run"
    at_grant = "at_grant"


class EndSeen(StrEnum):
    """When the end of a job is seen."""

    at_once = "at_once"
    at_lease_end = "at_lease_end"


class RoundEnds(StrEnum):
    """What ends a round."""

    fixed = "fixed"
    last_gang = "last_gang"


@fact
class Lease:
    """The four switches and the length of a round; by default there are no leases."""

    progress: Progress = Progress.continuous
    credit: Credit = Credit.as_run
    end_seen: EndSeen = EndSeen.at_once
    round_ends: RoundEnds = RoundEnds.fixed
    round_us: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether work done is time worked, so that the scheduler can count it itself."""
        return self.progress is Progress.continuous and self.credit is Credit.as_run

    @property
    def tells_true_ends(self) -> bool:
        """Whether an end seen late has an instant of its own; granted work has none."""
        return self.credit is Credit.as_run

    def seen_us(self, end_us: int) -> int:
        """Return when an end at an instant is seen, where rounds are fixed."""
        return end_us if self.end_seen is EndSeen.at_once else self.lease_end_us(end_us)

    def lease_end_us(self, at_us: int) -> int:
        """Return when the lease is over in which an instant lies."""
        return -(-at_us // self.round_us) * self.round_us if self.round_us else at_us

    def end_us(self, from_us: int, units: int, step_rate: StepRate) -> int | None:
        """Return when so many units are done by a job that stays; None: never.

        In whole steps, a step begins in a lease only if it ends there; the rest is lost.
        """
        if not self.round_us or step_rate.is_continuous:
            return _plus(from_us, step_rate.time_for(units))
        first_end_us = self.lease_end_us(from_us + 1)
        in_first = step_rate.done_in(first_end_us - from_us)
        if units <= in_first:
            return _plus(from_us, step_rate.time_for(units))
        in_each = step_rate.done_in(self.round_us)
        if not in_each:
            return None
        whole, last = divmod(units - in_first - 1, in_each)
        return _plus(first_end_us + whole * self.round_us, step_rate.time_for(last + 1))

    def done_by(self, from_us: int, until_us: int, step_rate: StepRate) -> int:
        """Return how many units count when a job working since `from_us` leaves."""
        if self.credit is Credit.at_grant:
            until_us = self.lease_end_us(until_us)
        return self.run_by(from_us, until_us, step_rate)

    def run_by(self, from_us: int, until_us: int, step_rate: StepRate) -> int:
        """Return how many units have really been run at an instant."""
        if until_us <= from_us:
            return 0
        if not self.round_us or step_rate.is_continuous:
            return step_rate.done_in(until_us - from_us)
        first_end_us = self.lease_end_us(from_us + 1)
        if until_us <= first_end_us:
            return step_rate.done_in(until_us - from_us)
        leases, rest_us = divmod(until_us - first_end_us, self.round_us)
        done = step_rate.done_in(first_end_us - from_us) + leases * step_rate.done_in(self.round_us)
        return done + step_rate.done_in(rest_us)


def _plus(from_us: int, needed_us: int | None) -> int | None:
    return None if needed_us is None else from_us + needed_us


PLAIN_LEASE = Lease()
