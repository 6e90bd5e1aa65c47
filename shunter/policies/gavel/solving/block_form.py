"""The form without space sharing: a 2×2 system for each group, one small matrix for all.

A fraction belongs to one group and one GPU type, so the Newton system is the 2×2 blocks of
throughput and time, bordered by a row for each GPU type and one for the level. The blocks are
solved in closed form, and the border by elimination (a Schur complement). Differences of large
sums are written as sums of products of differences, which stay exact where fractions are all but
fixed; the work is O(groups · types²) a step.
"""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np

from shunter.policies.gavel.solving.interior import Floats, Rows, Terms

_sum: Final = np.add.reduce  # as the method of arrays, which takes longer to get there


@dataclass(slots=True)
class BlockForm:
    """A program over fractions of shape (GPU types, groups).

    `rate` is a and `share` is s. Where `usable` is 0, so are they: the fraction has no part.
    The rest is what every step needs of these: n s, n d, n s s', the squares and the products of
    a, their differences, and the products of the differences to each third type.
    """

    rate: Floats
    share: Floats
    usable: Floats
    terms: Terms
    used: Floats = field(init=False)
    sloped: Floats = field(init=False)
    used_share: Floats = field(init=False)
    squares: Floats = field(init=False)
    products: dict[tuple[int, int], Floats] = field(init=False)
    apart: Floats = field(init=False)
    thirds: dict[tuple[int, int], list[tuple[int, Floats]]] = field(init=False)

    def __post_init__(self) -> None:
        rate, types = self.rate, range(len(self.rate))
        self.used = self.terms.counts * self.share
        self.sloped = self.terms.counts * self.terms.slope
        self.used_share = self.used[:, None] * self.share
        self.squares = rate * rate
        self.apart = rate[:, None] - rate
        self.products = {(j, k): rate[j] * rate[k] for j, k in combinations(types, 2)}
        self.thirds = {
            (j, k): [(i, self.apart[i, j] * self.apart[i, k]) for i in types if i not in {j, k}]
            for j, k in self.products
        }

    def rows(self, x: Floats) -> Rows:
        """Return throughput, time and GPUs taken by fractions."""
        gpus = _sum(self.used * x, 1)
        return Rows(_sum(self.rate * x, 0), _sum(self.usable * x, 0), gpus)

    def columns(self, dual: Rows) -> Floats:
        """Return what the duals make of each fraction."""
        return self.usable * dual.time + self.share * dual.gpus[:, None] - self.rate * dual.rate

    def factor(self, scale: Floats, ratio: Rows) -> "BlockFactor":
        """Factorise the Newton system."""
        return BlockFactor(self, scale * self.usable, ratio)


class BlockFactor:
    """The inverse blocks, and what they leave for the GPU types and the level.

    With B = (a, −1) of a group and M = B D B' + diag(U, V), `free` is D − D B' M⁻¹ B D, how
    fractions answer to costs, and `lift` and `drop` are the columns of D B' M⁻¹.
    """

    def __init__(self, form: BlockForm, scale: Floats, ratio: Rows) -> None:
        rate, terms = form.rate, form.terms
        self.form, self.scale = form, scale
        self.freest, self.every = scale.argmax(axis=0), np.arange(scale.shape[1])
        weighted = rate * scale
        ones, mixed, squares = _sum(scale, 0), _sum(weighted, 0), _sum(rate * weighted, 0)
        inverse = self._invert(weighted, ones, squares, ratio)
        self.rate_rate = (ones + ratio.time) * inverse
        self.rate_time = mixed * inverse
        self.pull = _sum(form.used * self.lift * terms.slope, 1)
        self.give = float((form.sloped * terms.slope * self.rate_rate).sum())
        self.border = _sum(form.used_share * self.free, 2)
        self.border[np.diag_indices(len(rate))] += ratio.gpus
        if self.give > 0:
            self.border += self.pull[:, None] * self.pull / self.give

    def _invert(self, weighted: Floats, ones: Floats, squares: Floats, ratio: Rows) -> Floats:
        """Set how fractions answer; return the inverse of the determinants of the blocks."""
        form, scale = self.form, self.scale
        types, apart = range(len(scale)), form.apart
        spread = {(j, k): scale[j] * scale[k] * apart[j, k] ** 2 for j, k in form.products}
        both = ratio.rate * ratio.time
        determinant = ratio.rate * ones + ratio.time * squares + both
        for value in spread.values():
            determinant += value
        inverse: Floats = 1.0 / determinant
        unit = scale * inverse
        alone = scale * (ratio.rate + ratio.time * form.squares)
        self.lift = unit * (ratio.time * form.rate + _sum(scale * apart, 1))
        self.drop = unit * (_sum(weighted * apart, 1) - ratio.rate)
        self.free = np.empty((len(scale), *scale.shape))
        for j in types:
            rest = both.copy()
            for k in types:
                if k != j:
                    rest += alone[k]
            for pair, value in spread.items():
                if j not in pair:
                    rest += value
            self.free[j, j] = unit[j] * rest
        for (j, k), thirds in form.thirds.items():
            off = ratio.rate + ratio.time * form.products[j, k]
            for i, product in thirds:
                off += scale[i] * product
            self.free[j, k] = self.free[k, j] = -unit[j] * scale[k] * off
        return inverse

    def solve(self, cost: Floats, rows: Rows, level: float) -> tuple[Floats, Rows, float]:
        """Return the changes of the fractions, of the duals and of the level."""
        terms, pull, give = self.form.terms, self.pull, self.give
        held = self._fractions(cost, rows.rate, rows.time)
        y = self._rate_duals(cost, rows.rate, rows.time)
        right = _sum(self.form.used * held, 1) - rows.gpus
        if give > 0:
            short = level - float(_sum(self.form.sloped * y, 0))
            gpus = np.linalg.solve(self.border, right + pull * (short / give))
            t = (short - float((pull * gpus).sum())) / give
        else:
            gpus, t = np.linalg.solve(self.border, right), 0.0
        cost = cost - self.form.share * gpus[:, None]
        rate = rows.rate + terms.slope * t
        moved = self._fractions(cost, rate, rows.time)
        y = self._rate_duals(cost, rate, rows.time)
        # Where fractions are free, y and q are large numbers with a small difference, the reduced
        # cost. So q is what the freest fraction of the group makes it.
        q = (cost - moved / np.maximum(self.scale, 1e-300) + self.form.rate * y)[
            self.freest, self.every
        ]
        return moved, Rows(y, q, gpus), t

    def _fractions(self, cost: Floats, rate: Floats, time: Floats) -> Floats:
        answer: Floats = _sum(self.free * cost, 1) + self.lift * rate - self.drop * time
        return answer

    def _rate_duals(self, cost: Floats, rate: Floats, time: Floats) -> Floats:
        moved = self.scale * cost
        rate = rate - _sum(self.form.rate * moved, 0)
        answer: Floats = self.rate_rate * rate + self.rate_time * (_sum(moved, 0) - time)
        return answer
