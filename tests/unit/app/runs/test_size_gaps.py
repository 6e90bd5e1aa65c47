"""How near sizes were to their bound, from the answers of programs."""

import pytest

from shunter.core import NO_GUARDS, State, View
from shunter.events import SizesSet
from shunter.run import SizeGaps


def test_gaps_are_those_of_the_rounds_in_which_jobs_were_sized() -> None:
    gaps, view = SizeGaps(), View(State(), NO_GUARDS, oracle=False, all_reasons=False)
    assert gaps.document() is None
    (note,) = gaps.observers().values()
    note(SizesSet(0, (), 3.0, 4.0), view)
    note(SizesSet(9, (), 5.0, 5.0, 0.5, "nothing was found for 2 jobs"), view)
    assert gaps.document() == {
        "rounds": 2,
        "unsolved": 1,
        "speed_mean": 4.0,
        "bound_mean": 4.5,
        "gap_mean": pytest.approx(0.125),
        "gap_max": 0.25,
        "search_gap_max": 0.5,
    }
