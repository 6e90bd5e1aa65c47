"""Objectives without a solver, on small cases by hand."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.core.throughputs import JobKind, ThroughputTable
from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.mechanism import Claim, Gang, Wanted
from shunter.policies.gavel.objectives import FastestFirst, Isolated, Proportional
from shunter_peers.gavel.objectives import Allox, StaleFifo
from shunter_peers.gavel.objectives.allox import least_cost

K80, P100, V100 = (GpuType(name) for name in ("k80", "p100", "v100"))


def wanted(*gpus: int, room: tuple[int, int, int] = (2, 2, 2), left: int = 100) -> Wanted:
    """Return claims of so many GPUs each; k80, p100, v100 make 1, 2 and 4 steps a second."""
    kinds = [JobKind("m", many) for many in gpus]
    table = ThroughputTable(
        {name: dict.fromkeys(kinds, rate) for name, rate in ((K80, 1.0), (P100, 2.0), (V100, 4.0))}
    )
    claims = tuple(Claim(JobId(f"j{n}"), kind, left) for n, kind in enumerate(kinds))
    return Wanted(claims, dict(zip((K80, P100, V100), room, strict=True)), table)


def gang(number: int) -> Gang:
    return (JobId(f"j{number}"),)


def test_isolated_divides_by_jobs_and_by_gpus() -> None:
    found = Isolated().fractions(wanted(1, 2, 1, 1, 1, 1, 1, 1, room=(2, 2, 4)))

    assert found[gang(0)] == {K80: 0.25, P100: 0.25, V100: 0.5}
    assert found[gang(1)] == {K80: 0.125, P100: 0.125, V100: 0.25}


def test_isolated_never_gives_a_job_more_than_all_of_its_time() -> None:
    assert sum(Isolated().fractions(wanted(1))[gang(0)].values()) == pytest.approx(1.0)


def test_proportional_gives_each_job_the_mix_of_the_cluster() -> None:
    found = Proportional().fractions(wanted(1, 4, room=(2, 2, 4)))

    assert found[gang(0)] == found[gang(1)] == {K80: 0.25, P100: 0.25, V100: 0.5}


def test_fastest_first_stops_at_the_first_job_without_room() -> None:
    found = FastestFirst().fractions(wanted(2, 2, 1, 4, 1))

    assert [sum(row.values()) for row in found.values()] == [1, 1, 1, 0, 0]
    assert (found[gang(0)][V100], found[gang(1)][P100], found[gang(2)][K80]) == (1, 1, 1)


def test_stale_fifo_fills_one_type_beyond_its_gpus() -> None:
    found = StaleFifo().fractions(wanted(*[1] * 4, room=(2, 2, 3)))

    assert [row[V100] for row in found.values()][:3] == [1, 1, 1]


def test_new_job_inherits_the_type_of_an_ended_one() -> None:
    objective = StaleFifo()
    first = wanted(1, 1)
    objective.fractions(first)

    again = Wanted(
        (first.claims[1], Claim(JobId("new"), JobKind("m", 1), 5)), first.gpus, first.table
    )

    assert objective.fractions(again)[(JobId("new"),)][V100] == 1.0


def test_allox_keeps_a_job_where_it_is() -> None:
    objective = Allox()
    now = wanted(1, 1, 1, room=(0, 1, 1))
    before = objective.fractions(now)

    assert objective.fractions(now) == before
    assert sum(row[V100] for row in before.values()) == 1


def test_allox_gives_one_fast_gpu_to_the_shortest_job() -> None:
    now = wanted(1, 1, room=(0, 0, 1))
    long = Claim(JobId("j0"), JobKind("m", 1), 1000)

    found = Allox().fractions(Wanted((long, now.claims[1]), now.gpus, now.table))

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
