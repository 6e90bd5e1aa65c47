"""Matrix completion by alternating least squares: few numbers known of many that hang together.

Speeds of models on GPU types, or next to each other, are close to a product of what the row is like
and what the column is like. So logarithms are a sum of both and a small product of hidden factors:
log r_ij = m + a_i + b_j + u_i·v_j. With the columns fixed, each row is a small ridge regression,
and the other way round; alternating finds both (Koren, Bell and Volinsky, Matrix Factorization
Techniques for Recommender Systems, IEEE Computer 42(8), 2009). No chance is involved: the means are
fitted first, and hidden factors begin as the leading singular vectors of what they leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shunter.core.speeds import JobKind, Pair, ThroughputTable
from shunter.events import GpuType, JobId

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Known = Mapping[JobId, Mapping[GpuType, float]]
"""Rates by job and type, as far as they were measured."""

FACTORS: Final = 2
_RIDGE: Final = 0.1
_MEAN_RIDGE: Final = 1e-3
_ROUNDS: Final = 12
_HELD_OUT_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Completed:
    """All numbers, and how far off guesses are.

    Args:
        values: shape (rows, columns), above 0; known ones as they were.
        error: the median relative error of known numbers, each guessed from the others; None where
            too few are known to tell.
        held_out: how many were guessed for that.
    """

    values: Floats
    error: float | None
    held_out: int


def complete(values: Floats, known: Mask, factors: int = FACTORS) -> Completed:
    """Guess the numbers that are not known from those that are.

    Args:
        values: shape (rows, columns), above 0 where known.
        known: shape (rows, columns).
        factors: hidden factors of rows and columns, beside their means.
    """
    logs = np.where(known, np.log(np.where(known, values, 1.0)), 0.0)
    guessed = _fitted(logs, known, factors)
    errors = []
    for row, column in _held_out(known):
        without = known.copy()
        without[row, column] = False
        guess = _fitted(np.where(without, logs, 0.0), without, factors)[row, column]
        errors.append(abs(float(np.expm1(guess - logs[row, column]))))
    error = float(np.median(errors)) if errors else None
    return Completed(np.where(known, values, np.exp(guessed)), error, len(errors))


def _held_out(known: Mask) -> list[tuple[int, int]]:
    """Return known places, evenly spread, whose row and column know others too."""
    enough = known & (known.sum(axis=1) > 1)[:, None] & (known.sum(axis=0) > 1)
    places = np.argwhere(enough)
    if len(places) > _HELD_OUT_MOST:
        places = places[np.linspace(0, len(places) - 1, _HELD_OUT_MOST).round().astype(np.intp)]
    return [(int(row), int(column)) for row, column in places]


def _fitted(logs: Floats, known: Mask, factors: int) -> Floats:
    """Return logarithms of all numbers: fit the means, then hidden factors too."""
    rows, columns = logs.shape
    if not known.any():
        return np.zeros_like(logs)
    mean = float(logs[known].mean())
    centred = np.where(known, logs - mean, 0.0)
    row_factors = np.column_stack([np.ones(rows), np.zeros(rows)])
    column_factors = np.column_stack([np.zeros(columns), np.ones(columns)])
    _alternate(row_factors, column_factors, centred, known)
    rest = np.where(known, centred - row_factors @ column_factors.T, 0.0)
    count = min(factors, rows, columns)
    left, size, right = np.linalg.svd(rest, full_matrices=False)
    scale = np.sqrt(size[:count])
    row_factors = np.column_stack([row_factors, left[:, :count] * scale])
    column_factors = np.column_stack([column_factors, right[:count].T * scale])
    _alternate(row_factors, column_factors, centred, known)
    fitted: Floats = mean + row_factors @ column_factors.T
    return fitted


def _alternate(row_factors: Floats, column_factors: Floats, logs: Floats, known: Mask) -> None:
    """Fit rows and columns in turns, in place; each has one factor that is 1."""
    for _ in range(_ROUNDS):
        _solve(row_factors, column_factors, logs, known, fixed=0)
        _solve(column_factors, row_factors, logs.T, known.T, fixed=1)


def _solve(own: Floats, other: Floats, logs: Floats, known: Mask, *, fixed: int) -> None:
    """Fit each row's factors to what it knows; the ridge hardly holds its mean."""
    free = [place for place in range(own.shape[1]) if place != fixed]
    ridge = np.diag([_MEAN_RIDGE if place < 2 else _RIDGE for place in free])
    for row in np.flatnonzero(known.any(axis=1)):
        seen = known[row]
        features = other[seen][:, free]
        wanted = logs[row, seen] - other[seen, fixed]
        own[row, free] = np.linalg.solve(features.T @ features + ridge, features.T @ wanted)
    own[~known.any(axis=1)] = 0.0
    own[:, fixed] = 1.0


def guessed_rates(
    measured: Known, types: Sequence[GpuType]
) -> tuple[dict[JobId, dict[GpuType, float]], float | None]:
    """Return rates of measured jobs on all types, and how far off guesses are.

    Nothing is guessed before two jobs were measured on two types each: no type is known to be
    faster then.
    """
    jobs = [job_id for job_id, row in measured.items() if row]
    several = [job_id for job_id in jobs if sum(name in types for name in measured[job_id]) > 1]
    if len(several) < 2:
        return {}, None
    rates = np.array([[measured[job_id].get(name, 0.0) for name in types] for job_id in jobs])
    known = np.greater(rates, 0.0)
    found = complete(rates, known, factors=1)
    tried = known.any(axis=0)
    guessed = {
        job_id: {
            name: float(found.values[row, column])
            for column, name in enumerate(types)
            if tried[column]
        }
        for row, job_id in enumerate(jobs)
    }
    return guessed, found.error


# Tables of throughputs with the gaps filled.

Rates = dict[GpuType, dict[JobKind, float]]
Pairs = dict[GpuType, dict[Pair, tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Estimated:
    """A table without gaps: how many rates were guessed, and how far off guesses are.

    Errors are medians of relative errors; None where nothing was guessed, or too little is known.
    """

    table: ThroughputTable
    alone: int
    alone_error: float | None
    paired: int
    paired_error: float | None


def completed_table(table: ThroughputTable) -> Estimated:
    """Fill in what nobody measured; a rate of 0 was measured, and stays.

    A pair is guessed only for kinds of equal gangs that get on alone.
    """
    alone, guessed, error = _alone(table)
    filled = replace(table, alone=alone)
    if not any(table.paired.values()):
        return Estimated(filled, guessed, error, 0, None)
    pairs, guessed_pairs, errors = _paired(filled)
    pair_error = float(np.median(errors)) if errors else None
    filled = replace(filled, paired=pairs)
    return Estimated(filled, guessed, error, guessed_pairs, pair_error)


def _alone(table: ThroughputTable) -> tuple[Rates, int, float | None]:
    kinds, types = list(table.kinds), list(table.alone)
    measured = [[table.rate(name, kind) for name in types] for kind in kinds]
    rates = np.array([[rate or 0.0 for rate in row] for row in measured])
    missing = np.array([[rate is None for rate in row] for row in measured])
    if not missing.any():
        return {name: dict(table.alone[name]) for name in types}, 0, None
    found = complete(rates, rates > 0)
    values = np.where(missing, found.values, rates)
    full = {
        name: {kind: float(values[row, column]) for row, kind in enumerate(kinds)}
        for column, name in enumerate(types)
    }
    return full, int(missing.sum()), found.error


def _paired(table: ThroughputTable) -> tuple[Pairs, int, list[float]]:
    pairs: Pairs = {name: dict(table.paired.get(name, {})) for name in table.alone}
    guessed, errors = 0, []
    for name, known in pairs.items():
        for size in sorted({kind.gpus for kind in table.kinds}):
            kinds = [kind for kind in table.kinds if kind.gpus == size and table.rate(name, kind)]
            more, error = _block(name, kinds, table, known)
            guessed += more
            errors += [] if error is None or not more else [error]
    return pairs, guessed, errors


def _block(
    name: GpuType,
    kinds: Sequence[JobKind],
    table: ThroughputTable,
    known: dict[Pair, tuple[float, float]],
) -> tuple[int, float | None]:
    """Fill in the pairs of one gang on one type; return how many, and the error.

    What is completed is what a kind keeps of its own rate beside another.
    """
    kept, seen, missing = _kept(name, kinds, table, known)
    if not seen.any() or not missing.any():
        return 0, None
    found = complete(kept, seen)
    for one, other in zip(*np.nonzero(missing), strict=True):
        first, second = kinds[int(one)], kinds[int(other)]
        parts = np.minimum(1.0, (found.values[one, other], found.values[other, one]))
        alone = table.rate(name, first) or 0.0, table.rate(name, second) or 0.0
        known[first, second] = float(parts[0] * alone[0]), float(parts[1] * alone[1])
    return int(missing.sum()), found.error


def _kept(
    name: GpuType,
    kinds: Sequence[JobKind],
    table: ThroughputTable,
    known: Mapping[Pair, tuple[float, float]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what each keeps beside each, 0 if unknown, and what is missing."""
    shape = (len(kinds), len(kinds))
    kept, missing = np.zeros(shape), np.zeros(shape, np.bool_)
    for one, first in enumerate(kinds):
        for other, second in enumerate(kinds):
            rates = known.get((first, second))
            missing[one, other] = rates is None
            if rates is not None:
                kept[one, other] = rates[0] / (table.rate(name, first) or 1.0)
    return kept, kept > 0, missing
