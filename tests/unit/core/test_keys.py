"""Keys: one integer that orders jobs as the tuple of its parts would."""

from hypothesis import given, strategies as st

from shunter.core import Band
from shunter.core.ranking import (
    FIRST,
    LAST,
    ORDINAL_BITS,
    PRIORITY_MOST,
    RANK_MOST,
    band_of,
    drift,
    ordinal_of,
    pack,
    rank_of,
)

bands = st.sampled_from([int(band) for band in Band])
priorities = st.integers(-PRIORITY_MOST, PRIORITY_MOST) | st.integers(-2, 2)
ranks = st.integers(0, RANK_MOST) | st.integers(0, 3)
ordinals = st.integers(0, (1 << ORDINAL_BITS) - 1) | st.integers(0, 3)
parts = st.tuples(bands, priorities, ranks, ordinals)

Parts = tuple[int, int, int, int]


@given(one=parts, other=parts)
def test_keys_are_ordered_as_the_tuples_of_their_parts(one: Parts, other: Parts) -> None:
    """A higher priority goes first, of everything else the lower."""
    tuples = [(band, -priority, rank, at) for band, priority, rank, at in (one, other)]
    assert (pack(*one) < pack(*other)) == (tuples[0] < tuples[1])
    assert (pack(*one) == pack(*other)) == (one == other)


@given(of=parts)
def test_parts_are_found_again(of: Parts) -> None:
    key = pack(*of)
    assert (band_of(key), rank_of(key), ordinal_of(key)) == (of[0], of[2], of[3])
    assert FIRST < key < LAST


@given(of=parts, now_us=st.integers(0, 1 << 52))
def test_drift_of_a_waiting_job_is_the_rank_it_would_have_running(of: Parts, now_us: int) -> None:
    band, priority, rank, ordinal = of
    assert pack(*of) + drift(now_us) == pack(band, priority, rank + now_us, ordinal)


@given(of=parts, before_us=st.integers(1, 1 << 40))
def test_rank_below_zero_stays_in_its_band_and_priority(of: Parts, before_us: int) -> None:
    """A drifting job that worked longer than it said has a rank below zero."""
    band, priority, _, ordinal = of
    key = pack(band, priority, -before_us, ordinal)
    assert rank_of(key) == -before_us
    assert key < pack(band, priority, 0, 0)
