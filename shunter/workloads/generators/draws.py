"""What every generator draws from: a stream of random numbers for each quantity of a job.

Each quantity has a stream of its own, so that drawing one more of one kind never shifts another,
and a longer trace begins like a shorter one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from shunter.workloads.trace import JobEnd


@dataclass(frozen=True)
class EndShares:
    """The shares of jobs that fail, or are cancelled, after having run."""

    failed: float = 0.0
    cancelled: float = 0.0


def stream(seed: int, name: str) -> Callable[[], float]:
    """Return uniform draws for one quantity, by `random()`: stable over Pythons."""
    return Random(f"{seed}/{name}").random


def cumulative(weights: Sequence[float]) -> list[float]:
    """Return running shares; the last is exactly 1, so a draw finds its place."""
    total = sum(weights)
    return [*(sum_so_far / total for sum_so_far in accumulate(weights[:-1])), 1.0]


def end_of(draw: float, ends: EndShares) -> JobEnd:
    """Return how a job ends, by a uniform draw."""
    if draw < ends.failed:
        return JobEnd.failed
    return JobEnd.cancelled if draw < ends.failed + ends.cancelled else JobEnd.finished
