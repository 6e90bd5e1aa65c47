"""When a job would start, as it is told."""

import pytest

from shunter.ask.forks import Counterfactuals

NOW_US = 58_519_000_000


@pytest.mark.parametrize(
    ("later_us", "told"),
    [
        (0, "T+16:15:19"),
        (1, "T+16:15:19"),
        (3, "T+16:15:19.000003"),
        (60_000_000, "T+16:16:19"),
    ],
)
def test_what_starts_at_once_starts_now(later_us: int, told: str) -> None:
    assert Counterfactuals((), now_us=NOW_US).clock_of(NOW_US + later_us) == told
