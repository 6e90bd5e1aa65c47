"""What the duals of one program say of all demands: how much of the GPUs they take at least.

At any prices of GPUs, what it costs to serve each group at the least, with no more than all of its
time, is not above what all GPUs cost if the demands fit (weak duality). Without pairs a group's
least cost is a convex function of its demand, the lower hull of its types' rates and costs, which
bends where the cheap types are not fast enough any more. With pairs the duals' own line has to do.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shunter.policies.gavel.solving.groups import Groups
from shunter.policies.gavel.solving.interior import Floats


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
