"""Max-min fairness and makespan: one largest level each (OSDI 2020, sections 4.1 and 4.2)."""

import numpy as np

from shunter.policies.gavel.solving.answers import concluded, finished, largest_level
from shunter.policies.gavel.solving.groups import Groups, Shares, Status, proportional_rates
from shunter.policies.gavel.solving.interior import Floats

__all__ = ["least_total_duration", "level_shares", "max_min_fairness"]


def max_min_fairness(groups: Groups, weights: Floats) -> Shares:
    """Maximise the least s T·x / (w p), least attained service made a program.

    Objective: that least. Source: OSDI 2020, section 4.1, as the public code scales it by gangs.

    Args:
        groups: who shares what.
        weights: shape (groups,), w, above 0.
    """
    fault = groups.fault() or (None if bool((weights > 0).all()) else Status.invalid)
    if fault is not None:
        return Shares.none(groups, fault)
    return level_shares(groups, weights * proportional_rates(groups) / groups.gangs)


def least_total_duration(groups: Groups, steps: Floats) -> Shares:
    """Minimise the makespan max n / T·x, the inverse of a level over steps left.

    Objective: 1 / makespan, a second. Source: OSDI 2020, section 4.2.

    Args:
        groups: who shares what.
        steps: shape (groups,), n, steps left of each job.
    """
    fault = groups.fault() or (None if bool((steps > 0).all()) else Status.invalid)
    if fault is not None:
        return Shares.none(groups, fault)
    return level_shares(groups, steps)


def level_shares(groups: Groups, demand: Floats) -> Shares:
    """Return shares at the largest level of throughputs over demands."""
    scale = float(np.median(demand / groups.rates.max(axis=1)))
    level = largest_level(groups, demand / scale)
    shares = finished(level.program, level.point)
    wants = demand > 0
    objective = float((shares.throughputs[wants] / demand[wants]).min())
    return concluded(shares, objective, level.bound / scale, 1)
