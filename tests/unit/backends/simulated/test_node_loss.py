"""What a dead server takes with it, what it leaves, and what comes first at one instant.

Instants are worked out by hand.
"""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from tests.factories import drive, trace_job
from tests.unit.backends.simulated.driving import Case, Hand, cases, launch, told

J0 = "j0: 1 GPU for 20"
RUNS = "lease round_us=10; 0: launch j0"
COSTS = "costs start_us=2, suspend_us=4, resume_us=5"


def saving(interval_us: int, dies_us: int, lost_us: int, ends_us: int) -> Case:
    scene = (
        f"{J0}, checkpoint_interval_us={interval_us}; {RUNS}; n0 dies at {dies_us}; "
        "30: resume j0 on n1"
    )
    sees = f"{dies_us}: n0 dies, j0 is lost with {lost_us}; {ends_us}: j0 ends #2"
    return Case(f"with a checkpoint each {interval_us}, one lost at {dies_us}", scene, sees)


LOSSES = [
    *cases(f"""
a job without checkpoints begins again
    {J0}; {RUNS}; n0 dies at 8; 30: resume j0 on n1
    => 8: n0 dies, j0 is lost with 8; 50: j0 ends #2
"""),
    saving(3, 8, lost_us=2, ends_us=44),
    saving(4, 8, lost_us=0, ends_us=42),
    saving(3, 5, lost_us=2, ends_us=47),
    saving(3, 2, lost_us=2, ends_us=50),
    *cases(f"""
checkpoints come at their pace from when work began, at 5 and 8: of 7 worked, 1 is lost
    {J0}, checkpoint_interval_us=3; {RUNS}; {COSTS}; n0 dies at 9; 10: resume j0 on n1
    => 2: j0 starts; 9: n0 dies, j0 is lost with 1; 15: j0 starts #2; 29: j0 ends #2
state saved by a suspension outlives the server: 4 were, and the 6 since then were not
    {J0}; {RUNS}; n0 dies at 10; 4: suspend j0, resume j0; 10: resume j0 on n1
    => 10: n0 dies, j0 is lost with 6 #2; 26: j0 ends #3
a start that dies with its server is never seen, and a second attempt costs a resume
    {J0}; {RUNS}; {COSTS}; n0 dies at 1; 9: resume j0 on n1
    => 1: n0 dies, j0 is lost with 0; 14: j0 starts #2; 34: j0 ends #2
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
one that leaves does so as it would leave a living server: 6 of 20 were done
    {J0}; {RUNS}; {COSTS}; n0 dies at 10; 8: suspend j0; 20: resume j0 on n1
    => 2: j0 starts; 8: j0 leaves; 10: n0 dies; 12: j0 is gone; 25: j0 starts #2; 39: j0 ends #2
only those on the server are lost
    {J0}; j1: 1 GPU for 20; {RUNS}, launch j1 on n1; n0 dies at 8
    => 8: n0 dies, j0 is lost with 8; 20: j1 ends
a gang is lost with any of its servers
    {J0}; {RUNS} on n0+n1; n1 dies at 8
    => 8: n1 dies, j0 is lost with 8
a gang in a dead rack is lost once
    {J0}; {RUNS} on n0+n1; n0 dies with its rack at 8; n1 dies with its rack at 8
    => 8: n0 dies with its rack, j0 is lost with 8, n1 dies with its rack
a repaired server is reachable again
    {J0}; {RUNS}; n0 dies at 8; n0 returns at 11; until 15
    => 8: n0 dies, j0 is lost with 8; 11: n0 returns
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
