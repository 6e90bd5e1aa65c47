"""What objectives work on: requests in arrays, and GPUs assigned in queues.

This imports numpy, so objectives import it when they are first asked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shunter.core.speeds import JobKind, Pair
from shunter.errors import PlanError
from shunter.events import GpuType
from shunter.policies.gavel.answers import isolated_fractions
from shunter.policies.gavel.interior import Floats
from shunter.policies.gavel.mechanism import Demands, Fractions, JobRequest
from shunter.policies.gavel.programs import Groups, Pairs, Places, Shares, Status, alike

# Requests in arrays. What a job gets depends on the sums of pairs alone, so few pairs carry them
# (OSDI 2020, section 3.1): jobs of both groups are laid side by side, each as long as its shared
# time, and those next to each other are a pair (north-west corner of a transportation problem).

Part = tuple[int, int, float]

_LEAST = 1e-6  # of a job's time: what is less is not worth a change of partners


def kind_numbers(demands: Demands) -> Floats:
    """Return numbers, equal for requests that equal partners suit: shape (requests,)."""
    numbers: dict[object, int] = {}
    found = [
        numbers.setdefault((request.kind, request.alone), len(numbers))
        for request in demands.requests
    ]
    return np.array(found, np.float64)


def pairs_among(
    requests: Sequence[JobRequest], groups: Groups, types: Sequence[GpuType], demands: Demands
) -> Pairs:
    """Return the pairs of groups whose jobs may share GPUs.

    Beside another, a job keeps the part of its rate that the table says; where it says nothing,
    the two do not share. With `Groups.idle`, pairs that cannot run count as well.

    Args:
        requests: one of each group.
        groups: the same, without pairs.
        types: the GPU types, in the order of the columns.
        demands: with the table.
    """
    first, second, factors = [], [], []
    table = demands.table
    tables = [(table.alone.get(name, {}), table.paired.get(name, {})) for name in types]
    for one, this in enumerate(requests):
        for two in range(one, len(requests)):
            other = requests[two]
            if this.kind.gpus != other.kind.gpus or this.alone or other.alone:
                continue
            row = [_kept(alone, paired, this.kind, other.kind) for alone, paired in tables]
            if groups.idle or any(part > 0 for part, _ in row):
                first.append(one)
                second.append(two)
                factors.append(row)
    if not first:
        return Pairs.none(groups)
    at, to = np.array(first, np.intp), np.array(second, np.intp)
    parts = np.array(factors, np.float64)
    return Pairs(at, to, groups.rates[at] * parts[:, :, 0], groups.rates[to] * parts[:, :, 1])


def _kept(
    alone: Mapping[JobKind, float],
    paired: Mapping[Pair, tuple[float, float]],
    one: JobKind,
    two: JobKind,
) -> tuple[float, float]:
    """Return which part of their rates alone two jobs keep together; 0: none at all."""
    rates = paired.get((one, two))
    if rates is None or min(rates) <= 0:
        return 0.0, 0.0
    first, second = alone.get(one), alone.get(two)
    return (rates[0] / first, rates[1] / second) if first and second else (0.0, 0.0)


def few_pairs(
    demands: Demands, group: Places, pairs: Pairs, shares: Shares, types: Sequence[GpuType]
) -> Fractions:
    """Return fractions of few pairs of jobs, with the sums of each job as they were."""
    members: list[list[int]] = [[] for _ in range(len(shares.fractions))]
    for place, at in enumerate(group.tolist()):
        members[at].append(place)
    found: Fractions = {}
    requests = demands.requests
    for place, at in np.argwhere(shares.pair_fractions > 0).tolist():
        one, two = members[pairs.first[place]], members[pairs.second[place]]
        fraction = float(shares.pair_fractions[place, at])
        inside = one is two
        parts = _inside(one, fraction) if inside else _between(one, two, fraction)
        for this, other, part in parts:
            if part >= _LEAST:
                gang = requests[min(this, other)].job_id, requests[max(this, other)].job_id
                row = found.setdefault(gang, {})
                row[types[at]] = row.get(types[at], 0.0) + part
    return found


def _between(one: Sequence[int], two: Sequence[int], fraction: float) -> Iterator[Part]:
    """Lay two groups side by side; yield who lies beside whom, and how long."""
    here, there = len(two) * fraction, len(one) * fraction
    first, second, left, right = 0, 0, here, there
    while first < len(one) and second < len(two):
        part = min(left, right)
        yield one[first], two[second], part
        left, right = left - part, right - part
        if left <= right:
            first, left = first + 1, here
        else:
            second, right = second + 1, there


def _inside(members: Sequence[int], fraction: float) -> Iterator[Part]:
    """Pair the jobs of one group, three of an odd number in a ring."""
    whole = (len(members) - 1) * fraction
    start = 3 if len(members) % 2 else 0
    if start:
        one, two, three = members[:3]
        yield from ((one, two, whole / 2), (two, three, whole / 2), (one, three, whole / 2))
    for place in range(start, len(members), 2):
        yield members[place], members[place + 1], whole


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


# AlloX (Le et al., EuroSys 2020, section 4): the k-th job from the end of a GPU's queue costs k
# times its duration there. Shortest augmenting paths (Jonker and Volgenant, Computing 38, 1987).

Indices = NDArray[np.intp]


def first_in_queues(durations: Floats, free: Indices) -> Indices:
    """Return the GPU type on which each job runs now, −1 for those that wait.

    Args:
        durations: shape (jobs, types), seconds alone on a GPU; infinite where it cannot run.
        free: shape (types,), GPUs to be filled.
    """
    jobs, kinds = len(durations), np.flatnonzero(free)
    runs = np.full(jobs, -1, np.intp)
    if not jobs or not len(kinds):
        return runs
    lengths = -(-jobs // free[kinds])
    kind = np.repeat(kinds, lengths * free[kinds])
    place = np.concatenate(
        [np.tile(np.arange(1, n + 1), free[k]) for k, n in zip(kinds, lengths, strict=True)]
    )
    gpu = np.cumsum(place == 1) - 1
    finite = np.isfinite(durations)
    worst = float(durations[finite].max(initial=1.0))
    costs = np.where(finite, durations, worst * (jobs + 1) ** 2)[:, kind] * place
    taken = least_cost_assignment(costs)
    for job in np.argsort(-place[taken], kind="stable"):
        ahead = gpu[taken[job]] == gpu[taken[runs >= 0]]
        if not ahead.any() and finite[job, kind[taken[job]]]:
            runs[job] = kind[taken[job]]
    return runs


def least_cost_assignment(costs: Floats) -> Indices:
    """Return a column for each row, none twice, at the least sum of costs.

    Args:
        costs: shape (rows, columns), finite, with at least as many columns as rows.
    """
    rows, columns = costs.shape
    assert rows <= columns
    owner = np.full(columns, -1, np.intp)
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    for new in range(rows):
        shortest, before = np.full(columns, np.inf), np.full(columns, -1, np.intp)
        done = np.zeros(columns, np.bool_)
        row, column, length = new, -1, 0.0
        while True:
            reach = length + costs[row] - row_price[row] - column_price
            nearer = ~done & (reach < shortest)
            shortest[nearer], before[nearer] = reach[nearer], column
            column = int(np.where(done, np.inf, shortest).argmin())
            length = float(shortest[column])
            done[column] = True
            if owner[column] < 0:
                break
            row = int(owner[column])
        passed = np.flatnonzero(done)
        row_price[new] += length
        held = passed[owner[passed] >= 0]
        row_price[owner[held]] += length - shortest[held]
        column_price[passed] -= length - shortest[passed]
        while before[column] >= 0:
            owner[column] = owner[before[column]]
            column = int(before[column])
        owner[column] = new
    answer = np.empty(rows, np.intp)
    taken = np.flatnonzero(owner >= 0)
    answer[owner[taken]] = taken
    return answer
