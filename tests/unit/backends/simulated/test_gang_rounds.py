"""Rounds that end with the last gang still at work in them: by hand, to the microsecond."""

import pytest

from shunter.backends.simulated import Lease, RoundEnds, SimulatedBackend
from tests.factories import drive, trace_job
from tests.unit.backends.simulated.driving import ON_N1, Case, Hand, cases, launch, told

PLAIN = "lease round_ends=last_gang, round_us=10"
STEPS = f"{PLAIN}, progress=whole_steps"
SEVEN = "j0: 1 GPU for 28, total_steps=7"
LONG = f"{PLAIN}; j0: 1 GPU for 25; 0: launch j0"

TABLE = [
    *cases(f"""
whatever happens ends a round in which nobody runs
    {PLAIN}; j0: 1 GPU at 3; j1: 1 GPU at 8
    => 3: j0 comes, the round is over; 8: j1 comes, the round is over
a round lasts a lease while a gang has work
    {LONG}
    => 10: the round is over; 20: the round is over; 25: j0 ends, the round is over
it is over when the last gang has done its work
    {PLAIN}; j0: 1 GPU for 4; j1: 1 GPU for 7; 0: launch j0, launch j1 on n1
    => 4: j0 ends; 7: j1 ends, the round is over
the next one begins where the last one ended
    {PLAIN}; j0: 1 GPU for 4; j1: 1 GPU for 25; 0: launch j0; 4: launch j1
    => 4: j0 ends, the round is over; 14: the round is over; 24: the round is over;
       29: j1 ends, the round is over
a gang stops after the steps that fit and waits for the last one: steps of 4 and 3, of which 2 and
3 are in each round, 6 and 9 by 27
    {STEPS}; {SEVEN}; j1: 1 GPU for 30, total_steps=10; 0: launch j0, launch j1 on n1
    => 0: j0 starts, j1 starts; 9: the round is over; 18: the round is over;
       27: the round is over; 30: j1 ends; 31: j0 ends, the round is over
an end seen at the end of a lease is seen with the round, which is over with j1
    {PLAIN}, end_seen=at_lease_end; j0: 1 GPU for 4; j1: 1 GPU for 8;
    0: launch j0, launch j1 on n1
    => 8: j0 ends as it did at 4, j1 ends, the round is over
it is over with the termination of its only gang
    {LONG}; 4: terminate j0
    => 4: j0 exits with 143, the round is over
a gang that leaves at the end of a round keeps its 2 steps, and 5 of 7 are left
    {STEPS}; {SEVEN}; j1: 1 GPU at 50; 0: launch j0; 8: suspend j0; 50: resume j0
    => 0: j0 starts; 8: the round is over, j0 leaves, j0 is gone, the round is over;
       50: j1 comes, the round is over, j0 starts #2; 58: the round is over;
       66: the round is over; 70: j0 ends #2, the round is over
one in which nobody runs waits for one that leaves, and an arrival ends it not
    {LONG}; j1: 1 GPU at 12; costs suspend_us=4; 10: suspend j0
    => 0: j0 starts; 10: the round is over, j0 leaves, the round is over; 12: j1 comes;
       14: j0 is gone, the round is over
credit at grant means nothing here: 4 of 15 were run, however long the lease
    {PLAIN}, credit=at_grant; j0: 1 GPU for 15; 0: launch j0; 4: suspend j0; 20: resume j0
    => 0: j0 starts; 4: j0 leaves, j0 is gone, the round is over;
       20: j0 starts #2, the round is over; 30: the round is over;
       31: j0 ends #2, the round is over
one in which a gang only starts is as long as a lease
    {PLAIN}; j0: 1 GPU for 8; costs start_us=15; 0: launch j0
    => 10: the round is over; 15: j0 starts; 20: the round is over; 23: j0 ends, the round is over
a gang launched within a round works to the end of its lease
    {LONG}; j1: 1 GPU for 25; 4: launch j1 on n1
    => 10: the round is over; 20: the round is over; 25: j0 ends; 29: j1 ends, the round is over
a gang whose step fits into no lease keeps no round open
    {STEPS}; j0: 1 GPU for 24, total_steps=2; j1: 1 GPU at 33; 0: launch j0
    => 0: j0 starts, the round is over; 33: j1 comes, the round is over
steps since the last checkpoint are lost with a server: of 3 by 12 the first is saved, for the
second checkpoint after 0 and 6 is due as the third is over
    {STEPS}; {SEVEN}, checkpoint_interval_us=6; n0 dies at 14; 0: launch j0; 14: resume j0
    => 0: j0 starts; 8: the round is over;
       14: n0 dies, j0 is lost with 2, the round is over, j0 starts #2; 22: the round is over;
       30: j0 ends #2, the round is over
a checkpoint of an earlier round holds what was done by then: 1 step at 7, of 3 by 12
    {STEPS}; {SEVEN}, checkpoint_interval_us=7; n0 dies at 12; 0: launch j0; 12: resume j0
    => 0: j0 starts; 8: the round is over;
       12: n0 dies, j0 is lost with 8, the round is over, j0 starts #2; 20: the round is over;
       28: the round is over; 36: j0 ends #2, the round is over
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_rounds_end_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_everything_up_to_the_end_of_the_round_is_seen_with_it() -> None:
    jobs = [trace_job(0, lasts=4), trace_job(1, lasts=25), trace_job(2, at=6)]
    lease = Lease(round_ends=RoundEnds.last_gang, round_us=10)
    hand = Hand(SimulatedBackend(jobs, lease=lease))
    hand.until(0)
    hand.orders(launch(0), launch(1, ON_N1))
    at_us, inputs = drive(hand.backend.observe(None))
    assert at_us == 10
    assert told(inputs) == "4: j0 ends; 6: j2 comes; 10: the round is over"
