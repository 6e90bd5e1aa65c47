"""What all shares keep, whatever the policy."""

import numpy as np

from shunter.policies.gavel import Groups, Shares

__all__ = ["assert_limits_kept"]

_ROUNDING = 1e-12


def assert_limits_kept(groups: Groups, shares: Shares) -> None:
    """Assert that fractions are in range, times at most whole, and capacity not exceeded."""
    single, paired, pairs = shares.fractions, shares.pair_fractions, groups.pairs
    time = single.sum(axis=1)
    used = (groups.counts * groups.gangs) @ single
    if pairs is not None:
        weights = pairs.weights(groups.counts)
        together = weights * paired.sum(axis=1)
        time = time + np.bincount(pairs.first, together, len(time)) / groups.counts
        time = time + np.bincount(pairs.second, together, len(time)) / groups.counts
        used = used + (weights * groups.gangs[pairs.first]) @ paired
    assert single.min(initial=0.0) >= 0
    assert paired.min(initial=0.0) >= 0
    assert time.max() <= 1 + _ROUNDING
    assert (used <= groups.capacity * (1 + _ROUNDING)).all()
    assert (single[groups.rates == 0] == 0).all()
