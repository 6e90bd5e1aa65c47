"""A primal-dual interior-point method for programs of many small blocks and few common rows.

Every linear objective of Gavel has one form (Narayanan et al., OSDI 2020, section 4). With n_i
the number of identical jobs in group i, and x_i the fractions of time of each of them:

    maximise    Σ n_i c_i·x_i + κ t
    subject to  a_i·x_i − d_i t ≥ b_i       throughput, dual y_i
                1·x_i ≤ 1                   time, dual q_i
                Σ n_i s_ij x_ij ≤ 1         GPUs of a type, as a share of all of it, dual p_j
                x ≥ 0                       reduced cost r

The method is Mehrotra's predictor-corrector (SIAM J. Optimization 2, 1992), started inside. How
the constraints lie in memory, and how a Newton system of them is solved, is left to a `Form`.
Barrier terms are weighted by the number of jobs they stand for, so that the central path, and
the analytic centre of the optimal face where it ends, are those of the program without groups.

No large matrices are multiplied anywhere: numpy would hand them to threads.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDS_MAX = 100
_STEP = 0.995  # of the way to the nearest bound
_BEND = 100.0  # mean products: the most that is believed of the second order
_WIDE = 0.01  # of the value: a gap above is a wide one
_CENTRINGS_MAX = 12
CENTRED = 0.01  # of the mean product: how far the worst may be from it
_STALLED = 8  # rounds without a smaller gap: rounding has taken over


@dataclass(slots=True)
class Rows:
    """A number for the throughput and the time of each group, and for each GPU type."""

    rate: Floats
    time: Floats
    gpus: Floats


class Factor(Protocol):
    """A Newton system, factorised."""

    def solve(self, cost: Floats, rows: Rows, level: float) -> tuple[Floats, Rows, float]:
        """Return the changes of fractions, duals and level.

        They solve x' = D(cost − columns(y', q', p')), rate(x') + U y' − d t' = rows.rate,
        time(x') − V q' = rows.time, gpus(x') − Z p' = rows.gpus, and Σ n d y' = level.
        """
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """The numbers of a program: n, weights of fractions, c, d, b, κ, and types.

    `ease` times its weight is what a fraction has in the barrier as long as the gap is wide:
    weights that differ by powers of ten make the way long.
    """

    counts: Floats
    weights: Floats
    gain: Floats
    slope: Floats
    floor: Floats
    price: float
    types: int
    ease: Floats | float = 1.0


class Form(Protocol):
    """A program of the form above; the arrays of fractions may have any shape."""

    @property
    def terms(self) -> Terms:
        """The numbers of the program."""
        ...

    def rows(self, x: Floats) -> Rows:
        """Return throughput, time and GPUs taken by fractions."""
        ...

    def columns(self, dual: Rows) -> Floats:
        """Return what the duals make of each fraction: q + s p − a y."""
        ...

    def factor(self, scale: Floats, ratio: Rows) -> Factor:
        """Factorise the Newton system for D = x / r and U, V, Z = slack / dual."""
        ...


@dataclass(slots=True)
class Point:
    """Where the method stands: fractions and level, slacks, and the duals of both.

    All that is positive lies in two flat arrays, pair by pair, because most of the time goes into
    calls of numpy: `primals` are fractions, then slacks, `duals` reduced costs, then duals. The
    other arrays are parts of these.
    """

    primals: Floats
    duals: Floats
    t: float
    shape: tuple[int, ...]
    groups: int
    x: Floats = field(init=False)
    cost: Floats = field(init=False)
    slack: Rows = field(init=False)
    dual: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.x, self.slack = _parts(self.primals, self.shape, self.groups)
        self.cost, self.dual = _parts(self.duals, self.shape, self.groups)

    @classmethod
    def of(cls, x: Floats, t: float, slack: Rows, dual: Rows, cost: Floats) -> "Point":
        """Return the point with these parts."""
        return cls(_joined(x, slack), _joined(cost, dual), t, x.shape, len(slack.rate))

    def gap(self, form: Form) -> float:
        """Return the weighted sum of all complementary products."""
        return float((_weights(form.terms) * self.primals * self.duals).sum())

    def value(self, form: Form) -> float:
        """Return the objective."""
        terms = form.terms
        return float((terms.weights * terms.gain * self.x).sum() + terms.price * self.t)

    def moved(self, step: "_Step", primal: float, dual: float) -> "Point":
        """Return the point after so much of a step."""
        primals, duals = self.primals + primal * step.primals, self.duals + dual * step.duals
        return Point(primals, duals, self.t + primal * step.t, self.shape, self.groups)


@dataclass(slots=True)
class _Step:
    primals: Floats
    duals: Floats
    t: float


def follow(form: Form, point: Point, accuracy: float, scale: float = 0.0) -> Point:
    """Follow the central path until the gap is small against the value.

    The value is taken as `scale` at least. The last point that made progress is returned, also
    where rounding ends the path early: what it is worth is for the caller to certify.
    """
    terms = form.terms
    weights = _weights(terms)
    whole = float(weights.sum())
    rows = whole - float(terms.weights.sum())
    best, best_gap, stalled = point, np.inf, 0
    for _ in range(_ROUNDS_MAX):
        gap = float((weights * point.primals * point.duals).sum())
        value = max(abs(point.value(form)), scale)
        if not np.isfinite(gap):
            break
        if gap < 0.9 * best_gap:
            best, best_gap, stalled = point, gap, 0
        else:
            stalled += 1
        if gap <= accuracy * value or stalled == _STALLED:
            break
        eased = gap > _WIDE * value and not isinstance(terms.ease, float)
        mean = gap / (rows + float((terms.weights * terms.ease).sum()) if eased else whole)
        least = 0.3 * mean * accuracy * value / gap  # below, rounding would blur the centre
        following = _stepped(form, point, _Aim(weights, gap, mean, least, eased))
        if following is None:
            break
        point = following
    return best


def centred(form: Form, point: Point, within: float = CENTRED) -> Point:
    """Return the point of the central path with the gap of another one near it.

    `within` is how far the worst product may be from the mean, as a part of it.
    """
    weights = _weights(form.terms)
    counts = weights > 0
    mean = float((weights * point.primals * point.duals).sum() / weights.sum())
    best, least = point, _spread(point, mean, counts)
    for _ in range(_CENTRINGS_MAX):
        if least <= within:
            break
        try:
            with np.errstate(all="ignore"):
                point = _towards(form, point, mean)
        except np.linalg.LinAlgError:
            break
        spread = _spread(point, mean, counts)
        if not np.isfinite(spread):
            break
        best, least = (point, spread) if spread < least else (best, least)
    return best


@dataclass(frozen=True, slots=True)
class _Aim:
    """The weights of all products, their sum and mean, and the least aimed at."""

    weights: Floats
    gap: float
    mean: float
    least: float
    eased: bool


def _stepped(form: Form, point: Point, aim: _Aim) -> Point | None:
    """Take a step; None where rounding has made the Newton system singular."""
    try:
        with np.errstate(all="ignore"):
            return _advance(form, point, aim)
    except np.linalg.LinAlgError:
        return None


def _towards(form: Form, point: Point, mean: float) -> Point:
    """Take one Newton step to where all products are the mean."""
    step = _Newton(form, point).step(mean - point.primals * point.duals)
    primal, both = _length(point.primals, step.primals), _length(point.duals, step.duals)
    return point.moved(step, min(1.0, _STEP * primal), min(1.0, _STEP * both))


def _spread(point: Point, mean: float, counts: NDArray[np.bool_]) -> float:
    """Return how far the worst product is from the mean, as a part of it."""
    products = point.primals * point.duals
    return float(np.abs(np.where(counts, products, mean) / mean - 1.0).max())


def _advance(form: Form, point: Point, aim: _Aim) -> Point:
    """Take one step of Mehrotra's method, from a mean product towards the least one."""
    primals, duals = point.primals, point.duals
    products = primals * duals
    newton = _Newton(form, point)
    guess = newton.step(-products)
    primal = min(1.0, _length(primals, guess.primals))
    both = min(1.0, _length(duals, guess.duals))
    there = (primals + primal * guess.primals) * (duals + both * guess.duals)
    reached = float((aim.weights * there).sum()) / aim.gap
    target = max(aim.least, aim.mean * min(max(reached, 0.0), 1.0) ** 3)
    most = _BEND * aim.mean
    bend = np.minimum(np.maximum(guess.primals * guess.duals, -most), most)
    wanted = -products - bend
    if aim.eased:
        terms = form.terms
        fractions = terms.weights.size
        wanted[:fractions] += target * np.broadcast_to(terms.ease, terms.weights.shape).reshape(-1)
        wanted[fractions:] += target
    else:
        wanted += target
    step = newton.step(wanted)
    primal, both = _length(primals, step.primals), _length(duals, step.duals)
    return point.moved(step, min(1.0, _STEP * primal), min(1.0, _STEP * both))


class _Newton:
    """The Newton system at a point, for any products that are wanted."""

    def __init__(self, form: Form, point: Point) -> None:
        self.form = form
        self.point = point
        terms, slack, dual = form.terms, point.slack, point.dual
        ratio, self.rows_from = point.primals / point.duals, point.x.size
        scale, apart = _parts(ratio, point.shape, point.groups)
        self.factor = form.factor(scale, apart)
        rows = form.rows(point.x)
        self.missed = Rows(
            rows.rate - slack.rate - terms.slope * point.t - terms.floor,
            rows.time + slack.time - 1.0,
            rows.gpus + slack.gpus - 1.0,
        )
        self.missed_cost = form.columns(dual) - terms.gain - point.cost
        self.missed_level = terms.price - float((terms.counts * terms.slope * dual.rate).sum())

    def step(self, wanted: Floats) -> _Step:
        """Return the step on which the products become the wanted ones, to first order."""
        point, missed, start = self.point, self.missed, self.rows_from
        force = wanted[:start].reshape(point.shape) / point.x - self.missed_cost
        pushed = wanted[start:] / point.duals[start:]
        groups = point.groups
        right = Rows(
            pushed[:groups] - missed.rate,
            -pushed[groups : 2 * groups] - missed.time,
            -pushed[2 * groups :] - missed.gpus,
        )
        moved, rows, t = self.factor.solve(force, right, self.missed_level)
        duals = _joined(self.form.columns(rows) + self.missed_cost, rows)
        slacks = pushed - point.primals[start:] * duals[start:] / point.duals[start:]
        return _Step(np.concatenate((moved.reshape(-1), slacks)), duals, t)


def _weights(terms: Terms) -> Floats:
    """Return the weight of each complementary pair, in the order of a point."""
    fractions = terms.weights.reshape(-1)
    return np.concatenate((fractions, terms.counts, terms.counts, np.ones(terms.types)))


def _parts(values: Floats, shape: tuple[int, ...], groups: int) -> tuple[Floats, Rows]:
    """Return the parts of a flat array that belong to fractions and to rows."""
    start = prod(shape)
    fractions, rows = values[:start].reshape(shape), values[start:]
    return fractions, Rows(rows[:groups], rows[groups : 2 * groups], rows[2 * groups :])


def _joined(fractions: Floats, rows: Rows) -> Floats:
    return np.concatenate((fractions.reshape(-1), rows.rate, rows.time, rows.gpus))


def _length(values: Floats, change: Floats) -> float:
    """Return how many times a change leaves the values positive."""
    worst = float(np.minimum.reduce(change / values))
    return -1.0 / worst if worst < 0 else np.inf
