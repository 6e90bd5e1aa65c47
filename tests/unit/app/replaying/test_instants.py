"""Durations as people read them."""

import pytest
from hypothesis import given, strategies as st

from shunter.ask import instant_us, span, span_up

_UNITS_US = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}


@pytest.mark.parametrize(
    ("us", "down", "up"),
    [
        (101_700_000, "1m 41s", "1m 42s"),
        (101_000_000, "1m 41s", "1m 41s"),
        (12_345_678, "12.3s", "12.4s"),
        (3_599_500_000, "59m 59s", "1h 00m"),
        (5_430_000_000, "1h 30m", "1h 31m"),
        (0, "0s", "0s"),
    ],
)
def test_spans_are_cut_or_rounded_up(us: int, down: str, up: str) -> None:
    assert (span(us), span_up(us)) == (down, up)


@given(st.integers(0, 10**13))
def test_what_is_rounded_up_is_never_less(us: int) -> None:
    told = sum(float(part[:-1]) * _UNITS_US[part[-1]] for part in span_up(us).split())
    assert told >= us - 1e-3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1m", 60), ("1.5h", 5400), ("2d", 172_800), ("T+00:01:00", 60)],
)
def test_time_since_the_log_began_is_an_instant(text: str, seconds: int) -> None:
    assert instant_us(text, None) == seconds * 1_000_000
