"""The life of a job on a live cluster: each end, and each way back into the queue."""

import pytest

from tests.behaviour.waits_scenes import Row, check, row, rows

LIVE = "live; servers 4 4; j0: 1 GPU"
FULL = "live; servers 4; j0: 4 GPUs; j1: 1 GPU at 1"

QUEUED = LIVE.replace("live", "live, launches_wait=yes")
LEAVER = LIVE.replace("live", "live, bounds_departures=yes")
LEAVES = "; ".join(f"j0 leaves at {at_s}s" for at_s in (1, 3, 6, 11, 20, 37, 70, 135))

TABLE = [
    *rows(f"""
a job that no cluster like this can hold is rejected at once
    live; servers 4; j0: 5 GPUs
    => j0, log: 0: submitted, rejected (infeasible)
it ends well with exit code 0
    {LIVE}; j0 exits with 0 at 5
    => j0, then: 5: exits with 0, finished
it fails with any other code
    {LIVE}; j0 exits with 7 at 5
    => j0, then: 5: exits with 7, failed (exit)
it is ended when it has run as long as it may
    {LIVE}, time_limit_us=9; ending takes 2; until 20
    => j0, then: 9: over its limit; 11: exits with 143, failed (timeout)
one over its limit is ended on time while another waits to be tried again
    {LIVE}, retries=1; j1: 1 GPU, time_limit_us=9; ending takes 2; j0 exits with 1 at 5; until 2s
    => j1, then: 9: over its limit; 11: exits with 143, failed (timeout)
time in which its launch waits elsewhere does not count
    {QUEUED}, time_limit_us=9; launches take 50; until 70
    => j0, log: 0: submitted, gets n0[0]; 50: attempt 1 starts;
       59: over its limit, exits with 143, failed (timeout)
one that waits is cancelled at once
    {FULL}; ana cancels j1 at 5
    => j1, log: 1: submitted; 5: ana cancels, cancelled (cancelled)
one that runs is cancelled when its processes are gone
    {LIVE}; ending takes 3; ana cancels j0 at 5; until 8
    => j0, then: 5: ana cancels; 8: exits with 143, cancelled (cancelled)
one that is lost after it was cancelled is not started again
    {LIVE}; ending takes 9; ana cancels j0 at 5; j0 is lost at 7
    => j0, then: 5: ana cancels; 7: lost, cancelled (cancelled)
one that was lost starts again at once, and later each time, and has not failed
    {LIVE}, retries=1; j0 is lost at 1; j0 is lost at 2; j0 is lost at 2s; j0 exits with 1 at 9s
    => j0, then: 1: lost, attempt 2 starts on n0[0]; 2: lost, waits until 1s 2;
       1s 2: attempt 3 starts on n0[0]; 2s: lost, waits until 4s; 4s: attempt 4 starts on n0[0];
       9s: exits with 1, tried again, waits until 10s
one that fails is tried again as often as it says, after a wait that doubles
    {LIVE}, retries=2; j0 exits with 1 at 1s; j0 exits with 1 at 3s; j0 exits with 7 at 6s
    => j0, then: 1s: exits with 1, tried again, waits until 2s; 2s: attempt 2 starts on n0[0];
       3s: exits with 1, tried again, waits until 5s; 5s: attempt 3 starts on n0[0];
       6s: exits with 7, failed (exit)
one whose launch failed starts again after a second, and then two
    {LIVE}; j0 cannot be launched until 2s; until 4s
    => j0, log: 0: submitted, gets n0[0], launch 1 fails, waits;
       1s: gets n0[0], launch 2 fails, waits; 3s: attempt 3 starts on n0[0]
one that can never be launched fails at once
    {LIVE}; j0 can never be launched
    => j0, log: 0: submitted, gets n0[0], launch 1 fails, failed (launch: no)
a person who holds one that waits after a failure keeps it
    {LIVE}, retries=1; j0 exits with 1 at 1s; ana holds j0 at 1500000; bo releases j0 at 5s
    => j0, then: 1s: exits with 1, tried again, waits until 2s; 1s 500000: held by ana;
       5s: released by bo, attempt 2 starts on n0[0]
one that a person suspends leaves, and starts again when it is released
    {LIVE}; leaving takes 3; ana suspends j0 at 5; bo releases j0 at 20
    => j0, then: 5: held by ana, held; 8: leaves; 20: released by bo, attempt 2 starts on n0[0]
also if that is before it has left
    {LIVE}; leaving takes 3; ana suspends j0 at 5; bo releases j0 at 6; until 8
    => j0, then: 5: held by ana, held; 6: released by bo; 8: leaves, attempt 2 starts on n0[0]
one that leaves by itself comes back after waits that double, and fails in the end
    {LEAVER}; {LEAVES}
    => j0, then: 1s: leaves, waits; 2s: attempt 2 starts on n0[0]; 3s: leaves, waits until 5s;
       5s: attempt 3 starts on n0[0]; 6s: leaves, waits until 10s; 10s: attempt 4 starts on n0[0];
       11s: leaves, waits until 19s; 19s: attempt 5 starts on n0[0]; 20s: leaves, waits until 36s;
       36s: attempt 6 starts on n0[0]; 37s: leaves, waits until 69s;
       69s: attempt 7 starts on n0[0]; 70s: leaves, waits until 134s;
       134s: attempt 8 starts on n0[0];
       135s: leaves, failed (left 8 times in a row by itself (exit code 75) without progress)
"""),
    *rows(f"""
one that ends with 0 each time it is to leave, without progress, fails in the end as well
    {LEAVER}, retries=1; leaving takes 9s; ana suspends j0 at 1s; j0 leaves with 0 at 2s;
    bo releases j0 at 3s; ana suspends j0 at 4s; j0 leaves with 0 at 5s
    => j0, then: 1s: held by ana, held; 2s: leaves;
       3s: released by bo, attempt 2 starts on n0[0]; 4s: held by ana, held;
       5s: leaves,
       failed (ended 2 times in a row with exit code 0 when asked to leave, without progress)
not if it has saved more by then
    {LEAVER}, retries=1; leaving takes 9s; j0 saves step 1 at 1; ana suspends j0 at 1s;
    j0 leaves with 0 at 2s; bo releases j0 at 3s; j0 saves step 2 at 3500000;
    ana suspends j0 at 4s; j0 leaves with 0 at 5s
    => j0, phase: waiting
nor if somebody else ended it
    {LEAVER}, retries=1; j0 is ended by Slurm at 1s; j0 is ended by Slurm at 3s
    => j0, phase: waiting
"""),
    row(
        "but never one that saves more each time",
        f"{LEAVER}; "
        + "; ".join(f"j0 saves step {n} at {3 * n}s; j0 leaves at {3 * n}s" for n in range(1, 4)),
        "j0",
        then=(
            "3s: leaves, waits; 4s: attempt 2 starts on n0[0]; 6s: leaves, waits; "
            "7s: attempt 3 starts on n0[0]; 9s: leaves, waits"
        ),
    ),
    *rows(f"""
one that needs another one waits for its good end
    {LIVE}; j1: 1 GPU, depends_on=j0; j0 exits with 0 at 5
    => j1, log: 0: submitted; 5: attempt 1 starts on n0[0]
and is cancelled with its other end, as all behind it are
    {LIVE}; j1: 1 GPU, depends_on=j0; j2: 1 GPU, depends_on=j1; j0 exits with 1 at 5
    => j2, log: 0: submitted; 5: cancelled (dependency)
unless any end will do
    {LIVE}; j1: 1 GPU, depends_on_any_end_of=j0; j0 exits with 1 at 5
    => j1, log: 0: submitted; 5: attempt 1 starts on n0[0]
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_live_as_the_row_says(case: Row) -> None:
    check(case)
