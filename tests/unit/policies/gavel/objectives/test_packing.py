"""Pairs of groups into the program, pairs of jobs out of it."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import (
    Demands,
    Fractions,
    Groups,
    JobRequest,
    MaxMinFairness,
    Shares,
    Status,
    few_pairs,
    pairs_among,
)
from shunter_peers.gavel.arrays import every_pair
from tests.slices import searched

FAST, SLOW = GpuType("fast"), GpuType("slow")
TYPES = (FAST, SLOW)
A, B, WIDE = JobKind("a", 1), JobKind("b", 1), JobKind("a", 2)
TABLE = ThroughputTable(
    {FAST: {A: 4.0, B: 2.0, WIDE: 8.0}, SLOW: {A: 1.0, B: 2.0, WIDE: 2.0}},
    {
        FAST: {(A, B): (3.0, 1.5), (B, A): (1.5, 3.0), (A, A): (3.5, 3.5)},
        SLOW: {(A, B): (0.0, 0.0), (B, A): (0.0, 0.0), (A, A): (0.75, 0.75)},
    },
)


def demands(
    *kinds: JobKind, room: tuple[int, int] = (1, 1), alone: tuple[int, ...] = ()
) -> Demands:
    requests = [
        JobRequest(JobId(f"j{number}"), kind, 100, alone=number in alone)
        for number, kind in enumerate(kinds)
    ]
    return Demands(tuple(requests), dict(zip(TYPES, room, strict=True)), TABLE)


def groups_of(these: Demands, *, idle: bool = False) -> Groups:
    """Return a group for each claim."""
    rates = np.array([[these.rate(request, name) for name in TYPES] for request in these.requests])
    sizes = np.array([float(request.kind.gpus) for request in these.requests])
    capacity = np.array([float(gpus) for gpus in these.gpus.values()])
    return Groups(rates, np.ones(len(sizes)), sizes, capacity, idle=idle)


def test_pairs_are_of_equal_gangs_of_which_somebody_measured_what_they_keep() -> None:
    these = demands(A, B, WIDE)
    pairs = pairs_among(these.requests, groups_of(these), TYPES, these)

    assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == [(0, 0), (0, 1)]
    assert pairs.first_rates.tolist() == [[3.5, 0.75], [3.0, 0.0]]
    assert pairs.second_rates.tolist() == [[3.5, 0.75], [1.5, 0.0]]


def test_pairs_that_cannot_run_count_where_the_public_code_is_played() -> None:
    these = demands(A, B, WIDE)
    pairs = pairs_among(these.requests, groups_of(these, idle=True), TYPES, these)

    found = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert found == [(0, 0), (0, 1), (1, 1), (2, 2)]


def test_job_that_is_to_be_alone_is_in_no_pair() -> None:
    these = demands(A, B, alone=(0,))

    assert len(pairs_among(these.requests, groups_of(these), TYPES, these).first) == 0


def test_measured_job_keeps_the_same_part_of_its_own_rate() -> None:
    requests = (
        JobRequest(JobId("j0"), A, 9, rates={FAST: 40.0, SLOW: 10.0}),
        JobRequest(JobId("j1"), B, 9),
    )
    these = Demands(requests, {FAST: 1, SLOW: 1}, TABLE)
    pairs = pairs_among(requests, groups_of(these), TYPES, these)

    assert pairs.first_rates[1].tolist() == [30.0, 0.0]


def sums(found: Fractions) -> dict[tuple[JobId, GpuType, str], float]:
    """Return the time of each job in pairs, by type and by the partner's kind."""
    total: dict[tuple[JobId, GpuType, str], float] = defaultdict(float)
    kinds = {f"j{number}": number % 2 for number in range(40)}
    for one, two in found:
        for name, part in found[one, two].items():
            total[one, name, f"beside {kinds[two]}"] += part
            total[two, name, f"beside {kinds[one]}"] += part
    return total


@given(
    ones=st.integers(1, 9),
    twos=st.integers(0, 9),
    parts=st.lists(st.floats(0.001, 0.05), min_size=6, max_size=6),
)
def test_few_pairs_give_each_job_what_all_pairs_would(
    ones: int, twos: int, parts: list[float]
) -> None:
    """Jobs of the first group have even numbers, those of the second odd ones."""
    numbers = sorted([*range(0, 2 * ones, 2), *range(1, 2 * twos, 2)])
    requests = [JobRequest(JobId(f"j{number}"), (A, B)[number % 2], 100) for number in numbers]
    these = Demands(tuple(requests), {FAST: 9, SLOW: 9}, TABLE)
    members = [JobRequest(JobId("a"), A, 100), JobRequest(JobId("b"), B, 100)][: 1 + bool(twos)]
    counts = np.array([float(ones), float(twos)][: len(members)])
    groups = Groups(
        np.ones((len(members), 2)), counts, np.ones(len(members)), np.ones(2), idle=True
    )
    pairs = pairs_among(members, groups, TYPES, these)
    group = np.array([number % 2 for number in numbers], np.intp)
    fractions = np.array(parts).reshape(3, 2)[: len(pairs.first)]
    fractions[pairs.weights(counts) == 0] = 0.0
    shares = Shares(Status.optimal, 0, 0, np.zeros((len(members), 2)), fractions, counts)

    few = few_pairs(these, group, pairs, shares, TYPES)

    assert len(few) <= 3 * (ones + twos)
    expected = {
        key: part
        for key, part in sums(every_pair(these, group, pairs, shares, TYPES)).items()
        if part
    }
    assert sums(few) == pytest.approx(expected)


@searched(25)
@given(
    kinds=st.lists(st.sampled_from([A, A, B, WIDE]), min_size=1, max_size=12),
    room=st.tuples(st.integers(2, 4), st.integers(2, 4)),
)
def test_pairs_keep_every_limit_and_make_nobody_worse_off(
    kinds: list[JobKind], room: tuple[int, int]
) -> None:
    these = demands(*kinds, room=room)
    alone, packed = (least(these, MaxMinFairness(packed=each)) for each in (False, True))

    assert packed >= alone * (1 - 1e-6)


def least(these: Demands, objective: MaxMinFairness) -> float:
    """Return the least normalised throughput, having checked every limit."""
    found = objective.fractions(these)
    requests = {request.job_id: request for request in these.requests}
    time: dict[JobId, float] = defaultdict(float)
    rate: dict[JobId, float] = defaultdict(float)
    used: dict[GpuType, float] = defaultdict(float)
    for gang, row in found.items():
        assert len({requests[job_id].kind.gpus for job_id in gang}) == 1
        for name, part in row.items():
            assert 0 <= part <= 1 + 1e-9
            used[name] += part * requests[gang[0]].kind.gpus
            rates = rates_of([requests[job_id] for job_id in gang], name)
            for job_id, one in zip(gang, rates, strict=True):
                time[job_id] += part
                rate[job_id] += part * one
    assert all(part <= 1 + 1e-6 for part in time.values())
    assert all(gpus <= these.gpus[name] * (1 + 1e-6) for name, gpus in used.items())
    whole = sum(these.gpus.values())
    return min(
        rate[request.job_id]
        * request.kind.gpus
        / sum(these.rate(request, name) * gpus / whole for name, gpus in these.gpus.items())
        for request in these.requests
    )


def rates_of(gang: list[JobRequest], gpu_type: GpuType) -> tuple[float, ...]:
    if len(gang) == 1:
        return (TABLE.rate(gpu_type, gang[0].kind) or 0.0,)
    rates = TABLE.pair_rates(gpu_type, gang[0].kind, gang[1].kind)
    assert rates is not None, "nobody measured this pair"
    return rates
