"""Objectives of the public simulator without a solver, on small cases by hand."""

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import JobKind
from shunter.events import JobId
from shunter.policies.gavel import Demands, JobRequest
from shunter_peers.gavel.objectives import Allox, PackedFifo, RandomPairs, StaleFifo
from shunter_peers.gavel.objectives.allox import least_cost
from tests.unit.policies.gavel.objectives import test_packing as packing
from tests.unit.policies.gavel.objectives.test_objectives import V100, demands, gang

A, B, WIDE = packing.A, packing.B, packing.WIDE


def test_stale_fifo_fills_one_type_beyond_its_gpus() -> None:
    found = StaleFifo().fractions(demands(*[1] * 4, room=(2, 2, 3)))

    assert [row[V100] for row in found.values()][:3] == [1, 1, 1]


def test_new_job_inherits_the_type_of_an_ended_one() -> None:
    objective = StaleFifo()
    first = demands(1, 1)
    objective.fractions(first)

    again = Demands(
        (first.requests[1], JobRequest(JobId("new"), JobKind("m", 1), 5)), first.gpus, first.table
    )

    assert objective.fractions(again)[(JobId("new"),)][V100] == 1.0


def test_allox_keeps_a_job_where_it_is() -> None:
    objective = Allox()
    now = demands(1, 1, 1, room=(0, 1, 1))
    before = objective.fractions(now)

    assert objective.fractions(now) == before
    assert sum(row[V100] for row in before.values()) == 1


def test_allox_gives_one_fast_gpu_to_the_shortest_job() -> None:
    now = demands(1, 1, room=(0, 0, 1))
    long = JobRequest(JobId("j0"), JobKind("m", 1), 1000)

    found = Allox().fractions(Demands((long, now.requests[1]), now.gpus, now.table))

    assert (found[gang(0)][V100], found[gang(1)][V100]) == (0.0, 1.0)


COSTS = st.integers(1, 4).flatmap(
    lambda rows: st.lists(
        st.lists(st.floats(0, 100), min_size=5, max_size=5), min_size=rows, max_size=rows
    )
)


@given(COSTS)
def test_assignment_costs_no_more_than_any_other(costs: list[list[float]]) -> None:
    columns = least_cost(costs)

    found = sum(row[column] for row, column in zip(costs, columns, strict=True))
    best = min(
        sum(row[column] for row, column in zip(costs, tried, strict=True))
        for tried in permutations(range(5), len(costs))
    )
    assert len(set(columns)) == len(columns)
    assert found == pytest.approx(best)


def test_random_pairs_stay_until_one_of_them_is_gone() -> None:
    objective, these = RandomPairs(), packing.demands(*[A] * 6)
    before = {gang for gang, row in objective.fractions(these).items() if any(row.values())}
    assert [len(gang) for gang in before] == [2, 2, 2]

    gone = min(gang for gang in before if len(gang) == 2)[0]
    left = tuple(request for request in these.requests if request.job_id != gone)
    after = {
        gang
        for gang, row in objective.fractions(Demands(left, these.gpus, packing.TABLE)).items()
        if any(row.values())
    }
    assert {gang for gang in before if len(gang) == 2 and gone not in gang} <= after


def test_random_pairs_are_made_only_where_there_are_more_jobs_than_gpus() -> None:
    found = RandomPairs().fractions(packing.demands(A, B, room=(1, 1)))

    assert [gang for gang, row in found.items() if any(row.values())] == [("j0",), ("j1",)]


def test_packed_fifo_passes_over_who_found_no_room_and_packs_the_next() -> None:
    """Two GPUs are too few for j1, which ends the first part; j2 goes beside j0, and j3 waits."""
    found = PackedFifo().fractions(packing.demands(A, WIDE, A, B))

    ones = {gang: name for gang, row in found.items() for name, part in row.items() if part}
    assert ones == {("j0", "j2"): packing.FAST}
