"""What a history of durations says of a job by what it has attained: steps over attained service.

Three curves, each evaluated at a bounded set of points (quantiles of the history) and constant
between them, so that a running job's rank changes at few instants, all known beforehand:

- the Gittins index G(a) = sup over D of P(D, a) / E(D, a), where P is the chance that a job which
  has attained `a` finishes within D more, and E the service it is expected to use of D (Gittins,
  1979; Gu et al., Tiresias, NSDI 2019, section 3.2.2: both from the empirical distribution);
- the same with one fixed quantum D;
- the expected service still to come, E[X - a | X > a].
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

POINTS = 32
"""At so many points of attained service at most a curve changes."""

INDEX_ONE = 1 << 50
"""A Gittins index of one, which is certain completion within one GPU-microsecond."""

UNKNOWN_US = 1 << 50
"""The rest expected of a job that has outlived the whole history."""


@dataclass(frozen=True)
class Steps:
    """A function of attained service: `values[i]` from `points[i]` on."""

    points: tuple[int, ...]
    values: tuple[int, ...]

    def at(self, attained_us: int) -> tuple[int, int | None]:
        """Return the value, and the attained service at which it becomes another one."""
        place = bisect_right(self.points, attained_us)
        following = self.points[place] if place < len(self.points) else None
        return self.values[place - 1], following


def gittins_index(
    history: Sequence[int], quantum_us: int | None = None, points: int = POINTS
) -> Steps:
    """Return the Gittins index, in units of 1 / (INDEX_ONE GPU-microseconds).

    Args:
        history: GPU time of jobs in GPU-microseconds, ascending; empty: nothing is known.
        quantum_us: the service D a job is thought to get at once; None: the best one.
        points: at how many points at most the index changes.
    """
    sums = [0, *accumulate(history)]

    def index(point: int) -> int:
        first = bisect_right(history, point)
        if quantum_us is not None:
            lasts = [bisect_right(history, point + quantum_us)]
        else:
            lasts = [*range(first + 1, len(history) + 1)]
        best_done, best_used = 0, 1
        for last in lasts:
            quantum = history[last - 1] - point if quantum_us is None else quantum_us
            done = last - first
            used = sums[last] - sums[first] - done * point + quantum * (len(history) - last)
            if done * best_used > best_done * used:
                best_done, best_used = done, used
        return min(INDEX_ONE, best_done * INDEX_ONE // best_used)

    return _steps(history, points, index)


def expected_rest(history: Sequence[int], points: int = POINTS) -> Steps:
    """Return the service a job is expected to need still.

    In GPU-microseconds, rounded down. The arguments are those of `gittins_index`.
    """
    sums = [0, *accumulate(history)]

    def rest(point: int) -> int:
        first = bisect_right(history, point)
        left = len(history) - first
        return (sums[-1] - sums[first]) // left - point if left else UNKNOWN_US

    return _steps(history, points, rest)


def _steps(history: Sequence[int], points: int, value_of: Callable[[int], int]) -> Steps:
    """Evaluate a curve at zero and at quantiles of the history, the last one too."""
    count = len(history)
    chosen = {history[(part + 1) * count // points - 1] for part in range(points)} if count else ()
    places = [0, *sorted(chosen)]
    found: list[tuple[int, int]] = []
    for place in places:
        value = value_of(place)
        if not found or found[-1][1] != value:
            found.append((place, value))
    return Steps(tuple(place for place, _ in found), tuple(value for _, value in found))
