"""What is solved: groups of jobs in plain arrays, and the programs over them in two forms.

In this order: the form with space sharing, groups, the form without it, and the programs. Nothing
here knows of events, jobs or rounds.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shunter.policies.gavel.interior import Floats, Point, Rows, Terms

# The form with space sharing (OSDI 2020, section 3.1). A pair has two groups, so the Newton system
# is one dense matrix of two rows a group and one a GPU type: 169 rows for 83 groups.

_BLOCK = 48
_LEAST_PIVOT = 1e-14  # of a unit diagonal: keeps rows apart that say the same


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
        tiles[block, block, place, place] = 1.0 + _LEAST_PIVOT
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


# Groups of identical jobs. The programs are convex and symmetric in them, so an optimum with equal
# fractions exists, and a group is one row with a count (OSDI 2020, section 3).


class Status(StrEnum):
    """What became of a problem."""

    optimal = "optimal"
    stalled = "stalled"  # fractions keep every limit, but the objective is not certified to 1e-6
    infeasible = "infeasible"  # no fractions satisfy the demands: deadlines, say
    unrunnable = "unrunnable"  # a group has no throughput on any GPU type there is
    invalid = "invalid"  # shapes that do not fit, or numbers that are negative or not finite
    empty = "empty"  # no jobs


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of groups whose jobs may share GPUs, each pair once.

    Args:
        first: shape (pairs,), a group.
        second: shape (pairs,), a group of the same gang; the same one needs two jobs in it.
        first_rates: shape (pairs, types), steps a second of a job of the first beside the second.
        second_rates: shape (pairs, types), steps a second of the second; both 0 do not fit.
    """

    first: Places
    second: Places
    first_rates: Floats
    second_rates: Floats

    @classmethod
    def none(cls, groups: "Groups") -> "Pairs":
        """Return no pairs."""
        nobody, nothing = np.zeros(0, np.intp), np.zeros((0, len(groups.capacity)))
        return cls(nobody, nobody, nothing, nothing)

    def weights(self, counts: Floats) -> Floats:
        """Return how many pairs of jobs each pair of groups is."""
        same = self.first == self.second
        both = counts[self.first] * (counts[self.second] - same)
        weights: Floats = both / np.where(same, 2.0, 1.0)
        return weights


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of identical jobs, and the cluster.

    Args:
        rates: shape (groups, types), steps a second of a whole gang; 0 where it cannot run.
        counts: shape (groups,), jobs of each.
        gangs: shape (groups,), GPUs a job.
        capacity: shape (types,), GPUs.
        pairs: what may share GPUs, if anything.
        idle: do as the public code does: let time without throughput take part in the centre,
            and leave what the path has of fractions that are 0 at its end. It is in the order of
            what little they cost, and so is who gets left-over GPUs there.
    """

    rates: Floats
    counts: Floats
    gangs: Floats
    capacity: Floats
    pairs: Pairs | None = None
    idle: bool = False

    def fault(self) -> Status | None:
        """Return what keeps any policy from an answer."""
        groups = len(self.counts)
        if self.rates.shape != (groups, len(self.capacity)) or self.gangs.shape != (groups,):
            return Status.invalid
        if not groups:
            return Status.empty
        if not (_at_least(self.rates, 0) and _at_least(self.capacity, 0)):
            return Status.invalid
        if not (_at_least(self.counts, 1) and _at_least(self.gangs, 1)) or self._pairs_unfit():
            return Status.invalid
        runnable = ((self.rates > 0) & (self.capacity > 0)).any(axis=1)
        return None if runnable.all() else Status.unrunnable

    def only(self, chosen: NDArray[np.bool_]) -> "Groups":
        """Return some groups, of which none may share GPUs."""
        assert self.pairs is None
        counts, gangs = self.counts[chosen], self.gangs[chosen]
        return replace(self, rates=self.rates[chosen], counts=counts, gangs=gangs)

    def fastest(self, types: NDArray[np.bool_] | None = None) -> Floats:
        """Return the most steps a second of a job of each group, on GPU types of some."""
        usable = (self.capacity > 0) & (True if types is None else types)
        most: Floats = (self.rates * usable).max(axis=1)
        if self.pairs is not None and len(self.pairs.first):
            np.maximum.at(most, self.pairs.first, (self.pairs.first_rates * usable).max(axis=1))
            np.maximum.at(most, self.pairs.second, (self.pairs.second_rates * usable).max(axis=1))
        return most

    def _pairs_unfit(self) -> bool:
        pairs = self.pairs
        if pairs is None:
            return False
        shape = (len(pairs.first), len(self.capacity))
        if pairs.first_rates.shape != shape or pairs.second_rates.shape != shape:
            return True
        if pairs.second.shape != shape[:1]:
            return True
        groups = np.concatenate([pairs.first, pairs.second])
        if groups.size and not 0 <= groups.min() <= groups.max() < len(self.counts):
            return True
        if (self.gangs[pairs.first] != self.gangs[pairs.second]).any():
            return True
        return not (_at_least(pairs.first_rates, 0) and _at_least(pairs.second_rates, 0))


@dataclass(frozen=True, slots=True)
class Shares:
    """An answer.

    Args:
        status: whether it is one.
        objective: what the fractions reach; what it means is the policy's business.
        bound: what no fractions can beat, from the duals; equal to the objective where the
            policy solves no program.
        fractions: shape (groups, types), of the time of each job of a group.
        pair_fractions: shape (pairs, types), of each two jobs, of the time of both.
        throughputs: shape (groups,), steps a second of each job, pairs included.
        solves: how many programs it took.
    """

    status: Status
    objective: float
    bound: float
    fractions: Floats
    pair_fractions: Floats
    throughputs: Floats
    solves: int = 1

    @classmethod
    def none(cls, groups: Groups, status: Status) -> "Shares":
        """Return no shares, and why."""
        count, types = len(groups.counts), len(groups.capacity)
        pairs = len(groups.pairs.first) if groups.pairs else 0
        nothing = np.zeros((count, types)), np.zeros((pairs, types)), np.zeros(count)
        return cls(status, 0.0, 0.0, *nothing, solves=0)


def proportional_rates(groups: Groups) -> Floats:
    """Return p: the throughput of a share of every type in proportion to its GPUs.

    The normalisation of OSDI 2020, section 4.1, as the public code has it.
    """
    total = max(float(groups.capacity.sum()), 1e-300)
    share: Floats = (groups.rates * (groups.capacity / total)).sum(axis=1)
    return share


def alike(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Find identical rows.

    Returns:
        the first row of each group, in order of appearance; the group of each row; the counts.
    """
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    mixed = np.zeros(len(rows), np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first[group]], rows):  # two rows of one hash
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    group = place[group.reshape(-1)]
    return first[order], group, np.bincount(group, minlength=len(first))


def _at_least(values: Floats, least: float) -> bool:
    return bool(np.isfinite(values).all() and (values >= least).all())


# The form without space sharing: 2×2 blocks of throughput and time, bordered by a row for each GPU
# type and one for the level; solved in closed form and by a Schur complement in O(groups · types²).
# Differences of large sums are sums of products of differences, which stay exact.

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


# Programs: the largest level t at which throughputs are t times a demand, or the largest sum of
# values at which they are at least the demand.

_LEAST_CAPACITY = 1e-300


@dataclass(frozen=True, slots=True)
class _Asked:
    """The rows of throughput: demands for a step a second, the rest as `Terms`."""

    per_step: Floats
    slope: Floats
    floor: Floats
    price: float
    value: Floats


@dataclass(frozen=True, slots=True)
class Program:
    """A form, and how its fractions are those of groups and pairs.

    `single` and `paired` say where a flat array of fractions belongs: flat places in arrays of
    shapes (groups, types) and (pairs, types). Without pairs there is no need to say.
    """

    groups: Groups
    form: BlockForm | PairForm
    single: Places
    paired: Places

    @classmethod
    def for_level(cls, groups: Groups, demand: Floats, *, flat: bool = False) -> "Program":
        """Ask for the largest level of throughputs over demands; 0 demands nothing."""
        wants = demand > 0
        per_step = np.where(wants, 1.0 / np.where(wants, demand, 1.0), 0.0)
        none = np.zeros(len(groups.capacity))
        floor = np.where(wants, 0.0, -1.0)  # a row that says 0 ≥ −1 asks for nothing
        return cls._build(
            groups, _Asked(per_step, wants.astype(np.float64), floor, 1.0, none), flat=flat
        )

    @classmethod
    def for_sum(
        cls, groups: Groups, value: Floats, demand: Floats, *, flat: bool = False
    ) -> "Program":
        """Ask for the largest sum of steps times the value of a step on a GPU type."""
        wants = demand > 0
        per_step = np.where(wants, 1.0 / np.where(wants, demand, 1.0), 0.0)
        floor = np.where(wants, 1.0, -1.0)
        return cls._build(
            groups, _Asked(per_step, np.zeros(len(wants)), floor, 0.0, value), flat=flat
        )

    @classmethod
    def _build(cls, groups: Groups, asked: _Asked, *, flat: bool) -> "Program":
        if flat or (groups.pairs is not None and len(groups.pairs.first)):
            return cls._couples(groups, groups.pairs or Pairs.none(groups), asked)
        counts = groups.counts.astype(np.float64)
        rates = np.ascontiguousarray(groups.rates.T)
        usable = _usable(groups, groups.rates).T.astype(np.float64)
        # A gain of −1 gives what has no part a cost of 1, and no weight.
        gain = np.where(usable > 0, rates * asked.value[:, None], -1.0)
        types = len(groups.capacity)
        terms = Terms(counts, counts * usable, gain, asked.slope, asked.floor, asked.price, types)
        share = usable * groups.gangs / np.maximum(groups.capacity, _LEAST_CAPACITY)[:, None]
        nowhere = np.zeros(0, np.intp)
        form = BlockForm(rates * asked.per_step * usable, share, usable, terms)
        return cls(groups, form, nowhere, nowhere)

    @classmethod
    def _couples(cls, groups: Groups, pairs: Pairs, asked: _Asked) -> "Program":
        counts, types = groups.counts.astype(np.float64), len(groups.capacity)
        single = np.flatnonzero(_usable(groups, groups.rates))
        both = _usable(groups, pairs.first_rates) & _usable(groups, pairs.second_rates)
        both &= (pairs.weights(counts) > 0)[:, None]
        paired = np.flatnonzero(both)
        alone, pair = single // types, paired // types
        first = np.concatenate([alone, pairs.first[pair]])
        second = np.concatenate([alone, pairs.second[pair]])
        kind = np.concatenate([single % types, paired % types])
        nothing = np.zeros(len(single))
        rates = np.concatenate(
            [groups.rates.reshape(-1)[single], pairs.first_rates.reshape(-1)[paired]]
        )
        beside = np.concatenate([nothing, pairs.second_rates.reshape(-1)[paired]])
        weights = np.concatenate([counts[alone], pairs.weights(counts)[pair]])
        terms = Terms(
            counts,
            weights,
            (rates + beside) * asked.value[kind],
            asked.slope,
            asked.floor,
            asked.price,
            types,
            np.minimum(counts[first], counts[second]) / weights,
        )
        form = PairForm(
            Ends(first, second, kind),
            rates * asked.per_step[first],
            beside * asked.per_step[second],
            np.concatenate([nothing, np.ones(len(paired))]),
            groups.gangs[first] / groups.capacity[kind],
            types,
            terms,
        )
        return cls(groups, form, single, paired)

    @property
    def flat(self) -> PairForm:
        """The form over a flat array of fractions, which was asked for or has pairs."""
        assert isinstance(self.form, PairForm)
        return self.form

    def split(self, x: Floats) -> tuple[Floats, Floats]:
        """Return fractions of shapes (groups, types) and (pairs, types)."""
        types = len(self.groups.capacity)
        pairs = len(self.groups.pairs.first) if self.groups.pairs else 0
        pair_fractions = np.zeros(pairs * types)
        if isinstance(self.form, BlockForm):
            single = np.ascontiguousarray((x * self.form.usable).T)
            return single, pair_fractions.reshape(pairs, types)
        fractions = np.zeros(self.groups.rates.size)
        fractions[self.single] = x[: len(self.single)]
        pair_fractions[self.paired] = x[len(self.single) :]
        return fractions.reshape(-1, types), pair_fractions.reshape(pairs, types)

    def spread(self) -> Floats:
        """Return fractions that keep every limit and leave something of each."""
        form, terms = self.form, self.form.terms
        if isinstance(form, BlockForm):
            load = (terms.counts * form.share).sum(axis=1)
            even = 0.5 / np.maximum(load, len(load))
            return np.where(form.usable > 0, even[:, None], 1.0)
        x: Floats = np.minimum(terms.counts[form.ends.first], terms.counts[form.ends.second])
        x = x / terms.weights
        rows = form.rows(x)
        most = 2.0 + float(terms.weights.sum() / terms.counts.sum())
        return x * ((1.0 - 1.0 / most) / max(float(rows.time.max()), float(rows.gpus.max())))

    def start(self, x: Floats, scale: float) -> Point:
        """Return a point on which all equations hold.

        Products of slacks and duals are about `scale` or, for a level, what its price makes them.
        """
        form, terms = self.form, self.form.terms
        rows, level, mean = form.rows(x), 0.0, scale
        if terms.price > 0:
            level = 0.5 * float(rows.rate[terms.slope > 0].min())
        rate = rows.rate - terms.slope * level - terms.floor
        slack = Rows(rate, 1.0 - rows.time, 1.0 - rows.gpus)
        if terms.price > 0:
            mean = terms.price / float((terms.counts * terms.slope / rate).sum())
        dual = Rows(mean / slack.rate, mean / slack.time, mean / slack.gpus)
        cost = form.columns(dual) - terms.gain
        dual.time = dual.time + max(0.0, -float(cost.min())) + 0.3 * mean / float(np.median(x))
        cost = form.columns(dual) - terms.gain
        return Point.of(x, level, slack, dual, cost)

    def bound(self, dual: Rows) -> float:
        """Return what no fractions can beat: weak duality, whatever the duals are worth."""
        terms = self.form.terms
        y = np.where(terms.floor < 0, 0.0, dual.rate)
        if terms.price == 0:
            return self._bound(y, dual)
        # The duals of a level sum to its price. What rounding took may be of all, or of the one
        # that weighs most; both are bounds.
        weight = terms.counts * terms.slope
        total, most = float((weight * y).sum()), int((weight * y).argmax())
        other = y.copy()
        other[most] = max(0.0, y[most] + (terms.price - total) / weight[most])
        other *= terms.price / float((weight * other).sum())
        return min(self._bound(y * (terms.price / total), dual), self._bound(other, dual))

    def _bound(self, y: Floats, dual: Rows) -> float:
        form, terms = self.form, self.form.terms
        short = terms.gain - form.columns(Rows(y, dual.time, dual.gpus))
        q = dual.time.copy()
        if isinstance(form, BlockForm):
            q += np.maximum(np.where(form.usable > 0, short, -q), -q).max(axis=0)
        else:
            np.maximum.at(q, form.ends.first, dual.time[form.ends.first] + short)
        floors = float((terms.counts * np.maximum(terms.floor, 0.0) * y).sum())
        return float(dual.gpus.sum() + (terms.counts * q).sum()) - floors


def _usable(groups: Groups, rates: Floats) -> NDArray[np.bool_]:
    """Say which fractions take part at all."""
    usable: NDArray[np.bool_] = ((rates > 0) | groups.idle) & (groups.capacity > 0)
    return usable
