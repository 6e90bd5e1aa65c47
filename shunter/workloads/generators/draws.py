"""What every generator draws from: a stream of random numbers for each quantity of a job.

Each quantity has a stream of its own, so that drawing one more of one kind never shifts another,
and a longer trace begins like a shorter one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from random import Random
from typing import Final

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


# A distribution given by a few of its quantiles, with a heavy tail between them.

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


# When generated jobs arrive: a Poisson process, of constant rate or with the rhythm of a week.
#
# Instants are whole milliseconds, so that a last bit of `log` that differs between two machines'
# mathematical libraries cannot differ in a trace.

_HOUR_MS = 3_600_000
_WEEK_MS = 168 * _HOUR_MS


@dataclass(frozen=True)
class Rhythm:
    """Relative rates of the 24 hours of a day, and of weekends over other days."""

    hour_weights: Sequence[float]
    weekend: float


def poisson_arrivals_us(draw: Callable[[], float], gap_s_mean: float) -> Iterator[int]:
    """Yield instants with independent, exponentially distributed gaps between them."""
    for at_ms in _poisson_ms(draw, gap_s_mean):
        yield at_ms * 1000


def diurnal_arrivals_us(
    draw: Callable[[], float], gap_s_mean: float, hour_weights: Sequence[float], weekend: float
) -> Iterator[int]:
    """Yield instants whose rate follows the hours of the day and the weekends.

    Time zero is a Monday, 00:00. The same draws as of a Poisson process are stretched so that
    each hour holds its share (time rescaling), and a week holds as many jobs as without a rhythm.

    Args:
        draw: uniform numbers in [0, 1).
        gap_s_mean: seconds between jobs, averaged over the week.
        hour_weights: 24 relative rates.
        weekend: rate of Saturday and Sunday relative to the other days.
    """
    weights = [hour_weights[hour % 24] * (weekend if hour >= 120 else 1.0) for hour in range(168)]
    scale = len(weights) / sum(weights)
    rates = [weight * scale for weight in weights]
    starts = [0.0]
    for rate in rates[:-1]:
        starts.append(starts[-1] + rate * _HOUR_MS)
    for area_ms in _poisson_ms(draw, gap_s_mean):
        week, rest_ms = divmod(area_ms, _WEEK_MS)
        hour = bisect_right(starts, rest_ms) - 1
        within_ms = round((rest_ms - starts[hour]) / rates[hour])
        yield (week * _WEEK_MS + hour * _HOUR_MS + within_ms) * 1000


def _poisson_ms(draw: Callable[[], float], gap_s_mean: float) -> Iterator[int]:
    gap_ms_mean = gap_s_mean * 1000
    at_ms = 0
    while True:
        at_ms += round(-log(1.0 - draw()) * gap_ms_mean)
        yield at_ms


# Gangs and durations as the public generators of Gavel and Synergy draw them.
#
# - gangs of 1, 2, 4 and 8 GPUs: 70, 10, 15 and 5 % of the jobs, no wider than the widest that is
#   allowed;
# - durations of 10^x minutes, x uniform in [1.5, 3) for 80 % of the jobs and in [3, 4) for the
#   others, whatever the gang. Synergy's deployments are shorter: [1.5, 2.5) and [2.5, 2.7).
#
# Sources: Narayanan et al., OSDI 2020, section 7.1 (public code, commit c4fa400); Mohan et al.,
# OSDI 2022, section 5.1 (public code, commit 1bb2bed), which takes both over.

GANGS: Final = ((1, 0.7), (2, 0.8), (4, 0.95), (8, 1.0))
"""Gang sizes, each with the draw below which it is taken."""

_LONG_FROM: Final = 0.8

Durations = tuple[tuple[float, float], tuple[float, float]]
"""The ranges of x for short jobs and long ones."""

LONG: Final[Durations] = ((1.5, 3.0), (3.0, 4.0))
SHORT: Final[Durations] = ((1.5, 2.5), (2.5, 2.7))

Draw = Callable[[], float]
"""Returns a uniform number in [0, 1)."""


def widest_gang(gpus_max: int) -> int:
    """Return the widest gang of at most so many GPUs."""
    return max(gpus for gpus, _ in GANGS if gpus <= gpus_max)


def drawn_gang(draw: Draw, widest: int) -> int:
    """Return the GPUs of a job, by one draw; wider gangs become the widest."""
    drawn = draw()
    return min(next(size for size, top in GANGS if drawn < top), widest)


def drawn_duration_s(draw: Draw, durations: Durations = LONG) -> float:
    """Return the seconds of a job, by two draws."""
    low, high = durations[draw() >= _LONG_FROM]
    return 60.0 * 10 ** (low + (high - low) * draw())


def gpu_s_mean(widest: int, durations: Durations = LONG) -> float:
    """Return the mean GPU-seconds of a job: gangs and durations are independent."""
    gpus = sum(
        (top - below) * min(size, widest)
        for (size, top), below in zip(GANGS, (0.0, *(top for _, top in GANGS)), strict=False)
    )
    short, long = (60 * (10**high - 10**low) / ((high - low) * log(10)) for low, high in durations)
    return gpus * (_LONG_FROM * short + (1 - _LONG_FROM) * long)
