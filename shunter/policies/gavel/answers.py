"""The problems of Gavel's policies and their answers: groups of jobs in, fractions of time out.

In this order: programs, largest levels, finish times, sums, water filling and hierarchies.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.interior import CENTRED, Floats, Point, centred, follow
from shunter.policies.gavel.programs import Groups, Program, Shares, Status, proportional_rates

# Programs solved to the end, with rounding removed and limits exact.

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


# Max-min fairness and makespan (OSDI 2020, 4.1 and 4.2), isolated shares (section 5).


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


# Finish-time fairness (OSDI 2020, section 4.3): all jobs can finish at ρ D if a largest level, for
# demands of n / (ρ D − e), is at least 1. It rises with ρ almost linearly, by a slope of the duals.

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


# The largest sum of throughputs, per second or per dollar (OSDI 2020, section 4.2). Deadlines are
# demands; a point whose largest level exceeds 1 is inside the limits of the sum.

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


# Water filling and hierarchical fairness: lexicographic max-min (OSDI 2020, section 4.3).
#
# Deviation: the paper solves a program for each bottleneck and a mixed-integer one to find who can
# still improve. At the end of the central path strict complementarity says who is held and which
# GPU types have a price, so there are at most as many bottlenecks as types. Each is a root of one
# variable, and the duals of one try bound all others (Kelley, J. SIAM 8, 1960).

# A cut: at any prices, the least cost to serve all groups is not above that of all GPUs if the
# demands fit (weak duality). Without pairs a group's least cost is the lower hull of its types'
# rates and costs; with pairs it is the duals' own line.


class Cut(Protocol):
    """A bound on demands."""

    def at(self, demand: Floats) -> tuple[float, Floats]:
        """Return what demands take at least, 1 being all there is, and each one's slope."""
        ...


@dataclass(frozen=True, slots=True)
class LineCut:
    """As much for each unit of a demand, whatever it is: shape (groups,)."""

    rates: Floats

    def at(self, demand: Floats) -> tuple[float, Floats]:
        """Return what demands take at least, and each one's slope."""
        return float((self.rates * demand).sum()), self.rates


@dataclass(frozen=True, slots=True)
class PriceCut:
    """Segments between two types, or one and nothing: shape (segments, groups).

    `low` and `high` are the demands they span, `cost` is that at the low end, for all jobs of a
    group, and `slope` what each unit more costs. The lowest segment is the hull.
    """

    low: Floats
    high: Floats
    cost: Floats
    slope: Floats

    @classmethod
    def of(cls, groups: Groups, unit: Floats, price: Floats) -> "PriceCut":
        """Return the cut of prices.

        Args:
            groups: who shares what, none of them in pairs.
            unit: shape (groups,), steps a second in a demand of 1.
            price: shape (types,), of all GPUs of a type; they sum to 1.
        """
        there = groups.capacity > 0
        width = groups.counts * groups.gangs
        costs = np.vstack([np.zeros_like(width), np.outer((price / groups.capacity)[there], width)])
        rates = np.vstack([np.zeros_like(width), groups.rates[:, there].T / unit])
        one, other = np.triu_indices(len(rates), 1)
        turned = rates[one] > rates[other]
        low, high = np.where(turned, rates[other], rates[one]), np.maximum(rates[one], rates[other])
        start = np.where(turned, costs[other], costs[one])
        end = np.where(turned, costs[one], costs[other])
        length = np.maximum(high - low, 1e-300)
        return cls(low, high, start, (end - start) / length)

    def at(self, demand: Floats) -> tuple[float, Floats]:
        """Return what demands take at least, and each one's slope."""
        asked = np.minimum(demand, self.high.max(axis=0))
        spans = (self.low <= asked) & (asked <= self.high)
        costs = np.where(spans, self.cost + self.slope * (asked - self.low), np.inf)
        lowest, every = costs.argmin(axis=0), np.arange(len(asked))
        return float(costs[lowest, every].sum()), self.slope[lowest, every]


# Demands at a fill level (OSDI 2020, section 4.3), in shares of p, the proportional throughput. A
# group's cap is all of its time on the fastest GPUs that are left.


@dataclass(frozen=True, slots=True)
class FillLevel:
    """Where the filling stands: what groups have and can have, who is not held."""

    base: Floats
    cap: Floats
    active: NDArray[np.bool_]


class FillCurve(Protocol):
    """How groups fill up."""

    def at(self, fill: FillLevel, rise: float) -> tuple[Floats, Floats]:
        """Return what groups demand once the level has risen so far, and their slopes."""
        ...


@dataclass(frozen=True, slots=True)
class Flat:
    """Every group that is not held rises with its weight over its gang."""

    weights: Floats
    gangs: Floats

    def at(self, fill: FillLevel, rise: float) -> tuple[Floats, Floats]:
        """Return demands and slopes."""
        slope = np.where(fill.active, self.weights / self.gangs, 0.0)
        demand = fill.base + slope * rise
        full = demand >= fill.cap
        return np.where(full & fill.active, fill.cap, demand), np.where(full, 0.0, slope)


@dataclass(frozen=True, slots=True)
class Entities:
    """An entity rises with its weight, shared among its groups not held.

    Args:
        entity: shape (groups,), whose group it is.
        entity_weights: shape (entities,).
        weights: shape (groups,), of a job within its entity.
        gangs: shape (groups,).
        counts: shape (groups,).
    """

    entity: NDArray[np.intp]
    entity_weights: Floats
    weights: Floats
    gangs: Floats
    counts: Floats

    def at(self, fill: FillLevel, rise: float) -> tuple[Floats, Floats]:
        """Return demands and slopes."""
        demand, slope = fill.base.copy(), np.zeros_like(fill.base)
        mass = self.counts * self.weights
        depth = (fill.cap - fill.base) * self.gangs / self.weights
        for entity, weight in enumerate(self.entity_weights):
            mine = np.flatnonzero((self.entity == entity) & fill.active)
            mine = mine[np.argsort(depth[mine], kind="stable")]
            if not len(mine):
                continue
            heavy = np.cumsum(mass[mine][::-1])[::-1]  # what still rises when one is reached
            steps = np.diff(depth[mine], prepend=0.0) * heavy
            full = int(np.searchsorted(np.cumsum(steps), weight * rise, side="right"))
            demand[mine[:full]] = fill.cap[mine[:full]]
            if full < len(mine):
                rest = mine[full:]
                below = depth[mine[full - 1]] if full else 0.0
                spent = float(steps[:full].sum())
                reached = below + (weight * rise - spent) / heavy[full]
                pace = self.weights[rest] / self.gangs[rest]
                demand[rest] += reached * pace
                slope[rest] = pace * weight / heavy[full]
        return demand, slope


@dataclass(frozen=True, slots=True)
class Queues:
    """An entity rises with its weight, all for its first group not held.

    The order of the groups is the order of the queue; a group of several jobs rises as one.
    """

    entity: NDArray[np.intp]
    entity_weights: Floats
    gangs: Floats
    counts: Floats

    def at(self, fill: FillLevel, rise: float) -> tuple[Floats, Floats]:
        """Return demands and slopes."""
        demand, slope = fill.base.copy(), np.zeros_like(fill.base)
        width = self.gangs * self.counts
        for entity, weight in enumerate(self.entity_weights):
            mine = np.flatnonzero((self.entity == entity) & fill.active)
            need = np.cumsum((fill.cap - fill.base)[mine] * width[mine])
            full = int(np.searchsorted(need, weight * rise, side="right"))
            demand[mine[:full]] = fill.cap[mine[:full]]
            if full < len(mine):
                spent = float(need[full - 1]) if full else 0.0
                demand[mine[full]] += (weight * rise - spent) / width[mine[full]]
                slope[mine[full]] = weight / width[mine[full]]
        return demand, slope


# How much the demands of the held are eased, so that they do not limit the others.
_EASE, _EASE_PAIRED = 3e-8, 1e-7
_LITTLE = 1e-6  # of a cap: a demand this small waits, its row would have no scale
_FULL = 1e-9  # of a cap: a group this close has reached it
_SAME = 1e-10  # of a demand: two as close are one, and there is no more to learn
_CUTS_MAX = 40


def water_filling(groups: Groups, weights: Floats) -> Shares:
    """Maximise the least s T·x / (w p), then the least of all others, and so on.

    Objective: the part of the levels that the fractions reach, 1 but for rounding; the levels
    themselves are the throughputs.

    Args:
        groups: who shares what.
        weights: shape (groups,), w, above 0.
    """
    if bool((weights > 0).all()):
        return _fill(groups, Flat(weights, groups.gangs))
    return Shares.none(groups, groups.fault() or Status.invalid)


def hierarchical(
    groups: Groups,
    entity: NDArray[np.intp],
    entity_weights: Floats,
    weights: Floats | None,
) -> Shares:
    """Fill entities by weight; inside, jobs by weight, or first in first out.

    Objective: as for `water_filling`.

    Args:
        groups: who shares what; in the order of arrival where there are no weights.
        entity: shape (groups,), an index of `entity_weights`.
        entity_weights: shape (entities,), above 0.
        weights: shape (groups,), above 0, or None.
    """
    known = entity.shape == groups.counts.shape and bool((entity_weights > 0).all())
    known = known and bool(((entity >= 0) & (entity < len(entity_weights))).all())
    if not known or (weights is not None and not bool((weights > 0).all())):
        return Shares.none(groups, groups.fault() or Status.invalid)
    if weights is None:
        return _fill(groups, Queues(entity, entity_weights, groups.gangs, groups.counts))
    inside = Entities(entity, entity_weights, weights, groups.gangs, groups.counts)
    return _fill(groups, inside)


def _fill(groups: Groups, curve: FillCurve) -> Shares:
    fault = groups.fault()
    if fault is not None:
        return Shares.none(groups, fault)
    filling = _Filling(groups, curve, proportional_rates(groups))
    while filling.active.any():
        filling.rise()
    level = filling.level(filling.base)
    shares = finished(level.program, level.point)
    wants = filling.base > 0
    reached = shares.throughputs[wants] / (filling.base * filling.unit)[wants]
    return concluded(shares, float(reached.min()), 1.0, filling.solves)


@dataclass(slots=True)
class _Filling:
    """Groups fill until each is held by a bottleneck or full."""

    groups: Groups
    curve: FillCurve
    unit: Floats
    base: Floats = field(init=False)
    active: NDArray[np.bool_] = field(init=False)
    types: NDArray[np.bool_] = field(init=False)
    cuts: list[Cut] = field(default_factory=list)
    solves: int = 0

    def __post_init__(self) -> None:
        self.base = np.zeros(len(self.groups.counts))
        self.active = np.ones(len(self.groups.counts), np.bool_)
        self.types = self.groups.capacity > 0
        if self.groups.pairs is None:  # any prices say something
            even = self.types / max(int(self.types.sum()), 1)
            self.cuts.append(PriceCut.of(self.groups, self.unit, even))

    def level(self, demand: Floats) -> Level:
        """Return the level at which the demands fit; at 1 they just do."""
        self.solves += 1
        return largest_level(self.groups, demand * self.unit)

    def try_out(self, demand: Floats) -> Level:
        """Return the same without the fractions of who demands nothing.

        They do not limit the level. Beside another job they might serve it, so pairs keep all.
        """
        wants = demand > 0
        if self.groups.pairs is not None or wants.all():
            return self.level(demand)
        self.solves += 1
        level = largest_level(self.groups.only(wants), (demand * self.unit)[wants])
        weight, held = np.zeros_like(demand), np.zeros_like(wants)
        weight[wants], held[wants] = level.weight, level.held
        return replace(level, weight=weight, held=held)

    def rise(self) -> None:
        """Let the active groups rise to their caps, or to the next bottleneck."""
        last: Level | None = None
        ease = _EASE if self.groups.pairs is None else _EASE_PAIRED
        cap = np.maximum(self.groups.fastest(self.types) / self.unit, self.base)
        eased = np.where(self.active, 1.0, 1.0 - ease)
        fill = FillLevel(self.base, np.maximum(cap * (1.0 - ease), self.base), self.active)
        top = np.where(self.active, cap, self.base)
        if not any(cut.at(top * eased)[0] > 1.0 + ease for cut in self.cuts):
            last = self.try_out(top * eased)
            if last.value >= 1.0 - 0.5 * ease:
                self.base, self.active = top, np.zeros_like(self.active)
                return
            self._cut(last, top * eased)

        def held_up(rise: float) -> tuple[float, float]:
            """Return how far demands are above what the known duals allow, and its slope."""
            demand, slope = self.curve.at(fill, rise)
            gauge, rates = max((cut.at(demand * eased) for cut in self.cuts), key=lambda of: of[0])
            return gauge - 1.0, float((rates * slope * eased).sum())

        found, before, low = self._first(fill), self.base, 0.0
        little, demand = np.zeros_like(self.active), self.base
        for _ in range(_CUTS_MAX):
            found = root(held_up, found, low, (-1e-12, 1e-12))
            demand, _ = self.curve.at(fill, found)
            same = bool((np.abs(demand - before) <= _SAME * demand).all())
            little = (demand > 0) & (demand < _LITTLE * cap)
            asked = np.where(little, 0.0, demand) * eased
            last = self.try_out(asked)
            gauge = 1.0 / last.value
            if -0.5 * ease <= gauge - 1.0 <= 0.1 * ease or same:
                break
            before = demand
            self._cut(last, asked)
            if gauge < 1.0 and little.any():  # are these what does not fit?
                asked = np.where(little, _LITTLE * cap, demand) * eased
                last = self.try_out(asked)
                if last.value <= 1.0:
                    break
                self._cut(last, asked)
            low = found if gauge < 1.0 else low
        assert last is not None, "tried once at least"
        self.base = np.where(little, 0.0, demand)
        self._hold(last, self.base >= fill.cap * (1.0 - _FULL))

    def _cut(self, level: Level, asked: Floats) -> None:
        """Keep what duals say of all demands: those above 1 here do not fit."""
        if self.groups.pairs is None:
            price = level.point.dual.gpus / level.point.dual.gpus.sum()
            self.cuts.append(PriceCut.of(self.groups, self.unit, price))
            return
        weight = self.groups.counts * level.weight / level.bound
        self.cuts.append(LineCut(np.where(asked > 0, weight / np.maximum(asked, 1e-300), 0.0)))

    def _first(self, fill: FillLevel) -> float:
        """Return a rise to begin with: what would use up all GPUs at proportional rates."""
        _, slope = self.curve.at(fill, 0.0)
        groups = self.groups
        pace = float((groups.counts * groups.gangs * slope).sum())
        return max(float(groups.capacity.sum()) / max(pace, 1e-300), 1e-300)

    def _hold(self, level: Level, full: NDArray[np.bool_]) -> None:
        """Take out who is held or full, and the GPU types that are used up."""
        held = self.active & (level.held | full)
        if not held.any():  # rounding hides who: take who weighs most
            held = self.active & (level.weight >= level.weight[self.active].max())
        self.active = self.active & ~held
        self.types = self.types & ~level.scarce
        alive = self.groups.fastest(self.types) > 0
        self.active = self.active & alive
