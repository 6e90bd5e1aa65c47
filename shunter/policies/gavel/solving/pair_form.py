"""The form with space sharing: fractions of single jobs and of pairs (OSDI 2020, section 3.1).

A pair belongs to two groups, so groups are no longer apart, and the Newton system is one dense
matrix of two rows a group and one a GPU type. It is small where jobs are grouped: 83 groups have
over a thousand pairs, but 169 rows.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.solving.interior import Floats, Rows, Terms

_BLOCK = 48
_LEAST = 1e-14  # of a unit diagonal: keeps rows apart that say the same


def block_positions(
    size: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return where entries of a square matrix lie in its flat array of blocks."""
    tile = (first // _BLOCK) * -(-size // _BLOCK) + second // _BLOCK
    return (tile * _BLOCK + first % _BLOCK) * _BLOCK + second % _BLOCK


def blocked_entries(size: int) -> int:
    """Return the length of the flat array of blocks of a square matrix."""
    return (-(-size // _BLOCK) * _BLOCK) ** 2


class BlockedCholesky:
    """A factorised positive definite matrix: an array of blocks, and a diagonal.

    Linear algebra libraries turn to threads from a size on that depends on how they were built. A
    block is below every such size, so that one thread computes the factors, in one order, whatever
    the environment says. The method is the right-looking blocked one (Golub and Van Loan, Matrix
    Computations, 4th edition, section 4.2.9).
    """

    def __init__(self, size: int, entries: Floats, diagonal: Floats) -> None:
        self.size = size
        side = -(-size // _BLOCK)
        tiles = entries.reshape(side, side, _BLOCK, _BLOCK)
        steps = np.arange(side * _BLOCK)
        block, place = steps // _BLOCK, steps % _BLOCK
        whole = tiles[block, block, place, place]
        whole[:size] += diagonal
        whole[size:] = 1.0
        self.norm = (1.0 / np.sqrt(whole)).reshape(side, _BLOCK)
        tiles = tiles * self.norm[:, None, :, None] * self.norm[None, :, None, :]
        tiles[block, block, place, place] = 1.0 + _LEAST
        self.inverses = np.empty((side, _BLOCK, _BLOCK))
        for k in range(side):
            self.inverses[k] = np.linalg.inv(np.linalg.cholesky(tiles[k, k]))
            panel = tiles[k + 1 :, k] @ self.inverses[k].T
            tiles[k + 1 :, k] = panel
            tiles[k + 1 :, k + 1 :] -= panel[:, None] @ panel[None].transpose(0, 1, 3, 2)
        self.lower = tiles

    def solve(self, right: Floats) -> Floats:
        """Return the solution for one right side."""
        full = np.zeros_like(self.norm)
        full.reshape(-1)[: self.size] = right
        full *= self.norm
        for k in range(len(full)):
            full[k] = self.inverses[k] @ full[k]
            full[k + 1 :] -= self.lower[k + 1 :, k] @ full[k]
        for k in reversed(range(len(full))):
            full[k] -= (self.lower[k + 1 :, k] * full[k + 1 :, :, None]).sum(axis=(0, 1))
            full[k] = self.inverses[k].T @ full[k]
        full *= self.norm
        return full.reshape(-1)[: self.size]


Places = NDArray[np.intp]

_REFINED = 2  # solves with one factor, the second for what rounding left of the first


@dataclass(frozen=True, slots=True)
class Ends:
    """The groups and the GPU type of each fraction; a single job is its own second."""

    first: Places
    second: Places
    kind: Places


@dataclass(slots=True)
class PairForm:
    """A program over fractions of each job, or pair of jobs, and GPU type.

    The second rate and time of a single job are 0. The weights of `terms` count pairs of jobs.
    """

    ends: Ends
    first_rate: Floats
    second_rate: Floats
    second_time: Floats
    share: Floats
    types: int
    terms: Terms
    size: int = field(init=False)
    lines: Places = field(init=False)
    factors: Floats = field(init=False)
    products: Floats = field(init=False)
    positions: Places = field(init=False)

    def __post_init__(self) -> None:
        groups, time = len(self.terms.counts), np.ones(len(self.first_rate))
        first, second, kind = self.ends.first, self.ends.second, 2 * groups + self.ends.kind
        self.size = 2 * groups + self.types
        self.lines = np.stack([first, second, groups + first, groups + second, kind])
        self.factors = np.stack(
            [-self.first_rate, -self.second_rate, time, self.second_time, self.share]
        )
        self.products = self.factors[:, None] * self.factors[None] * self.terms.weights
        self.positions = block_positions(self.size, self.lines[:, None], self.lines[None])

    def rows(self, x: Floats) -> Rows:
        """Return throughput, time and GPUs taken by fractions."""
        rate, time, gpus = self.split(self.gathered(x))
        return Rows(-rate / self.terms.counts, time / self.terms.counts, gpus)

    def columns(self, dual: Rows) -> Floats:
        """Return what the duals make of each fraction."""
        return self.spread(np.concatenate([dual.rate, dual.time, dual.gpus]))

    def factor(self, scale: Floats, ratio: Rows) -> "PairFactor":
        """Factorise the Newton system."""
        return PairFactor(self, scale, ratio)

    def gathered(self, x: Floats) -> Floats:
        """Return a number for each row, summed over fractions and counted over jobs."""
        values = self.factors * (self.terms.weights * x)
        total = np.bincount(self.lines.reshape(-1), values.reshape(-1), self.size)
        return np.asarray(total, np.float64)

    def spread(self, values: Floats) -> Floats:
        """Return a number for each fraction, summed over its rows."""
        total: Floats = (self.factors * values[self.lines]).sum(axis=0)
        return total

    def split(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the parts of a number for each row."""
        groups = len(self.terms.counts)
        return values[:groups], values[groups : 2 * groups], values[2 * groups :]


class PairFactor:
    """The factorised matrix of all rows, bordered by the level."""

    def __init__(self, form: PairForm, scale: Floats, ratio: Rows) -> None:
        self.form, self.scale = form, scale
        counts, length = form.terms.counts, blocked_entries(form.size)
        values = (form.products * scale).reshape(-1)
        entries = np.asarray(np.bincount(form.positions.reshape(-1), values, length), np.float64)
        self.diagonal = np.concatenate([counts * ratio.rate, counts * ratio.time, ratio.gpus])
        self.matrix = BlockedCholesky(form.size, entries, self.diagonal)
        self.edge = np.zeros(form.size)
        self.edge[: len(counts)] = counts * form.terms.slope
        self.lift = self.matrix.solve(self.edge)
        self.give = float((self.edge * self.lift).sum())

    def solve(self, cost: Floats, rows: Rows, level: float) -> tuple[Floats, Rows, float]:
        """Return the changes of the fractions, of the duals and of the level."""
        form, counts = self.form, self.form.terms.counts
        wanted = np.concatenate([-counts * rows.rate, counts * rows.time, rows.gpus])
        duals, t = np.zeros(form.size), 0.0
        moved = self.scale * cost
        for _ in range(_REFINED):
            missed = form.gathered(moved) - self.diagonal * duals - wanted + self.edge * t
            more = self.matrix.solve(missed)
            if self.give > 0:
                rise = (level - float((self.edge * (duals + more)).sum())) / self.give
                more, t = more + self.lift * rise, t + rise
            duals = duals + more
            moved = self.scale * (cost - form.spread(duals))
        return moved, Rows(*form.split(duals)), t
