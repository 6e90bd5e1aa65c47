"""Numbers as people read them."""

import pytest

from shunter.cli import durations_apart


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (362_880, 359_640, ("100.8 h", "99.9 h")),
        (362_880, 362_820, ("6048.0 m", "6047.0 m")),
        (362_880, 362_879, ("362880.0 s", "362879.0 s")),
        (3.01, 3.02, ("3.010000 s", "3.020000 s")),
        (362_880, 200, ("4.2 d", "3.3 m")),
        (40, 40, ("40 s", "40 s")),
    ],
)
def test_durations_that_differ_are_told_apart(
    one: float, other: float, told: tuple[str, str]
) -> None:
    assert durations_apart(one, other) == told
