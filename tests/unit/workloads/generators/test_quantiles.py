"""Distributions given by quantiles."""

from math import exp, log

import pytest

from shunter.workloads import Quantiles


def test_known_quantiles_are_met() -> None:
    table = Quantiles((0, 0.5, 1), (1, 10, 1000))
    assert [table.at(p) for p in (0, 0.5, 0.25)] == pytest.approx([1, 10, 10**0.5])


def test_equal_quantiles_are_a_constant() -> None:
    table = Quantiles((0, 0.5, 1), (7, 7, 7))
    assert [table.at(0.3), table.mean()] == pytest.approx([7, 7])


def test_mean_is_that_of_what_is_drawn() -> None:
    table = Quantiles((0, 0.2, 0.9, 1), (1, 2, 50, 5000))
    draws = [table.at((i + 0.5) / 100_000) for i in range(100_000)]
    assert table.mean() == pytest.approx(sum(draws) / len(draws), rel=1e-3)
    assert Quantiles((0, 1), (1, exp(1))).mean() == pytest.approx((exp(1) - 1) / log(exp(1)))
