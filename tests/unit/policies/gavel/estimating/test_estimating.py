"""Completion of what nobody measured: exact where the model is, and honest about its error."""

import numpy as np
import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId
from shunter.policies.gavel import complete, completed_table, guessed_rates
from shunter.workloads import load_throughputs

K80, P100, V100 = (GpuType(name) for name in ("k80", "p100", "v100"))


def product(rows: int = 8, columns: int = 4) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.outer(10 ** rng.uniform(-1, 2, rows), 10 ** rng.uniform(0, 1, columns))


def mask(shape: tuple[int, int], part: float) -> np.ndarray:
    known = np.random.default_rng(2).random(shape) < part
    known[0], known[:, 0] = True, True
    return known


def test_product_of_row_and_column_is_found_from_half_of_it() -> None:
    values = product()
    known = mask(values.shape, 0.5)

    found = complete(np.where(known, values, 0.0), known)

    assert np.allclose(found.values, values, rtol=0.1)
    assert found.error is not None
    assert found.error < 0.05


def test_known_numbers_stay_as_they_are() -> None:
    values = product()
    known = mask(values.shape, 0.6)

    found = complete(np.where(known, values, 0.0), known)

    assert (found.values[known] == values[known]).all()


def test_noise_is_told_as_error() -> None:
    rng = np.random.default_rng(3)
    values = product(12, 5) * np.exp(rng.normal(0, 0.4, (12, 5)))

    found = complete(values, np.ones(values.shape, np.bool_))

    assert found.error is not None
    assert 0.1 < found.error < 0.8


def test_too_little_has_no_error() -> None:
    known = np.array([[True, False], [False, True]])

    assert complete(np.ones((2, 2)), known).error is None


def test_same_numbers_give_the_same_guesses() -> None:
    values = product()
    known = mask(values.shape, 0.4)

    assert (complete(values, known).values == complete(values, known).values).all()


def test_gap_in_a_table_is_filled_and_a_zero_stays() -> None:
    kinds = [JobKind(f"m{number}", 1) for number in range(4)]
    table = ThroughputTable(
        {
            V100: {kind: 8.0 * (number + 1) for number, kind in enumerate(kinds)},
            K80: {kinds[0]: 1.0, kinds[1]: 2.0, kinds[3]: 0.0},
        }
    )

    found = completed_table(table)

    assert found.alone == 1
    assert found.table.rate(K80, kinds[2]) == pytest.approx(3.0, rel=0.1)
    assert found.table.rate(K80, kinds[3]) == 0.0


def test_half_of_the_built_in_pairs_are_guessed_within_a_fifth() -> None:
    """Every second known pair is hidden, as if it had not been measured."""
    table = load_throughputs("builtin:gavel", lambda _name: "", "v100").table
    ours = table.narrowed([V100])
    pairs = {pair: rates for pair, rates in ours.paired[V100].items() if min(rates) > 0}
    hidden = {pair for number, pair in enumerate(sorted(pairs)) if number % 4 == 0}
    hidden |= {(other, one) for one, other in hidden}
    seen = {pair: rates for pair, rates in ours.paired[V100].items() if pair not in hidden}

    found = completed_table(ThroughputTable(ours.alone, {V100: seen}, V100))

    off = [
        abs(found.table.paired[V100][pair][0] / pairs[pair][0] - 1.0)
        for pair in sorted(hidden)
        if pair in pairs
    ]
    assert found.paired >= len(off)
    assert float(np.median(off)) < 0.2
    assert found.paired_error is not None
    assert found.paired_error < 0.3


def test_job_gets_the_ratio_of_types_from_other_jobs() -> None:
    measured = {
        JobId("a"): {K80: 1.0, V100: 8.0},
        JobId("b"): {K80: 2.0, V100: 16.0},
        JobId("c"): {K80: 4.0},
    }

    rates, error = guessed_rates(measured, (K80, V100))

    assert rates[JobId("c")][K80] == 4.0
    assert rates[JobId("c")][V100] == pytest.approx(32.0, rel=0.15)
    assert error is not None


def test_nothing_is_guessed_before_two_jobs_know_two_types() -> None:
    assert guessed_rates({JobId("a"): {K80: 1.0, V100: 8.0}}, (K80, V100)) == ({}, None)
