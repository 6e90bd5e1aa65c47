"""The largest sum of throughputs, per second or per dollar (OSDI 2020, section 4.2).

With deadlines, throughputs have demands as well. Whether these can be met is a largest level, and
the point where it exceeds 1 is inside the limits of the sum.
"""

import numpy as np

from shunter.policies.gavel.solving.answers import (
    ACCURACY,
    CERTIFIED,
    concluded,
    finished,
    largest_level,
)
from shunter.policies.gavel.solving.groups import Groups, Shares, Status
from shunter.policies.gavel.solving.interior import Floats, follow
from shunter.policies.gavel.solving.programs import Program

_ROUGH = 0.02  # accuracy of a level that only has to exceed 1
_INSIDE = 1e-3  # by how much it has to


def max_sum_throughput(groups: Groups, demand: Floats | None = None) -> Shares:
    """Maximise the steps a second of all jobs together, not normalised.

    Objective: that sum.

    Args:
        groups: who shares what.
        demand: shape (groups,), steps a second each job needs, n over the time to its deadline.
    """
    return _largest_sum(groups, np.ones(len(groups.capacity)), demand)


def min_cost(groups: Groups, prices: Floats, demand: Floats | None = None) -> Shares:
    """Maximise the sum of T_ij x_ij / price_j, as the public code has it.

    Objective: that sum, steps a second for a dollar an hour.

    Args:
        groups: who shares what.
        prices: shape (types,), dollars an hour of a GPU, above 0.
        demand: as for `max_sum_throughput`.
    """
    if prices.shape != groups.capacity.shape or not bool((prices > 0).all()):
        return Shares.none(groups, Status.invalid)
    return _largest_sum(groups, 1.0 / prices, demand)


def _largest_sum(groups: Groups, value: Floats, demand: Floats | None) -> Shares:
    demand = np.zeros(len(groups.counts)) if demand is None else demand
    fault = groups.fault()
    if fault is None and not bool((np.isfinite(demand) & (demand >= 0)).all()):
        fault = Status.invalid
    if fault is not None:
        return Shares.none(groups, fault)
    scale = float((groups.fastest() * value.max()).max())
    level, solves = None, 1
    if demand.any():
        level = largest_level(groups, demand, _ROUGH)
        if level.value < 1 + _INSIDE:
            level, solves = largest_level(groups, demand), 2
        if level.bound < 1 - CERTIFIED:
            return Shares.none(groups, Status.infeasible)
        if level.value < 1 + _INSIDE:  # met only just: keep the limits of the sum apart
            demand = demand * (level.value * (1 - 0.5 * CERTIFIED))
        solves += 1
    program = Program.for_sum(groups, value / scale, demand)
    terms = program.form.terms
    x = program.spread() if level is None else level.point.x
    products = 2.0 * float(terms.counts.sum()) + float(terms.weights.sum())
    start = program.start(x, float((terms.weights * terms.gain * x).sum()) / products)
    point = follow(program.form, start, ACCURACY)
    shares = finished(program, point)
    if level is not None and bool((shares.throughputs < demand * (1 - CERTIFIED)).any()):
        shares = finished(level.program, level.point)  # the path ended early: keep the demand
    return concluded(shares, _sum(groups, value, shares), program.bound(point.dual) * scale, solves)


def _sum(groups: Groups, value: Floats, shares: Shares) -> float:
    pairs = groups.pairs
    total = float((groups.counts[:, None] * groups.rates * shares.fractions * value).sum())
    if pairs is not None:
        together = (pairs.first_rates + pairs.second_rates) * shares.pair_fractions * value
        total += float((pairs.weights(groups.counts)[:, None] * together).sum())
    return total
