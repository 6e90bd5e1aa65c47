"""Answers: programs followed to their end, what rounding left taken off, limits kept exactly."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.groups import Groups, Shares, Status, proportional_rates
from shunter.policies.gavel.solving.interior import CENTRED, Floats, Point, centred, follow
from shunter.policies.gavel.solving.programs import Program

ACCURACY = 1e-9  # of the objective: where the path is left
CERTIFIED = 1e-6  # of the objective: within what an answer is called optimal

_RESIDUES = 1e-5  # how exactly residues have to be on the path, where their order counts
_TINY = 1e-8  # of the time of a job: what the path leaves of fractions that are 0 at its end


@dataclass(frozen=True, slots=True)
class Level:
    """The largest level of throughputs over demands, and what limits it.

    Args:
        value: the level.
        bound: what it cannot exceed.
        weight: shape (groups,), the duals of the demands; they sum to 1 over all jobs.
        held: shape (groups,), whether a group has this level in every optimum.
        scarce: shape (types,), whether GPUs of a type are used up at a price.
    """

    value: float
    bound: float
    weight: Floats
    held: NDArray[np.bool_]
    scarce: NDArray[np.bool_]
    program: Program
    point: Point


def largest_level(groups: Groups, demand: Floats, accuracy: float = ACCURACY) -> Level:
    """Return the largest t at which throughputs are at least t times the demand.

    Strict complementarity tells what holds the level in every optimum: the path ends where of a
    slack and its dual just one is 0 (Goldman and Tucker, 1956).
    """
    program = Program.for_level(groups, demand)
    point = follow(program.form, program.start(program.spread(), 1.0), accuracy)
    slack, dual, terms = point.slack, point.dual, program.form.terms
    held = (terms.slope > 0) & (dual.rate * terms.counts.sum() > slack.rate)
    scarce = dual.gpus > slack.gpus
    bound = program.bound(dual)
    return Level(point.t, bound, dual.rate, held, scarce, program, point)


def finished(program: Program, point: Point) -> Shares:
    """Return the fractions of a point, centred, with all limits kept exactly."""
    groups = program.groups
    within = _RESIDUES if groups.idle else CENTRED
    single, paired = program.split(centred(program.form, point, within).x)
    if groups.idle:
        return shares_of(groups, single, paired)
    time = _time(groups, single, paired)
    single = np.where(single < _TINY * time[:, None], 0.0, single)
    pairs = groups.pairs
    if pairs is not None and len(paired):
        counts = groups.counts
        total = pairs.weights(counts) / np.minimum(counts[pairs.first], counts[pairs.second])
        least = _TINY * np.minimum(time[pairs.first], time[pairs.second])
        paired = np.where(paired * total[:, None] < least[:, None], 0.0, paired)
    return shares_of(groups, single, paired)


def shares_of(groups: Groups, single: Floats, paired: Floats) -> Shares:
    """Return fractions as an answer, scaled down where rounding has passed a limit."""
    over = np.maximum(_time(groups, single, paired), 1.0)
    single = single / over[:, None]
    pairs = groups.pairs
    used = (groups.counts * groups.gangs) @ single
    if pairs is not None and len(paired):
        paired = paired / np.maximum(over[pairs.first], over[pairs.second])[:, None]
        used = used + (pairs.weights(groups.counts) * groups.gangs[pairs.first]) @ paired
    fits = np.minimum(1.0, groups.capacity / np.maximum(used, 1e-300))
    single, paired = single * fits, paired * fits
    rates = throughputs(groups, single, paired)
    return Shares(Status.optimal, 0.0, 0.0, single, paired, rates)


def throughputs(groups: Groups, single: Floats, paired: Floats) -> Floats:
    """Return each job's steps a second: effective throughput (OSDI 2020, 3.1)."""
    rates: Floats = (groups.rates * single).sum(axis=1)
    pairs = groups.pairs
    if pairs is None or not len(paired):
        return rates
    weights = pairs.weights(groups.counts)
    for side, beside in ((pairs.first, pairs.first_rates), (pairs.second, pairs.second_rates)):
        steps = weights * (beside * paired).sum(axis=1)
        rates = rates + np.bincount(side, steps, len(rates)) / groups.counts
    return rates


def concluded(shares: Shares, objective: float, bound: float, solves: int) -> Shares:
    """Return an answer with its objective, and whether the bound certifies it."""
    certain = abs(bound - objective) <= CERTIFIED * max(abs(objective), 1e-300)
    status = Status.optimal if certain else Status.stalled
    return replace(shares, status=status, objective=objective, bound=bound, solves=solves)


def _time(groups: Groups, single: Floats, paired: Floats) -> Floats:
    time: Floats = single.sum(axis=1)
    pairs = groups.pairs
    if pairs is None or not len(paired):
        return time
    together = pairs.weights(groups.counts) * paired.sum(axis=1)
    both = np.bincount(pairs.first, together, len(time)) + np.bincount(
        pairs.second, together, len(time)
    )
    return time + both / groups.counts


# Max-min fairness and makespan, one largest level each, and shares that need no program.
#
# OSDI 2020, sections 4.1 and 4.2; isolated shares are the yardstick of section 5.


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


# Where a rising function is 0: Newton's method in a bracket, or bisection.

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


# Finish-time fairness: the least largest ratio of finish times (OSDI 2020, section 4.3).
#
# A job that has run for e, has n steps left and would have needed D on its own share finishes at
# ρ D if it gets n / (ρ D − e) steps a second from now on. Whether all can have that is a largest
# level of at least 1, which rises with ρ and is close to linear in it; its slope is in the duals.

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


# The largest sum of throughputs, per second or per dollar (OSDI 2020, section 4.2).
#
# With deadlines, throughputs have demands as well. Whether these can be met is a largest level, and
# the point where it exceeds 1 is inside the limits of the sum.

_SUMS_ROUGH = 0.02  # accuracy of a level that only has to exceed 1
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
        level = largest_level(groups, demand, _SUMS_ROUGH)
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
