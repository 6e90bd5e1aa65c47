"""A job in the rotation of a server: what it may use, and what it had.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# int.bit_count is of Python 3.10.
# ruff: noqa: FURB161

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.backends.node.rotation.timetable import Timetable

__all__ = ["Member"]


class Member:
    """A job in the rotation: what it may use, and what it had.

    Attributes:
        name: of the job.
        width: how many GPUs it works on at once.
        home: the mask of the GPUs it was given.
        weight: its part of the time beside others of another weight.
        is_fixed: whether it can work on its own GPUs only, not on others of the server.
        used_us: the time it had, over its weight, from the same start for all.
        is_urgent: whether it goes before all others, with those that are packed with it.
        is_stuck: whether it does not answer: its GPUs are nobody else's until it stands still.
        mask: the GPUs it is on now; 0: it waits.
        began_us: since when it is on them, or waits.
        since_us: up to when its time is counted.
        packed: jobs that have all their turns with it, on the same GPUs; they are no members.
        timetable: when it has its turns, as part of a gang over several servers; None: in turn.
    """

    __slots__ = (
        "began_us",
        "home",
        "is_fixed",
        "is_stuck",
        "is_urgent",
        "mask",
        "name",
        "number",
        "packed",
        "since_us",
        "timetable",
        "used_us",
        "weight",
        "width",
    )

    def __init__(self, name: str, home: int, weight: float, *, is_fixed: bool) -> None:
        self.name = name
        self.home = home
        self.width = bin(home).count("1")
        self.weight = weight
        self.is_fixed = is_fixed
        self.is_urgent = self.is_stuck = False
        self.number = 0
        self.used_us = 0.0
        self.mask = 0
        self.began_us = 0
        self.since_us = 0
        self.packed: list[Member] = []
        self.timetable: Timetable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All jobs that have its turns: itself, and those that are packed with it."""
        return (self.name, *[each.name for each in self.packed])

    @property
    def weight_of_all(self) -> float:
        """The weight of all jobs that have its turns."""
        return self.weight + sum(each.weight for each in self.packed)

    @property
    def goes_first(self) -> bool:
        """Whether one of the jobs that have its turns is urgent."""
        return self.is_urgent or any(each.is_urgent for each in self.packed)

    def is_due(self, clock_us: int) -> bool:
        """Say whether it may have a turn at an instant of the clock of timetables."""
        return self.timetable is None or self.goes_first or self.timetable.covers(clock_us)

    def account(self, now_us: int) -> None:
        """Count the time up to now if it is its turn."""
        if self.mask:
            self.used_us += (now_us - self.since_us) / self.weight_of_all
            self.since_us = now_us
