"""The clock of a term."""

from dataclasses import dataclass

from shunter import clock


@dataclass(frozen=True, slots=True)
class TermClock:
    """The instants of a term: one of them, and what the monotonic clock showed at it.

    Both are read at once. A start takes its time after that, to load libraries, say, and the next
    term goes by the wall clock again.
    """

    at_us: int
    monotonic_ns: int

    def now_us(self) -> int:
        """Return the instant it is."""
        return self.at_us + (clock.monotonic_ns() - self.monotonic_ns) // 1000
