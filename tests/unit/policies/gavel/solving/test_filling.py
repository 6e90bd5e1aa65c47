"""Water filling is lexicographic max-min, and finish-time fairness minimal, by HiGHS."""

import numpy as np
import pytest

from shunter.policies.gavel import (
    Status,
    finish_time_fairness,
    hierarchical,
    max_min_fairness,
    proportional_rates,
    water_filling,
)
from tests.doubles.highs_oracle import highs_level, highs_sum
from tests.unit.policies.gavel.solving.instances import groups_of
from tests.unit.policies.gavel.solving.limits import assert_limits_kept

SHAPES = [(seed, 8, 3, seed % 2 == 1, seed % 3 == 0) for seed in range(6)]
# In these bottlenecks are near to where groups fill up.
CLOSE = [(3, 40, 4, False, True), (55, 40, 4, False, False)]
Shape = tuple[int, int, int, bool, bool]


@pytest.mark.parametrize(
    ("shape", "slack"), [*((shape, 1e-6) for shape in SHAPES), *((shape, 1e-7) for shape in CLOSE)]
)
def test_nobody_can_rise_without_lowering_who_has_no_more(shape: Shape, slack: float) -> None:
    """Ask HiGHS for a little more for each group, and for all below it what they have.

    The slack of all of these adds up to what one can gain, so it is less among many.
    """
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)

    shares = water_filling(groups, np.ones(len(groups.counts)))

    assert shares.status in {Status.optimal, Status.stalled}
    assert_limits_kept(groups, shares)
    level = shares.throughputs / proportional_rates(groups) * groups.gangs
    for group in range(len(level)):
        demand = np.where(level <= level[group] * (1 + 1e-6), shares.throughputs, 0.0)
        demand = demand * (1 - slack)
        demand[group] *= 1 + 1e-3
        assert highs_sum(groups, np.ones(len(groups.capacity)), demand) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_least_level_is_that_of_max_min_fairness(shape: Shape) -> None:
    groups = groups_of(*shape)

    filled = water_filling(groups, np.ones(8))

    least = (filled.throughputs / proportional_rates(groups) * groups.gangs).min()
    fair = max_min_fairness(groups, np.ones(8))
    assert least == pytest.approx(fair.objective, rel=1e-6)


@pytest.mark.parametrize("weights", [np.ones(8), None])
def test_entities_that_compete_for_all_rise_by_weight(
    weights: "np.ndarray[tuple[int], np.dtype[np.float64]] | None",
) -> None:
    groups = groups_of(9, 8, 1)
    entity = np.arange(8) % 2

    shares = hierarchical(groups, entity, np.array([1.0, 3.0]), weights)

    width = shares.fractions[:, 0] * groups.gangs
    assert_limits_kept(groups, shares)
    assert width[entity == 0].sum() * 3 >= width[entity == 1].sum() * (1 - 1e-6)


@pytest.mark.parametrize(
    "shape", [*SHAPES, *CLOSE, (1, 20, 2, False, False), (23, 40, 4, False, False)]
)
def test_first_of_a_queue_that_is_not_full_cannot_rise(shape: Shape) -> None:
    """Ask HiGHS for a little more for the head of each queue, and for others what they have."""
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)
    entity = np.random.default_rng(shape[0]).integers(0, 3, len(groups.counts))

    shares = hierarchical(groups, entity, np.array([1.0, 2.0, 3.0]), None)

    assert shares.status in {Status.optimal, Status.stalled}
    assert_limits_kept(groups, shares)
    short = shares.throughputs < groups.fastest() * (1 - 1e-6)
    for queue in range(3):
        head = int(np.argmax(short & (entity == queue)))
        demand = shares.throughputs * (1 - 1e-6)
        demand[head] = shares.throughputs[head] + 1e-2 * groups.fastest()[head]
        assert highs_sum(groups, np.ones(len(groups.capacity)), demand) is None


@pytest.mark.parametrize("shape", SHAPES)
def test_ratio_of_finish_times_is_least(shape: Shape) -> None:
    pytest.importorskip("highspy", reason="needs the extra solvers")
    groups = groups_of(*shape)
    rng = np.random.default_rng(shape[0])
    elapsed, steps, alone = rng.uniform(0, 1e4, 8), 10 ** rng.uniform(4, 5, 8), np.full(8, 3e4)

    shares = finish_time_fairness(groups, elapsed, steps, alone)

    assert shares.status is Status.optimal
    assert_limits_kept(groups, shares)
    level = highs_level(groups, steps / (shares.objective * (1 - 1e-6) * alone - elapsed))
    assert level is None or level < 1
