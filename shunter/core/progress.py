"""How work turns into time and back, and where what is done lies saved."""

from shunter.events.records import fact
from shunter.events.values import NodeName

NEVER_US = 1 << 62
"""An instant after all others."""


@fact
class Place:
    """The servers with an attempt's checkpoints, by rank, and the last step it told."""

    attempt: int
    nodes: tuple[NodeName, ...]
    step: int | None = None


def worked_us(elapsed_us: int, speed: float) -> int:
    """Return the work done in a time, in microseconds at base speed, rounded down."""
    return elapsed_us if speed == 1.0 else int(elapsed_us * speed)


def time_for_us(work_us: int, speed: float) -> int:
    """Return the time in which at least that much work gets done at a speed above 0.

    It is `NEVER_US` at the most: beyond, times are not told apart by a float.
    """
    if speed == 1.0:
        return work_us
    if not work_us / speed < NEVER_US:
        return NEVER_US
    needed = int(work_us / speed)
    while worked_us(needed, speed) < work_us:
        needed += 1
    return needed


def steps_in(elapsed_us: int, rate: float) -> int:
    """Return the whole steps that fit into a time, at a rate in steps per second."""
    return int(rate * (elapsed_us / 1_000_000))
