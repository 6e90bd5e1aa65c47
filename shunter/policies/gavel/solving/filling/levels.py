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

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.answers import (
    Level,
    concluded,
    finished,
    largest_level,
)
from shunter.policies.gavel.solving.filling.cuts import Cut, LineCut, PriceCut
from shunter.policies.gavel.solving.filling.fill_curves import (
    Entities,
    FillCurve,
    FillLevel,
    Flat,
    Queues,
)
from shunter.policies.gavel.solving.groups import Groups, Shares, Status, proportional_rates
from shunter.policies.gavel.solving.interior import Floats
from shunter.policies.gavel.solving.roots import root

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
