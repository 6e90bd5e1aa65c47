"""Finish-time fairness: the least largest ratio of finish times (OSDI 2020, section 4.3).

A job that has run for e, has n steps left and would have needed D on its own share finishes at
ρ D if it gets n / (ρ D − e) steps a second from now on. Whether all can have that is a largest
level of at least 1, which rises with ρ and is close to linear in it; its slope is in the duals.
"""

from shunter.policies.gavel.solving.answers import (
    ACCURACY,
    Level,
    concluded,
    finished,
    largest_level,
)
from shunter.policies.gavel.solving.groups import Groups, Shares, Status
from shunter.policies.gavel.solving.interior import Floats
from shunter.policies.gavel.solving.roots import root

_ROUGH = 1e-3  # accuracy of levels far from 1


def finish_time_fairness(
    groups: Groups, elapsed_s: Floats, steps: Floats, alone_s: Floats
) -> Shares:
    """Minimise the greatest ρ = (e + n / T·x) / D of a job.

    Objective: that ρ, reached; the bound is what it cannot be less than.

    Args:
        groups: who shares what.
        elapsed_s: shape (groups,), e, since arrival.
        steps: shape (groups,), n, left of each job, above 0.
        alone_s: shape (groups,), D, from arrival to finish on an isolated share, above 0.
    """
    fault = groups.fault()
    if fault is None and not bool(((elapsed_s >= 0) & (steps > 0) & (alone_s > 0)).all()):
        fault = Status.invalid
    if fault is not None:
        return Shares.none(groups, fault)
    found: list[Level] = []
    accuracy = _ROUGH

    def miss(ratio: float) -> tuple[float, float]:
        nonlocal accuracy
        left = ratio * alone_s - elapsed_s
        demand = steps / left
        level = largest_level(groups, demand, accuracy)
        found.append(level)
        if accuracy > ACCURACY and abs(level.value - 1.0) < 10 * accuracy:
            accuracy = ACCURACY
            level = largest_level(groups, demand, accuracy)
            found.append(level)
        slope = (groups.counts * level.weight * alone_s / left).sum()
        return level.value - 1.0, level.value * float(slope)

    # From the left, where some job cannot be in time: levels are about concave in the ratio, so
    # that Newton's steps never pass the root; and none is needed to get off a far slope.
    low = float(((elapsed_s + steps / groups.fastest()) / alone_s).max())
    ratio = root(miss, low, low, (-10 * ACCURACY, 10 * ACCURACY))
    shares = finished(found[-1].program, found[-1].point)
    reached = float(((elapsed_s + steps / shares.throughputs) / alone_s).max())
    left = ratio * alone_s - elapsed_s
    slope = float((groups.counts * found[-1].weight * alone_s / left).sum())
    least = ratio - max(0.0, found[-1].bound - 1.0) / slope
    return concluded(shares, reached, least, len(found))
