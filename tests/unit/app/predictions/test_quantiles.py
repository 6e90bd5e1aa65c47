"""Quantiles of draws: the order statistic that a further draw stays below with a probability."""

from math import inf

from hypothesis import given, strategies as st

from shunter.ask.forks import quantile

DRAWS = st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=30)


@given(DRAWS, st.sampled_from([0.5, 0.9]))
def test_further_draw_stays_at_or_below_it_often_enough(
    found: list[int | None], part: float
) -> None:
    """Of n + 1 draws any could be the further one; for at least that part of them it holds."""
    told = quantile(found, part)
    limit = inf if told is None else told
    below = sum((inf if each is None else each) <= limit for each in found)

    assert below + 1 >= min(part * (len(found) + 1), len(found))
    assert told is None or told in found


def test_nine_and_nineteen_draws_have_a_median_and_a_ninetieth_of_their_own() -> None:
    assert (quantile(range(1, 10), 0.5), quantile(range(1, 10), 0.9)) == (5, 9)
    assert (quantile(range(1, 20), 0.5), quantile(range(1, 20), 0.9)) == (10, 18)


def test_draw_that_never_came_is_later_than_all() -> None:
    assert quantile([3, None, 1], 0.5) == 3
    assert quantile([None, None, 1], 0.5) is None
