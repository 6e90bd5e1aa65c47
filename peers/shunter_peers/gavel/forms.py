"""What kind of problem each policy of the simulator solves; without numpy, so that it is listable.

The forms themselves import numpy, and are imported when the first of them is asked for.
"""

from dataclasses import dataclass
from enum import StrEnum

from shunter.events import GpuType


class Kind(StrEnum):
    """What is optimised."""

    level = "level"  # the least normalised throughput
    filling = "filling"  # the same, and then the least of those that can still rise
    sum = "sum"  # throughputs together, by price, with deadlines
    duration = "duration"  # until the last job ends
    finish_times = "finish_times"  # the worst ratio of finish times, here over alone


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of problem, and what it takes for rates.

    Args:
        kind: what is optimised.
        packed: two jobs may share GPUs.
        ones: take every rate for 1.
        everywhere: take the rate on this type for that on all.
        priced: divide rates by the prices of GPUs.
        deadlines: ask for what they need.
    """

    kind: Kind
    packed: bool = False
    ones: bool = False
    everywhere: GpuType | None = None
    priced: bool = False
    deadlines: bool = False
