"""What cannot be solved has a name, and numpy's errors stay inside."""

from dataclasses import replace

import numpy as np
import pytest

from shunter.policies.gavel import Groups, Pairs, Status, isolated, max_min_fairness, proportional
from tests.unit.policies.gavel.solving.instances import groups_of

GROUPS = groups_of(4, 5, 3)


def test_no_jobs_are_empty() -> None:
    nobody = Groups(np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.ones(2))

    assert max_min_fairness(nobody, np.zeros(0)).status is Status.empty


def test_a_row_of_zeros_is_unrunnable() -> None:
    rates = GROUPS.rates.copy()
    rates[2] = 0.0

    assert max_min_fairness(replace(GROUPS, rates=rates), np.ones(5)).status is Status.unrunnable


def test_no_capacity_is_unrunnable() -> None:
    groups = replace(GROUPS, capacity=np.zeros(3))

    assert max_min_fairness(groups, np.ones(5)).status is Status.unrunnable
    assert isolated(groups).status is Status.unrunnable
    assert proportional(groups).status is Status.unrunnable


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_numbers_that_are_none_are_invalid(value: float) -> None:
    rates = GROUPS.rates.copy()
    rates[0, 0] = value

    assert max_min_fairness(replace(GROUPS, rates=rates), np.ones(5)).status is Status.invalid


def test_weights_of_zero_are_invalid() -> None:
    assert max_min_fairness(GROUPS, np.zeros(5)).status is Status.invalid


def test_pairs_of_other_gangs_are_invalid() -> None:
    rates = np.ones((1, 3))
    pairs = Pairs(np.array([0]), np.array([1]), rates, rates)
    groups = replace(GROUPS, gangs=np.array([1.0, 2.0, 1.0, 1.0, 1.0]), pairs=pairs)

    assert max_min_fairness(groups, np.ones(5)).status is Status.invalid


def test_one_job_and_one_type_get_all_of_each_other() -> None:
    one = np.ones(1)

    shares = max_min_fairness(Groups(np.full((1, 1), 2.5), one, one, one), one)

    assert shares.status is Status.optimal
    assert shares.fractions == pytest.approx(1.0)


def test_a_type_nobody_has_gets_no_share() -> None:
    groups = replace(GROUPS, capacity=np.array([3.0, 0.0, 2.0]))

    shares = max_min_fairness(groups, np.ones(5))

    assert shares.status is Status.optimal
    assert not shares.fractions[:, 1].any()
