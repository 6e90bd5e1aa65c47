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
from shunter.policies.gavel.solving.interior import Floats, follow
from shunter.policies.gavel.solving.programs import Program

__all__ = [
    "isolated",
    "isolated_fractions",
    "least_total_duration",
    "level_shares",
    "max_min_fairness",
    "proportional",
    "relaxed_total_duration",
]


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


def relaxed_total_duration(groups: Groups, steps: Floats) -> Shares:
    """Return the centre of all shares with a makespan a few per cent above the least.

    The public code bisects the makespan between 100 s and 1,000,000 s, ten times as far where
    that is too little, until the bounds are within 5 %, and returns what its solver has found
    feasible last: a point of a polytope, ECOS's analytic centre.

    Objective: 1 / makespan that was asked for.

    Args:
        groups: who shares what.
        steps: shape (groups,), n, steps left of each job.
    """
    fault = groups.fault() or (None if bool((steps > 0).all()) else Status.invalid)
    if fault is not None:
        return Shares.none(groups, fault)
    scale = float(np.median(steps / groups.rates.max(axis=1)))
    level = largest_level(groups, steps / scale)
    least_s = scale / level.value
    low_s, high_s = 100.0, 1_000_000.0
    while high_s < least_s:
        low_s, high_s = 10 * low_s, 10 * high_s
    while 1.05 * low_s < high_s:
        middle_s = 0.5 * (low_s + high_s)
        low_s, high_s = (low_s, middle_s) if middle_s >= least_s else (middle_s, high_s)
    program = Program.for_sum(groups, np.zeros(len(groups.capacity)), steps / high_s)
    rough = largest_level(groups, steps / high_s, min(0.1, 0.3 * (high_s / least_s - 1.0)))
    start = program.start(rough.point.x, 1.0)
    shares = finished(program, follow(program.form, start, 1e-3, 1.0))
    return concluded(shares, 1.0 / high_s, 1.0 / high_s, 2)


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
