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

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Factor", "Floats", "Form", "Point", "Rows", "Terms", "centred", "follow"]

Floats = NDArray[np.float64]

_ROUNDS_MAX = 100
_STEP = 0.995  # of the way to the nearest bound
_BEND = 100.0  # mean products: the most that is believed of the second order
_WIDE = 0.01  # of the value: a gap above is a wide one
_CENTRINGS_MAX = 12
_CENTRED = 0.01  # of the mean product: how far the worst may be from it
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
    """The numbers of a program: n, weights of fractions, c, d, b and κ.

    `ease` times its weight is what a fraction has in the barrier as long as the gap is wide:
    weights that differ by powers of ten make the way long.
    """

    counts: Floats
    weights: Floats
    gain: Floats
    slope: Floats
    floor: Floats
    price: float
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
    """Where the method stands: fractions and level, slacks, and the duals of both."""

    x: Floats
    t: float
    slack: Rows
    dual: Rows
    cost: Floats

    def gap(self, form: Form) -> float:
        """Return the weighted sum of all complementary products."""
        slack, dual = self.slack, self.dual
        jobs = slack.rate * dual.rate + slack.time * dual.time
        types = (slack.gpus * dual.gpus).sum()
        return float(
            (form.terms.weights * self.x * self.cost).sum()
            + (form.terms.counts * jobs).sum()
            + types
        )

    def value(self, form: Form) -> float:
        """Return the objective."""
        return float(
            (form.terms.weights * form.terms.gain * self.x).sum() + form.terms.price * self.t
        )


@dataclass(slots=True)
class _Products:
    """A number for each complementary pair."""

    x: Floats
    rows: Rows


@dataclass(slots=True)
class _Step:
    x: Floats
    t: float
    slack: Rows
    dual: Rows
    cost: Floats


def follow(form: Form, point: Point, accuracy: float, scale: float = 0.0) -> Point:
    """Follow the central path until the gap is small against the value.

    The value is taken as `scale` at least. The last point that made progress is returned, also
    where rounding ends the path early: what it is worth is for the caller to certify.
    """
    terms = form.terms
    rows = float(2.0 * terms.counts.sum()) + len(point.slack.gpus)
    best, best_gap, stalled = point, np.inf, 0
    for _ in range(_ROUNDS_MAX):
        gap, value = point.gap(form), max(abs(point.value(form)), scale)
        if not np.isfinite(gap):
            break
        if gap < 0.9 * best_gap:
            best, best_gap, stalled = point, gap, 0
        else:
            stalled += 1
        if gap <= accuracy * value or stalled == _STALLED:
            break
        ease = terms.ease if gap > _WIDE * value else 1.0
        mean = gap / (rows + float((terms.weights * ease).sum()))
        least = 0.3 * mean * accuracy * value / gap  # below, rounding would blur the centre
        following = _stepped(form, point, (mean, least), ease)
        if following is None:
            break
        point = following
    return best


def centred(form: Form, point: Point) -> Point:
    """Return the point of the central path with the gap of another one near it."""
    terms = form.terms
    barrier = float(2.0 * terms.counts.sum() + terms.weights.sum()) + len(point.slack.gpus)
    mean = point.gap(form) / barrier
    best, least = point, _spread(form, point, mean)
    for _ in range(_CENTRINGS_MAX):
        if least <= _CENTRED:
            break
        try:
            with np.errstate(all="ignore"):
                point = _towards(form, point, mean)
        except np.linalg.LinAlgError:
            break
        spread = _spread(form, point, mean)
        if not np.isfinite(spread):
            break
        best, least = (point, spread) if spread < least else (best, least)
    return best


def _stepped(
    form: Form, point: Point, means: tuple[float, float], ease: Floats | float
) -> Point | None:
    """Take a step; None where rounding has made the Newton system singular."""
    try:
        with np.errstate(all="ignore"):
            return _advance(form, point, means, ease)
    except np.linalg.LinAlgError:
        return None


def _towards(form: Form, point: Point, mean: float) -> Point:
    """Take one Newton step to where all products are the mean."""
    slack, dual = point.slack, point.dual
    ratio = Rows(slack.rate / dual.rate, slack.time / dual.time, slack.gpus / dual.gpus)
    newton = _Newton(form, point, form.factor(point.x / point.cost, ratio))
    rate, time, gpus = slack.rate * dual.rate, slack.time * dual.time, slack.gpus * dual.gpus
    wanted = Rows(mean - rate, mean - time, mean - gpus)
    step = newton.step(_Products(mean - point.x * point.cost, wanted))
    primal, both = _lengths(point, step)
    return _moved(point, step, min(1.0, _STEP * primal), min(1.0, _STEP * both))


def _spread(form: Form, point: Point, mean: float) -> float:
    """Return how far the worst product is from the mean, as a part of it."""
    slack, dual, terms = point.slack, point.dual, form.terms
    parts = (
        np.where(terms.weights > 0, point.x * point.cost, mean),
        slack.rate * dual.rate,
        slack.time * dual.time,
        slack.gpus * dual.gpus,
    )
    return max(float(np.abs(part / mean - 1.0).max()) for part in parts)


def _advance(form: Form, point: Point, means: tuple[float, float], ease: Floats | float) -> Point:
    """Take one step of Mehrotra's method, from a mean product towards the least one."""
    mean, least = means
    x, slack, dual, cost = point.x, point.slack, point.dual, point.cost
    ratio = Rows(slack.rate / dual.rate, slack.time / dual.time, slack.gpus / dual.gpus)
    newton = _Newton(form, point, form.factor(x / cost, ratio))
    rate, time, gpus = slack.rate * dual.rate, slack.time * dual.time, slack.gpus * dual.gpus
    guess = newton.step(_Products(-x * cost, Rows(-rate, -time, -gpus)))
    primal, both = _lengths(point, guess)
    reached = _moved(point, guess, min(1.0, primal), min(1.0, both)).gap(form) / point.gap(form)
    aim, most = max(least, mean * min(max(reached, 0.0), 1.0) ** 3), _BEND * mean

    def wanted(now: Floats, left: Floats, right: Floats, weight: Floats | float = 1.0) -> Floats:
        bend = np.minimum(np.maximum(left * right, -most), most)
        products: Floats = aim * weight - now - bend
        return products

    s, w = guess.slack, guess.dual
    step = newton.step(
        _Products(
            wanted(x * cost, guess.x, guess.cost, ease),
            Rows(
                wanted(rate, s.rate, w.rate),
                wanted(time, s.time, w.time),
                wanted(gpus, s.gpus, w.gpus),
            ),
        )
    )
    primal, both = _lengths(point, step)
    return _moved(point, step, min(1.0, _STEP * primal), min(1.0, _STEP * both))


class _Newton:
    """The Newton system at a point, for any products that are wanted."""

    def __init__(self, form: Form, point: Point, factor: Factor) -> None:
        self.form = form
        self.point = point
        self.factor = factor
        rows, slack, dual = form.rows(point.x), point.slack, point.dual
        self.missed = Rows(
            rows.rate - slack.rate - form.terms.slope * point.t - form.terms.floor,
            rows.time + slack.time - 1.0,
            rows.gpus + slack.gpus - 1.0,
        )
        self.missed_cost = form.columns(dual) - form.terms.gain - point.cost
        self.missed_level = form.terms.price - float(
            (form.terms.counts * form.terms.slope * dual.rate).sum()
        )

    def step(self, wanted: _Products) -> _Step:
        """Return the step on which the products become the wanted ones, to first order."""
        point, missed = self.point, self.missed
        x, slack, dual = point.x, point.slack, point.dual
        rate, time, gpus = wanted.rows.rate, wanted.rows.time, wanted.rows.gpus
        force = wanted.x / x - self.missed_cost
        right = Rows(
            rate / dual.rate - missed.rate,
            -time / dual.time - missed.time,
            -gpus / dual.gpus - missed.gpus,
        )
        moved, duals, t = self.factor.solve(force, right, self.missed_level)
        cost_step = self.form.columns(duals) + self.missed_cost
        return _Step(
            moved,
            t,
            Rows(
                (rate - slack.rate * duals.rate) / dual.rate,
                (time - slack.time * duals.time) / dual.time,
                (gpus - slack.gpus * duals.gpus) / dual.gpus,
            ),
            duals,
            cost_step,
        )


def _lengths(point: Point, step: _Step) -> tuple[float, float]:
    """Return how far fractions and slacks, and how far the duals, can go."""
    slack, dual = point.slack, point.dual
    primal = min(
        _length(point.x, step.x),
        _length(slack.rate, step.slack.rate),
        _length(slack.time, step.slack.time),
        _length(slack.gpus, step.slack.gpus),
    )
    both = min(
        _length(point.cost, step.cost),
        _length(dual.rate, step.dual.rate),
        _length(dual.time, step.dual.time),
        _length(dual.gpus, step.dual.gpus),
    )
    return primal, both


def _length(values: Floats, change: Floats) -> float:
    """Return how many times a change leaves the values positive."""
    worst = float((change / values).min(initial=0.0))
    return -1.0 / worst if worst < 0 else np.inf


def _moved(point: Point, step: _Step, primal: float, dual: float) -> Point:
    s, w = point.slack, point.dual
    return Point(
        point.x + primal * step.x,
        point.t + primal * step.t,
        Rows(
            s.rate + primal * step.slack.rate,
            s.time + primal * step.slack.time,
            s.gpus + primal * step.slack.gpus,
        ),
        Rows(
            w.rate + dual * step.dual.rate,
            w.time + dual * step.dual.time,
            w.gpus + dual * step.dual.gpus,
        ),
        point.cost + dual * step.cost,
    )
