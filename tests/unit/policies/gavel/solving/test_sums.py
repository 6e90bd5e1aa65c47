"""Sums of throughputs against HiGHS, with and without demands."""

import numpy as np
import pytest

from shunter.policies.gavel import Status, max_min_fairness, max_sum_throughput, min_cost
from tests.doubles.highs_oracle import highs_sum
from tests.unit.policies.gavel.solving.instances import EVERY, groups_of
from tests.unit.policies.gavel.solving.limits import assert_limits_kept

Shape = tuple[int, int, int, bool, bool]


@pytest.mark.parametrize("shape", EVERY)
@pytest.mark.parametrize("part", [0.0, 0.5, 0.95])
def test_sum_with_demands_is_that_of_highs(shape: Shape, part: float) -> None:
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)
    prices = np.linspace(3.0, 0.5, shape[2])
    fair = max_min_fairness(groups, np.ones(shape[1])).throughputs
    demand = part * fair * (np.arange(shape[1]) % 3 > 0)

    shares = min_cost(groups, prices, demand)

    assert shares.status is Status.optimal
    assert shares.objective == pytest.approx(highs_sum(groups, 1 / prices, demand), rel=1e-6)
    assert (shares.throughputs >= demand * (1 - 1e-6)).all()
    assert_limits_kept(groups, shares)


def test_demands_that_cannot_be_met_are_infeasible() -> None:
    groups = groups_of(1, 6, 3)

    shares = max_sum_throughput(groups, groups.rates.max(axis=1) * 1.01)

    assert shares.status is Status.infeasible
    assert not shares.fractions.any()
