"""Jobs that are stopped in place and go on: instants and work worked out by hand."""

import pytest

from shunter.core.speeds import SpeedModel
from shunter.events import Sharing
from tests.factories import configuration, node_name
from tests.unit.backends.simulated.driving import Case, cases

J0 = "j0: 1 GPU for 20, suspend_mode=cooperative, checkpoint_interval_us=3; 0: launch j0"
HALVES = SpeedModel({node_name(0): configuration(4)})

TABLE = [
    *cases(f"""
a stopped job ends later by as long as it stood: 8 of 20 were done
    {J0}; 8: stop j0; 30: continue j0
    => 8: j0 stops; 30: j0 goes on; 42: j0 ends
one that is never continued never ends
    {J0}; 0: stop j0
    => 0: j0 stops
an order for one that stands already does nothing
    {J0}; 0: stop j0; 2: stop j0
    => 0: j0 stops
"""),
    *(
        Case(f"`{order}` does nothing to one that runs", f"{J0}; 2: {order}", "20: j0 ends")
        for order in ("continue j0", "stop j0 #2", "continue j1 #1")
    ),
    *cases(f"""
one with all work done at the instant of the order ends
    {J0}; lease end_seen=at_lease_end, round_us=30; 25: stop j0
    => 30: j0 ends as it did at 20
a stop before the start holds from the start on
    {J0}; costs start_us=5; 2: stop j0; 10: continue j0
    => 5: j0 starts, j0 stops; 10: j0 goes on; 30: j0 ends
one that leaves while it stands keeps the 8 that it did, and takes its time to leave
    {J0}; costs suspend_us=2; 8: stop j0; 15: suspend j0; 17: resume j0
    => 0: j0 starts; 8: j0 stops; 15: j0 leaves; 17: j0 is gone, j0 starts #2; 29: j0 ends #2
a server that dies under one takes what was not saved: 6 of 8 done since 1 were
    {J0}; costs start_us=1; n0 dies at 15; 9: stop j0; 20: resume j0
    => 1: j0 starts; 9: j0 stops; 15: n0 dies, j0 is lost with 2; 20: j0 starts #2; 34: j0 ends #2
work in whole steps goes on at the step that was begun: two of 2 are done by 5
    j0: 1 GPU for 20, total_steps=10; lease progress=whole_steps; 0: launch j0; 5: stop j0;
    11: continue j0
    => 0: j0 starts; 5: j0 stops; 11: j0 goes on; 27: j0 ends
"""),
    *cases(
        """
its partner has the GPU alone meanwhile: by 10 each has done 5, by 16 it has done 11
    j0: 1 GPU for 20; j1: 1 GPU for 20; 0: launch j0, launch j1; 10: stop j0; 16: continue j0
    => 0: j0 starts at 0.5, j1 starts at 0.5; 10: j0 stops, j1 goes at 1;
       16: j0 goes on, j0 goes at 0.5, j1 goes at 0.5; 34: j1 ends, j0 goes at 1; 40: j0 ends
""",
        HALVES,
        Sharing.packed,
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_stop_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees
