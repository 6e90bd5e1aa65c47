"""How far a clock of a host is ahead of ours, as the answers to our questions tell.

A host read its clock at some instant between our question and its answer: that bounds how far it is
ahead. The narrowest bound holds until an answer contradicts it: clocks drift apart, by seconds a
day where nobody disciplines them, and a machine that was paused finds its clock behind.
"""

__all__ = ["FarClock"]


class FarClock:
    """A clock of a host, read as one of ours."""

    def __init__(self) -> None:
        self.ahead_ns = 0
        self._width_ns: int | None = None

    def note(self, asked_ns: int, far_ns: int, came_ns: int) -> None:
        """Take in a reading.

        Args:
            asked_ns: when it was asked for, by our clock.
            far_ns: what the host read.
            came_ns: when its answer was there, by our clock.
        """
        least_ns, most_ns = far_ns - came_ns, far_ns - asked_ns
        is_refuted = not least_ns <= self.ahead_ns <= most_ns
        if self._width_ns is None or is_refuted or most_ns - least_ns < self._width_ns:
            self._width_ns = most_ns - least_ns
            self.ahead_ns = (least_ns + most_ns) // 2

    def ours(self, far_ns: int) -> int:
        """Return a reading of the host as one of our clock."""
        return far_ns - self.ahead_ns

    def theirs(self, our_ns: int) -> int:
        """Return a reading of our clock as one of the host."""
        return our_ns + self.ahead_ns
