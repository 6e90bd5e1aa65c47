"""Objectives without a solver, on small cases by hand."""

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import Demands, FastestFirst, Gang, Isolated, JobRequest, Proportional

K80, P100, V100 = (GpuType(name) for name in ("k80", "p100", "v100"))


def demands(*gpus: int, room: tuple[int, int, int] = (2, 2, 2), left: int = 100) -> Demands:
    """Return claims of so many GPUs each; k80, p100, v100 make 1, 2 and 4 steps a second."""
    kinds = [JobKind("m", many) for many in gpus]
    table = ThroughputTable(
        {name: dict.fromkeys(kinds, rate) for name, rate in ((K80, 1.0), (P100, 2.0), (V100, 4.0))}
    )
    requests = tuple(JobRequest(JobId(f"j{n}"), kind, left) for n, kind in enumerate(kinds))
    return Demands(requests, dict(zip((K80, P100, V100), room, strict=True)), table)


def gang(number: int) -> Gang:
    return (JobId(f"j{number}"),)


def test_isolated_divides_by_jobs_and_by_gpus() -> None:
    found = Isolated().fractions(demands(1, 2, 1, 1, 1, 1, 1, 1, room=(2, 2, 4)))

    assert found[gang(0)] == {K80: 0.25, P100: 0.25, V100: 0.5}
    assert found[gang(1)] == {K80: 0.125, P100: 0.125, V100: 0.25}


def test_isolated_never_gives_a_job_more_than_all_of_its_time() -> None:
    assert sum(Isolated().fractions(demands(1))[gang(0)].values()) == pytest.approx(1.0)


def test_proportional_gives_each_job_the_mix_of_the_cluster() -> None:
    found = Proportional().fractions(demands(1, 4, room=(2, 2, 4)))

    assert found[gang(0)] == found[gang(1)] == {K80: 0.25, P100: 0.25, V100: 0.5}


def test_fastest_first_stops_at_the_first_job_without_room() -> None:
    found = FastestFirst().fractions(demands(2, 2, 1, 4, 1))

    assert [sum(row.values()) for row in found.values()] == [1, 1, 1, 0, 0]
    assert (found[gang(0)][V100], found[gang(1)][P100], found[gang(2)][K80]) == (1, 1, 1)
