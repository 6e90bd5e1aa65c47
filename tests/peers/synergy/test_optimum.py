"""opt: our exact method and HiGHS find equally good points, and ours by one rule for ties."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from shunter.config import equipped, policy_plugins
from shunter.errors import ConfigError
from shunter_peers.synergy import SynergyPeer
from shunter_peers.synergy.optimum import Point, Solver, best_points
from tests.peers.synergy.literal import MODELS, PeerJob
from tests.peers.synergy.played import ends_s, peer, play
from tests.slices import searched

pytest.importorskip("highspy", reason="needs the extra solvers")

Wanted = tuple[tuple[str, int], ...]
SOLVERS: tuple[Solver, Solver] = ("highs", "exact")


@st.composite
def job_lists(draw: st.DrawFn) -> tuple[Wanted, tuple[float, float]]:
    """Return jobs that have their GPUs, and the cores and GB of so many servers."""
    servers = draw(st.integers(1, 4))
    left, found = 8 * servers, list[tuple[str, int]]()
    for gpus in draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 8]), min_size=1, max_size=32)):
        if gpus <= left:
            left -= gpus
            found.append((draw(st.sampled_from(sorted(MODELS))), gpus))
    return tuple(found), (24.0 * servers, 500.0 * servers)


@searched(40)
@given(jobs=job_lists())
def test_both_solvers_reach_the_same_sum_of_speeds(
    jobs: tuple[Wanted, tuple[float, float]],
) -> None:
    wanted, room = jobs

    highs, exact = (best_points(wanted, room, solver) for solver in SOLVERS)

    assert total(highs) == pytest.approx(total(exact), abs=1e-6)
    for points in (highs, exact):
        assert all(point.speed >= 1 for point in points)
        assert used(wanted, points, "cpus") <= room[0]
        assert used(wanted, points, "memory_gb") <= room[1] + 1e-6


def total(points: Sequence[Point]) -> float:
    return math.fsum(point.speed for point in points)


def used(wanted: Wanted, points: Sequence[Point], what: str) -> float:
    pairs = zip(wanted, points, strict=True)
    return math.fsum(gpus * getattr(point, what) for (_, gpus), point in pairs)


@pytest.mark.parametrize("models", [("alexnet", "shufflenet"), ("shufflenet", "alexnet")])
def test_of_equal_answers_it_is_the_one_with_a_faster_first_job(models: tuple[str, str]) -> None:
    """Method: one core more than the fair three of both, with which either is as fast."""
    first, second = models

    points = best_points(((first, 1), (second, 1)), (7.0, 200.0), "exact")

    assert [point.cpus for point in points] == [4, 3]


def test_less_memory_comes_before_fewer_cores_and_order() -> None:
    """Method: m5 is no faster with 125 GB and five cores than with 62.5 GB."""
    (point,) = best_points((("m5", 1),), (5.0, 250.0), "exact")
    assert (point.cpus, point.memory_gb, point.speed) == (5, 62.5, 1.4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_run_without_contention_has_the_best_speed_of_every_job(solver: Solver) -> None:
    """Method: alexnet makes floor(300 / (0.6 / 2.94)) = 1470 iterations a round with 12 cores."""
    jobs = [PeerJob("j0", "alexnet", 8.0, 1471), PeerJob("j1", "alexnet", 9.0, 1470)]

    outcome = play(jobs, 2, order="srtf", mechanism="opt", solver=solver)

    assert ends_s(outcome) == {"j0": 900, "j1": 600}


@pytest.fixture
def without_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_plugins, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_highs")
def test_missing_extra_is_named_with_what_needs_none() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'shunter\[solvers\]'.*solver = 'exact'"):
        equipped(peer(mechanism="opt"))


@pytest.mark.usefixtures("without_highs")
@pytest.mark.parametrize("params", [{"mechanism": "tune"}, {"mechanism": "opt", "solver": "exact"}])
def test_who_does_not_use_the_solver_needs_no_extra(params: dict[str, str]) -> None:
    assert equipped(peer(**params)).name == "synergy_peer"


def test_solver_is_recorded_only_where_something_is_solved() -> None:
    recorded = [
        SynergyPeer.Params.model_validate({"mechanism": name}).record() for name in ("tune", "opt")
    ]

    assert [found.get("solver") for found in recorded] == [None, "highs"]
