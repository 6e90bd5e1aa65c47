"""Tables of throughputs with the gaps filled: kinds on GPU types alone, and beside each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shunter.core.performance.throughputs import JobKind, Pair, ThroughputTable
from shunter.events.values.ids import GpuType
from shunter.policies.gavel.estimating.completion import complete

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
