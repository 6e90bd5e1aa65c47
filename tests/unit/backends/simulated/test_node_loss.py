"""What a dead server takes with it, what it leaves, and what comes first at one instant.

Instants are worked out by hand.
"""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from tests.factories import drive, trace_job
from tests.unit.backends.simulated.driving import Case, Hand, cases, launch, told

J0 = "j0: 1 GPU for 20"
RUNS = "lease round_us=10; 0: launch j0"

LOSSES = [
    *cases(f"""
a begun step is lost with what no checkpoint holds: that at 9 holds 2 steps of 4
    j0: 1 GPU for 28, total_steps=7, checkpoint_interval_us=9; 0: launch j0;
    lease progress=whole_steps, round_us=10; n0 dies at 16; 20: resume j0 on n1
    => 0: j0 starts; 16: n0 dies, j0 is lost with 8; 20: j0 starts #2; 44: j0 ends #2
granted work that was not run is lost: the checkpoint at 12 holds 12, not the lease
    j0: 1 GPU for 25, checkpoint_interval_us=4; 0: launch j0; lease credit=at_grant, round_us=10;
    n0 dies at 15; 20: resume j0 on n1
    => 0: j0 starts; 15: n0 dies, j0 is lost with 3; 20: j0 starts #2; 33: j0 ends #2
one that had ended unseen is seen to have ended
    j0: 1 GPU for 13; 0: launch j0; lease end_seen=at_lease_end, round_us=10; n0 dies at 16
    => 16: n0 dies, j0 ends as it did at 13
a gang in a dead rack is lost once
    {J0}; {RUNS} on n0+n1; n0 dies with its rack at 8; n1 dies with its rack at 8
    => 8: n0 dies with its rack, j0 is lost with 8, n1 dies with its rack
servers die only while there are jobs, or more will come
    j0: 1 GPU for 5; j1: 1 GPU for 5 at 30; 0: launch j0; 30: launch j1; n0 dies at 8;
    n0 returns at 25; n1 dies at 40
    => 5: j0 ends; 8: n0 dies; 25: n0 returns; 30: j1 comes; 35: j1 ends
"""),
]

AT_ONCE = [
    *cases("""
ends, then servers, then arrivals; what happens to jobs in the order of the trace, however they
were launched
    j0: 1 GPU for 6; j1: 1 GPU for 50; j2: 1 GPU for 6, ends=failed; j3: 1 GPU for 50;
    j4: 1 GPU at 10; j5: 1 GPU at 10; costs start_us=4; n1 dies at 10; n2 returns at 10;
    0: launch j3 on n1, launch j2, launch j0; 6: launch j1; until 10
    => 4: j0 starts, j2 starts, j3 starts;
       10: j0 ends, j1 starts, j2 exits with 1, n1 dies, j3 is lost with 6, n2 returns, j4 comes,
       j5 comes
one that ends as its server dies has ended
    j0: 1 GPU for 10; 0: launch j0; n0 dies at 10; until 10
    => 10: j0 ends, n0 dies
a job starts before it ends
    j0: 1 GPU for 0; costs start_us=5; 0: launch j0
    => 5: j0 starts, j0 ends
a job leaves before it is gone, and all of one that comes first in the trace comes first
    j0: 1 GPU; j1: 1 GPU; costs start_us=1; 0: launch j0, launch j1 on n1;
    5: suspend j1, suspend j0
    => 1: j0 starts, j1 starts; 5: j0 leaves, j0 is gone, j1 leaves, j1 is gone
attempts on a dead server are lost in the order of their launches
    j0: 1 GPU for 50; j1: 1 GPU for 50; n0 dies at 10; 0: launch j1, launch j0 on n0[1]
    => 10: n0 dies, j1 is lost with 10, j0 is lost with 10
the end of a round comes last, and with it an end that waited for it
    j0: 1 GPU for 25; j1: 1 GPU for 4; j2: 1 GPU at 10; n2 dies at 10; until 10;
    lease end_seen=at_lease_end, round_ends=last_gang, round_us=10; 0: launch j0, launch j1 on n1
    => 10: n2 dies, j2 comes, j1 ends as it did at 4, the round is over
"""),
]


@pytest.mark.parametrize("case", [*LOSSES, *AT_ONCE], ids=str)
def test_servers_die_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_answer_to_an_order_comes_at_the_instant_of_the_order() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)], costs=Costs(suspend_us=3)))
    hand.until(0)
    hand.orders(launch())
    assert told(hand.until(0)) == "0: j0 starts"
    at_us, inputs = drive(hand.backend.observe(100))
    assert (at_us, told(inputs)) == (10, "10: j0 ends")
