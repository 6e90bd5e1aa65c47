"""AlloX's assignment against trying all."""

from itertools import permutations

import numpy as np
import pytest

from shunter.policies.gavel import first_in_queues, least_cost_assignment


@pytest.mark.parametrize("seed", range(20))
def test_assignment_costs_the_least_of_all(seed: int) -> None:
    costs = np.random.default_rng(seed).uniform(0, 1, (4, 6))

    columns = least_cost_assignment(costs)

    least = min(costs[range(4), list(each)].sum() for each in permutations(range(6), 4))
    assert len({*columns.tolist()}) == 4
    assert costs[range(4), columns].sum() == pytest.approx(least)


def test_the_shortest_job_is_first_on_one_gpu() -> None:
    durations = np.array([[3.0], [1.0], [2.0]])

    assert first_in_queues(durations, np.array([1])).tolist() == [-1, 0, -1]


def test_jobs_go_where_they_gain_most() -> None:
    durations = np.array([[1.0, 1.5], [1.0, 9.0]])

    assert first_in_queues(durations, np.array([1, 1])).tolist() == [1, 0]


def test_a_job_that_cannot_run_waits() -> None:
    assert first_in_queues(np.array([[np.inf]]), np.array([2])).tolist() == [-1]
    assert first_in_queues(np.zeros((0, 1)), np.array([2])).tolist() == []
