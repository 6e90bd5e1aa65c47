"""Gangs and durations as the public generators of Gavel and Synergy draw them.

- gangs of 1, 2, 4 and 8 GPUs: 70, 10, 15 and 5 % of the jobs, no wider than the widest that is
  allowed;
- durations of 10^x minutes, x uniform in [1.5, 3) for 80 % of the jobs and in [3, 4) for the
  others, whatever the gang. Synergy's deployments are shorter: [1.5, 2.5) and [2.5, 2.7).

Sources: Narayanan et al., OSDI 2020, section 7.1 (public code, commit c4fa400); Mohan et al.,
OSDI 2022, section 5.1 (public code, commit 1bb2bed), which takes both over.
"""

from collections.abc import Callable
from math import log
from typing import Final

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
