"""Requests in arrays, and shares of groups of equal requests back as fractions of each.

This imports numpy, so objectives import it when they are first asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shunter.errors import PlanError
from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Demands, Fractions
from shunter.policies.gavel.objectives.packing import few_pairs, kind_numbers, pairs_among
from shunter.policies.gavel.solving.fairness import isolated_fractions
from shunter.policies.gavel.solving.groups import Groups, Pairs, Shares, Status, alike
from shunter.policies.gavel.solving.interior import Floats
from shunter.policies.gavel.solving.pair_form import Places

Problem = Callable[..., Shares]
"""Takes groups, and by group each column that tells requests apart."""

Spread = Callable[[Demands, Places, Pairs, Shares, Sequence[GpuType]], Fractions]
"""Hands fractions of pairs of groups to pairs of jobs; `few_pairs` is one."""

SOLVED = (Status.optimal, Status.stalled)


@dataclass(frozen=True, slots=True)
class Arrays:
    """Requests in the order of arrival.

    Args:
        types: the GPU types, in the order of the columns.
        rates: shape (claims, types), steps a second of the whole gang.
        sizes: shape (claims,), GPUs.
        capacity: shape (types,), GPUs.
        weights: shape (claims,).
        left: shape (claims,), steps.
        ages_s: shape (claims,), since arrival.
    """

    types: tuple[GpuType, ...]
    rates: Floats
    sizes: Floats
    capacity: Floats
    weights: Floats
    left: Floats
    ages_s: Floats


def arrays_of(demands: Demands, *, agnostic: bool = False) -> Arrays:
    """Return requests in arrays.

    Args:
        demands: the claims.
        agnostic: take a job for equally fast wherever it can run: as on the mean GPU it can.
    """
    types, requests = tuple(demands.gpus), demands.requests
    shape = (len(requests), len(types))
    gpus = np.array(list(demands.gpus.values()), np.float64)
    rate = demands.rate
    rows = [
        [rate(request, name) for name in types]
        if request.rates is None
        else [request.rates.get(name, 0.0) for name in types]
        for request in requests
    ]
    rates = np.array(rows, np.float64).reshape(shape)
    if agnostic:
        able = rates > 0
        there = np.maximum((able * gpus).sum(axis=1, keepdims=True), 1.0)
        rates = np.where(able, (rates * gpus).sum(axis=1, keepdims=True) / there, 0.0)
    return Arrays(
        types,
        rates,
        np.array([request.kind.gpus for request in requests], np.float64),
        gpus,
        np.array([request.weight for request in requests], np.float64),
        np.array([request.left for request in requests], np.float64),
        np.array([request.age_s for request in requests], np.float64),
    )


def divided(
    demands: Demands,
    found: Arrays,
    columns: Sequence[Floats],
    problem: Problem,
    *,
    packed: bool = False,
    idle: bool = False,
    spread: Spread = few_pairs,
) -> Fractions:
    """Return the fractions of all claims, solving for groups of equal ones.

    Args:
        demands: the claims.
        found: the same in arrays.
        columns: what tells requests apart beside rates and sizes, each of shape (claims,).
        problem: what to solve.
        packed: let two jobs share GPUs, and return the fractions of pairs as well.
        idle: see `Groups.idle`.
        spread: which pairs of jobs have what their groups have together.
    Raises:
        PlanError: there is no answer; the message says why.
    """
    if not demands.requests:
        return {}
    kinds = [kind_numbers(demands)] if packed else []
    first, group, counts = alike(np.column_stack([found.rates, found.sizes, *kinds, *columns]))
    groups = Groups(
        found.rates[first],
        counts.astype(np.float64),
        found.sizes[first],
        found.capacity,
        idle=idle,
    )
    pairs = None
    if packed:
        pairs = pairs_among([demands.requests[at] for at in first], groups, found.types, demands)
        groups = replace(groups, pairs=pairs)
    shares = problem(groups, *[column[first] for column in columns])
    if shares.status not in SOLVED:
        raise PlanError(f"no target shares: the problem is {shares.status}")
    rows = [dict(zip(found.types, row, strict=True)) for row in shares.fractions.tolist()]
    fractions: Fractions = {
        (request.job_id,): rows[at]  # one for all of a group: nobody writes to fractions
        for request, at in zip(demands.requests, group.tolist(), strict=True)
    }
    if pairs is not None:
        fractions.update(spread(demands, group, pairs, shares, found.types))
    return fractions


def isolated_rates(found: Arrays) -> Floats:
    """Return steps a second on an equal part of every type, of shape (claims,)."""
    counts = np.ones(len(found.sizes))
    parts = isolated_fractions(Groups(found.rates, counts, found.sizes, found.capacity))
    rates: Floats = (found.rates * parts).sum(axis=1)
    return rates
