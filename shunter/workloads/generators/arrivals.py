"""When generated jobs arrive: a Poisson process, of constant rate or with the rhythm of a week.

Instants are whole milliseconds, so that a last bit of `log` that differs between two machines'
mathematical libraries cannot differ in a trace.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log

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
