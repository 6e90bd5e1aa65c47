"""Random clusters with groups of jobs, and pairs that slow each other down."""

import numpy as np

from shunter.policies.gavel import Groups, Pairs

__all__ = ["EVERY", "groups_of"]

# (seed, groups, types, shared, repeated): a few shapes of trouble each.
EVERY = [
    (seed, count, types, shared, repeated)
    for seed, (count, types) in enumerate([(1, 1), (2, 3), (7, 2), (12, 3), (25, 4), (40, 3)])
    for shared in (False, True)
    for repeated in (False, True)
]


def groups_of(
    seed: int, count: int, types: int, shared: bool = False, repeated: bool = False
) -> Groups:
    """Return groups; every fifth rate or so is 0, and each group can run somewhere."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.5, 8.0, (count, types)) * rng.uniform(0.1, 10.0, (count, 1))
    rates[rng.random(rates.shape) < 0.2] = 0.0
    rates[:, 0] = np.maximum(rates[:, 0], 0.3)
    gangs = rng.choice([1.0, 2.0, 4.0], count)
    counts = rng.integers(1, 9, count).astype(float) if repeated else np.ones(count)
    total = float((counts * gangs).sum())
    capacity = np.ceil(rng.uniform(0.1, 0.6, types) * total)
    pairs = _pairs(rng, rates, gangs, counts) if shared else None
    return Groups(rates, counts, gangs, capacity, pairs)


def _pairs(
    rng: np.random.Generator,
    rates: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    gangs: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
    counts: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
) -> Pairs:
    first, second = np.triu_indices(len(rates))
    fits = (gangs[first] == gangs[second]) & ((first != second) | (counts[first] > 1))
    first, second = first[fits], second[fits]
    slowed = rng.uniform(0.3, 1.0, (2, len(first), rates.shape[1]))
    slowed[:, rng.random(slowed.shape[1:]) < 0.5] = 0.0
    alone = first == second
    slowed[1, alone] = slowed[0, alone]
    return Pairs(first, second, rates[first] * slowed[0], rates[second] * slowed[1])
