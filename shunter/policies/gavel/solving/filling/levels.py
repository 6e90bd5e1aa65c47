"""Water filling and hierarchical fairness: lexicographic max-min (OSDI 2020, section 4.3).

Deviation: the paper solves a program for each bottleneck and a mixed-integer one to find who can
still improve. Two facts make few programs enough. At the end of the central path strict
complementarity tells who is held, and which GPU types are used up at a price: whoever is not held
has no part in these. So there are at most as many bottlenecks as GPU types, and between two of
them groups only stop at their caps, which is known beforehand. Each bottleneck is then a root of
one variable: how far the level can rise until demands, cut at the caps, no longer fit. The duals
of one try bound every other one (Kelley, J. SIAM 8, 1960), so few tries find it.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.answers import (
    Level,
    concluded,
    finished,
    largest_level,
    root,
)
from shunter.policies.gavel.solving.groups import Groups, Shares, Status, proportional_rates
from shunter.policies.gavel.solving.interior import Floats

# What the duals of one program say of all demands: how much of the GPUs they take at least.
#
# At any prices of GPUs, what it costs to serve each group at the least, with no more than all of
# its time, is not above what all GPUs cost if the demands fit (weak duality). Without pairs a
# group's least cost is a convex function of its demand, the lower hull of its types' rates and
# costs, which bends where the cheap types are not fast enough any more. With pairs the duals' own
# line has to do.


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


# What groups demand at a fill level: flat, or in entities (OSDI 2020, section 4.3).
#
# Throughputs are counted in shares of p, the proportional throughput. A group never demands more
# than its cap: all of its time on the fastest GPUs that are left.


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


# By how much demands of the held are eased, so that they are not what limits the others. With pairs
# levels are less exact.
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
