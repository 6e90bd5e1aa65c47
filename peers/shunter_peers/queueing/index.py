"""The Gittins index as the public Tiresias simulator tabulates it, rounding for rounding.

For attained service a, with samples x_1 <= … <= x_n in GPU-seconds, i the first with x_i > a, and
i' the first with x > a + D (the last one, where a + D > x_max - 1):

    P = (i' - i) / (n - i)                                                        to 5 decimals
    E = floor((sum of x_k for i <= k < i', plus D * (n - i')) / (n - i))
    G = 1e6 * P / E                                                               to 4 decimals

Deviation: from the textbook, on purpose. E should sum x_k - a, not x_k; no D is best for all a; and
the floor is an accident of Python 2. The policy `gittins` does it right.
"""

from bisect import bisect_right
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import accumulate
from typing import Final

QUANTUM: Final = 3250
"""D, in GPU-seconds."""


class Index:
    """The table, read at the first sample above what is attained; 0 beyond the last."""

    def __init__(self, samples: Sequence[int]) -> None:
        self.samples = tuple(samples)
        sums = [0, *accumulate(samples)]
        values = [_value(self.samples, sums, sample - 1) for sample in samples]
        order = sorted(dict.fromkeys([*values, 0.0]), reverse=True)
        ranks = {value: rank for rank, value in enumerate(order)}
        self._ranks = [ranks[value] for value in [*values, 0.0]]

    def rank(self, attained: int) -> tuple[int, int | None]:
        """Return a rank, 0 for the highest index, and at what service it is read anew."""
        place = bisect_right(self.samples, attained)
        return self._ranks[place], self.samples[place] if place < len(self.samples) else None


def _value(samples: tuple[int, ...], sums: list[int], attained: int) -> float:
    count, beyond = len(samples), attained + QUANTUM
    first = bisect_right(samples, attained)
    last = count - 1 if beyond > samples[-1] - 1 else bisect_right(samples, beyond)
    ahead = count - first
    chance = _rounded((last - first) / ahead, 5)
    mean = (sums[last] - sums[first] + QUANTUM * (count - last)) // ahead
    return _rounded(1_000_000 * chance / mean, 4) if mean else 0.0


def _rounded(value: float, places: int) -> float:
    """Return a float rounded as Python 2 does: its exact value, half away from zero."""
    return float(Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))
