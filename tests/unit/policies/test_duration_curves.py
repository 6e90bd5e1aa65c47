"""What a history says of a job, against sums written out by hand and by brute force."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from shunter.policies import INDEX_ONE, LARGEST_INDEX_US, expected_rest, gittins_index

samples = st.lists(st.integers(1, 300), min_size=1, max_size=25).map(sorted)


def index_of(share: Fraction) -> int:
    return share.numerator * INDEX_ONE // share.denominator


def test_index_of_a_new_job_by_hand() -> None:
    # Of 2, 2, 10: a quantum of 2 ends two of three for 2 each: 2 / 6. One of 10 ends all for 14.
    steps = gittins_index((2, 2, 10))
    assert steps.at(0) == (index_of(Fraction(2, 6)), 2)


def test_index_of_a_job_that_outlived_the_short_ones_by_hand() -> None:
    # One sample is left, 8 away.
    assert gittins_index((2, 2, 10)).at(2) == (index_of(Fraction(1, 8)), 10)
    assert gittins_index((2, 2, 10)).at(10) == (0, None)


def test_fixed_quantum_by_hand() -> None:
    # A quantum of 4 at 0: two of three end; 2 + 2 + 4 are used.
    assert gittins_index((2, 2, 10), 4).at(0) == (index_of(Fraction(2, 8)), 2)
    # At 2 nobody ends within 4 more.
    assert gittins_index((2, 2, 10), 4).at(2)[0] == 0


def test_use_counts_from_what_is_attained_already() -> None:
    # The quantum's expected use of a job at 100 with 110 to come is 10, not 110.
    assert gittins_index((100, 110), 20).at(100)[0] == index_of(Fraction(1, 10))


def test_expected_rest_by_hand() -> None:
    steps = expected_rest((2, 2, 10))
    assert [steps.at(service)[0] for service in (0, 1, 2, 9, 10)] == [4, 4, 8, 8, LARGEST_INDEX_US]


def test_no_history_knows_nothing() -> None:
    assert gittins_index(()).at(5) == (0, None)
    assert expected_rest(()).at(5) == (LARGEST_INDEX_US, None)


def brute_index(history: Sequence[int], attained: int, quantum: int | None) -> int:
    longer = [sample - attained for sample in history if sample > attained]
    best = Fraction(0)
    for tried in longer if quantum is None else [quantum] if longer else []:
        ended = sum(rest <= tried for rest in longer)
        best = max(best, Fraction(ended, sum(min(rest, tried) for rest in longer)))
    return index_of(best)


@given(samples, st.one_of(st.none(), st.integers(1, 200)))
def test_index_is_the_best_chance_over_expected_use(
    history: list[int], quantum: int | None
) -> None:
    steps = gittins_index(history, quantum, points=len(history))
    for attained in [0, *history]:
        assert steps.at(attained)[0] == brute_index(history, attained, quantum)


@given(samples, st.integers(1, 8))
def test_ranks_change_at_no_more_points_than_asked_for(history: list[int], points: int) -> None:
    for steps in (
        gittins_index(history, points=points),
        expected_rest(history, points=points),
    ):
        assert len(steps.points) <= points + 1
        assert steps.points[0] == 0
        assert list(steps.points) == sorted(set(steps.points))
        assert set(steps.points) <= {0, *history}


@pytest.mark.parametrize("service", [0, 3, 5, 50, 120, 999])
def test_step_lasts_until_it_says(service: int) -> None:
    steps = expected_rest((5, 50, 100, 120))
    value, until = steps.at(service)
    if until is not None:
        assert steps.at(until - 1) == (value, until)
        assert steps.at(until)[0] != value
