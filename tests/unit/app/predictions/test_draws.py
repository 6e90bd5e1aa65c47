"""What forecasts draw: jobs that may come, and quantiles of what was drawn."""

from math import inf

from hypothesis import given, strategies as st

from shunter.ask.forks import PAST_LEAST, drawn_arrivals, quantile
from shunter.events import JobId, JobSubmitted
from tests.factories import job_spec

GAPS = st.lists(st.integers(0, 50), min_size=PAST_LEAST, max_size=20)


def past_of(gaps: list[int]) -> list[JobSubmitted]:
    """Return submissions with gaps before them; the n-th asks for n + 1 GPUs."""
    found, at_us = [], 0
    for number, gap_us in enumerate(gaps):
        at_us += gap_us
        found.append(JobSubmitted(at_us, JobId(f"j{number}"), job_spec(number + 1)))
    return found


@given(GAPS, st.integers(1, 40), st.integers(0, 20), st.integers(1, 60))
def test_they_are_the_past_from_some_job_on_over_and_over(
    gaps: list[int], after_us: int, seed: int, most: int
) -> None:
    past = past_of(gaps)
    now_us = past[-1].at_us + after_us
    span_us = now_us - past[0].at_us

    found = drawn_arrivals(past, now_us, most, seed, ())

    assert len(found) == most
    sizes = [each.spec.gpus for each in found]
    assert sizes == [(sizes[0] - 1 + place) % len(past) + 1 for place in range(most)]
    at = [each.at_us for each in found]
    assert at == sorted(at)
    assert at[0] > now_us
    assert at[0] - now_us <= span_us
    assert all(
        later - one == span_us for one, later in zip(at[1:], at[1 + len(past) :], strict=False)
    )


@given(GAPS, st.integers(0, 5))
def test_they_have_ids_of_their_own_and_depend_on_nobody(gaps: list[int], seed: int) -> None:
    past = past_of(gaps)
    taken = {JobId("arrival1"), JobId("arrival3")}

    found = drawn_arrivals(past, past[-1].at_us + 1, 9, seed, taken)

    ids = [each.job_id for each in found]
    assert len({*ids, *taken}) == 11
    assert found == drawn_arrivals(past, past[-1].at_us + 1, 9, seed, taken)


def test_nobody_comes_where_too_few_ever_did() -> None:
    assert drawn_arrivals(past_of([1] * (PAST_LEAST - 1)), 100, 9, 0, ()) == []


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
