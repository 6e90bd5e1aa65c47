"""Max-min fairness and makespan against HiGHS, and what fair means."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from shunter.policies.gavel import (
    Groups,
    Status,
    alike,
    least_total_duration,
    max_min_fairness,
    proportional_rates,
)
from tests.doubles.highs_oracle import highs_level
from tests.slices import searched
from tests.unit.policies.gavel.solving.instances import EVERY, groups_of
from tests.unit.policies.gavel.solving.limits import assert_limits_kept

Shape = tuple[int, int, int, bool, bool]


@pytest.mark.parametrize("shape", EVERY)
def test_max_min_fairness_is_that_of_highs(shape: Shape) -> None:
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)
    weights = np.random.default_rng(shape[0]).choice([1.0, 5.0], len(groups.counts))

    shares = max_min_fairness(groups, weights)

    best = highs_level(groups, weights * proportional_rates(groups) / groups.gangs)
    assert shares.status is Status.optimal
    assert shares.objective == pytest.approx(best, rel=1e-6)
    assert_limits_kept(groups, shares)


@pytest.mark.parametrize("shape", EVERY)
def test_makespan_is_that_of_highs(shape: Shape) -> None:
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)
    steps = 10 ** np.random.default_rng(shape[0]).uniform(3, 7, len(groups.counts))

    shares = least_total_duration(groups, steps)

    best = highs_level(groups, steps)
    assert best is not None
    assert shares.status is Status.optimal
    assert shares.objective == pytest.approx(best, rel=1e-6, abs=0)
    assert 1 / shares.objective == pytest.approx((steps / shares.throughputs).max())


@searched(60)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 5), st.booleans(), st.booleans())
def test_any_answer_keeps_all_limits_and_is_certified(
    seed: int, count: int, types: int, shared: bool, repeated: bool
) -> None:
    groups = groups_of(seed, count, types, shared, repeated)

    shares = max_min_fairness(groups, np.ones(count))

    assert shares.status is Status.optimal
    assert shares.bound >= shares.objective * (1 - 1e-9)
    assert_limits_kept(groups, shares)


@pytest.mark.parametrize("seed", range(5))
def test_equal_weights_give_no_job_less_than_its_isolated_share(seed: int) -> None:
    groups = groups_of(seed, 20, 3)
    groups = Groups(groups.rates, groups.counts, np.ones(20), groups.capacity)

    shares = max_min_fairness(groups, np.ones(20))

    isolated = np.minimum(1.0, groups.capacity.sum() / 20) * proportional_rates(groups)
    assert (shares.throughputs >= isolated * (1 - 1e-6)).all()


def test_identical_rows_get_identical_fractions() -> None:
    groups = groups_of(3, 8, 3)
    twice = Groups(
        np.tile(groups.rates, (2, 1)), np.ones(16), np.tile(groups.gangs, 2), groups.capacity
    )

    shares = max_min_fairness(twice, np.ones(16))

    assert np.abs(shares.fractions[:8] - shares.fractions[8:]).max() < 1e-9


@pytest.mark.parametrize("shared", [False, True])
def test_a_group_is_its_jobs(shared: bool) -> None:
    """The centre of the optimal face, not only the objective, is that of the jobs one by one."""
    groups = groups_of(5, 6, 3, shared=False, repeated=True)
    rows = np.repeat(np.arange(6), groups.counts.astype(int))
    jobs = Groups(
        groups.rates[rows], np.ones(len(rows)), groups.gangs[rows], groups.capacity * (2 - shared)
    )
    groups = Groups(groups.rates, groups.counts, groups.gangs, jobs.capacity)

    grouped = max_min_fairness(groups, np.ones(6))
    single = max_min_fairness(jobs, np.ones(len(rows)))

    assert single.objective == pytest.approx(grouped.objective, rel=1e-8)
    assert np.abs(grouped.fractions[rows] - single.fractions).max() < 1e-4


def test_ties_are_split_evenly() -> None:
    """Two equal types of which one would do: a vertex would leave one of them empty."""
    groups = Groups(np.ones((1, 2)), np.ones(1), np.ones(1), np.ones(2))

    shares = max_min_fairness(groups, np.ones(1))

    assert shares.fractions == pytest.approx(np.full((1, 2), 0.5), abs=1e-6)


def test_alike_finds_groups_in_order_of_appearance() -> None:
    first, group, counts = alike(np.array([[2.0, 0.0], [1.0, 1.0], [2.0, -0.0], [1.0, 1.0]]))

    assert first.tolist() == [0, 1]
    assert group.tolist() == [0, 1, 0, 1]
    assert counts.tolist() == [2, 2]
