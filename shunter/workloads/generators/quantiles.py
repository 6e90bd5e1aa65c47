"""A distribution given by a few of its quantiles, with a heavy tail between them."""

from bisect import bisect_right
from collections.abc import Sequence
from math import exp, log
from typing import Final

PROBABILITIES: Final = (
    *(0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85),
    *(0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1),
)
"""Denser at the top, where most GPU time is."""


class Quantiles:
    """A positive quantity whose logarithm is linear between its known quantiles.

    Straight lines between the values themselves would put far too much into the tail: in the
    Philly trace the last thousandth of the jobs spans a factor of four.
    """

    def __init__(self, probabilities: Sequence[float], values: Sequence[float]) -> None:
        """Take ascending probabilities from 0 to 1 and as many ascending values above 0."""
        assert len(probabilities) == len(values)
        assert probabilities[0] == 0
        assert probabilities[-1] == 1
        self._probabilities = tuple(probabilities)
        self._values = tuple(values)
        self._logs = tuple(log(value) for value in values)
        self._slopes = tuple(
            (self._logs[i + 1] - self._logs[i]) / (probabilities[i + 1] - probabilities[i])
            for i in range(len(values) - 1)
        )

    def at(self, probability: float) -> float:
        """Return the quantile of a probability in [0, 1)."""
        i = bisect_right(self._probabilities, probability) - 1
        return exp(self._logs[i] + (probability - self._probabilities[i]) * self._slopes[i])

    def mean(self) -> float:
        """Return the mean: between two quantiles a < b it is (b - a) / ln(b / a)."""
        total = 0.0
        for i, slope in enumerate(self._slopes):
            width = self._probabilities[i + 1] - self._probabilities[i]
            low, high = self._values[i], self._values[i + 1]
            total += width * ((high - low) / (slope * width) if slope else low)
        return total


def quantile(ordered: Sequence[float], probability: float) -> float:
    """Return a quantile of an ascending sample, linear between the two nearest."""
    place = probability * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
