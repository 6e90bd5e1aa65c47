"""Arrival processes."""

from itertools import islice
from random import Random

import pytest

from shunter.workloads import diurnal_arrivals_us, poisson_arrivals_us


def test_gaps_have_the_mean_and_spread_of_a_poisson_process() -> None:
    instants = list(islice(poisson_arrivals_us(Random("a").random, 60), 20_000))
    gaps = [after - before for before, after in zip([0, *instants], instants, strict=False)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(60_000_000, rel=0.03)
    assert spread == pytest.approx(mean, rel=0.03)


def test_flat_rhythm_is_no_rhythm() -> None:
    plain = list(islice(poisson_arrivals_us(Random("a").random, 600), 2_000))
    flat = list(islice(diurnal_arrivals_us(Random("a").random, 600, [3] * 24, 1.0), 2_000))
    assert flat == plain


def test_hours_get_their_shares() -> None:
    """A day whose second half is three times as busy, and no weekend: the quiet half gets 1/4."""
    weights = [1] * 12 + [3] * 12
    instants = list(islice(diurnal_arrivals_us(Random("a").random, 60, weights, 1.0), 40_000))
    quiet = sum(instant // 3_600_000_000 % 24 < 12 for instant in instants)
    assert quiet / len(instants) == pytest.approx(0.25, abs=0.01)
    assert instants == sorted(instants)


def test_instants_are_whole_milliseconds() -> None:
    instants = islice(diurnal_arrivals_us(Random("a").random, 60, range(1, 25), 0.5), 1_000)
    assert all(instant % 1000 == 0 for instant in instants)
