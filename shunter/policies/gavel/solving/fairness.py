"""Max-min fairness and makespan, one largest level each, and shares that need no program.

OSDI 2020, sections 4.1 and 4.2; isolated shares are the yardstick of section 5.
"""

import numpy as np

from shunter.policies.gavel.solving.answers import (
    concluded,
    finished,
    largest_level,
    shares_of,
)
from shunter.policies.gavel.solving.groups import Groups, Shares, Status, proportional_rates
from shunter.policies.gavel.solving.interior import Floats


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


def isolated(groups: Groups) -> Shares:
    """Give each job the same part of every GPU type, as a cluster of its own.

    Objective: 0, as nothing is optimised.
    """
    fault = groups.fault()
    if fault is not None:
        return Shares.none(groups, fault)
    return shares_of(groups, isolated_fractions(groups), _no_pairs(groups))


def proportional(groups: Groups) -> Shares:
    """Give each job time on every type in proportion to its GPUs.

    Where that is more than there is, all get less. Objective: 0.
    """
    fault = groups.fault()
    if fault is not None:
        return Shares.none(groups, fault)
    part = groups.capacity / max(float(groups.capacity.sum()), 1e-300)
    return shares_of(groups, np.tile(part, (len(groups.counts), 1)), _no_pairs(groups))


def isolated_fractions(groups: Groups) -> Floats:
    """Return N_j / (m s), divided by its sum over types where that is above 1.

    Shape (groups, types); finish-time fairness measures against the throughput it gives.
    """
    fractions = groups.capacity / (groups.counts.sum() * groups.gangs[:, None])
    whole: Floats = fractions / np.maximum(fractions.sum(axis=1, keepdims=True), 1.0)
    return whole


def _no_pairs(groups: Groups) -> Floats:
    return np.zeros((len(groups.pairs.first) if groups.pairs else 0, len(groups.capacity)))
