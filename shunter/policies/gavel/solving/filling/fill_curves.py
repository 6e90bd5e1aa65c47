"""What groups demand at a fill level: flat, or in entities (OSDI 2020, section 4.3).

Throughputs are counted in shares of p, the proportional throughput. A group never demands more
than its cap: all of its time on the fastest GPUs that are left.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.interior import Floats


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
