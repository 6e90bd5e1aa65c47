"""Where a rising function is 0: Newton's method in a bracket, or bisection."""

from collections.abc import Callable

_ROUNDS_MAX = 40


def root(
    miss: Callable[[float], tuple[float, float]],
    start: float,
    low: float,
    within: tuple[float, float],
) -> float:
    """Return where a function, given with its slope, is within bounds about 0.

    It may be flat on one side of the root: then the tangent last seen on the other side leads.
    The last place that was tried is returned, so that what was computed there can be kept.
    """
    at, high = start, float("inf")
    leads = {True: at, False: at}
    for _ in range(_ROUNDS_MAX):
        value, slope = miss(at)
        if within[0] <= value <= within[1] or high - low <= 1e-10 * low:
            break
        above = value > 0
        low, high = (low, at) if above else (at, high)
        leads[above] = at - value / slope if slope > 0 else at
        middle = 2.0 * at if high == float("inf") else 0.5 * (low + high)
        guesses = (leads[above], leads[not above], middle)
        at = next((guess for guess in guesses if low < guess < high), middle)
    return at
