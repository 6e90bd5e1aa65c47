"""Claims in arrays as the public code takes them, and its pairs of jobs out of pairs of groups.

This imports numpy, so it is imported when fractions are first asked for.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shunter.events import GpuType
from shunter.policies.gavel import (
    Arrays,
    Demands,
    Floats,
    Fractions,
    Pairs,
    Places,
    Shares,
    arrays_of,
)
from shunter_peers.gavel.forms import Form


def rated(form: Form, demands: Demands) -> Arrays:
    """Return claims in arrays with the rates a form takes.

    Of one type, or all 1, or as they are.
    """
    found = arrays_of(demands)
    if form.ones:
        return replace(found, rates=np.ones_like(found.rates))
    if form.everywhere is None:
        return found
    alone = np.array(
        [demands.rate(request, form.everywhere) for request in demands.requests], np.float64
    )
    return replace(found, rates=np.repeat(alone[:, None], len(found.types), axis=1))


def isolated_rates(found: Arrays) -> Floats:
    """Return steps a second on an equal part of every type, of shape (claims,).

    Divided by the jobs first, then by the gang, for the last digits of the public code.
    """
    parts = found.capacity / max(len(found.sizes), 1) / found.sizes[:, None]
    parts = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1.0)
    rates: Floats = (found.rates * parts).sum(axis=1)
    return rates


def every_pair(
    demands: Demands, group: Places, pairs: Pairs, shares: Shares, types: Sequence[GpuType]
) -> Fractions:
    """Return the fractions of every two jobs of equal gangs."""
    places = {
        (one, two): place
        for place, (one, two) in enumerate(
            zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
        )
    }
    rows = shares.pair_fractions.tolist()
    found: Fractions = {}
    for place, one in enumerate(demands.requests):
        for after, two in enumerate(demands.requests[place + 1 :], place + 1):
            groups = int(group[place]), int(group[after])
            at = places.get((min(groups), max(groups)))
            if at is not None:
                found[one.job_id, two.job_id] = dict(zip(types, rows[at], strict=True))
    return found
