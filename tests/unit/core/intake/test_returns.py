"""Ways back into the queue, and into the cluster: launches, losses, departures, arrays, retries.

`tests/behaviour/test_life_of_a_job.py` has what users are promised of them.
"""

import pytest

from shunter.core import LONG_US, AttemptExited, Losses, Scheduler, State, SubmitJob
from shunter.core.fold import EARLY_US, backoff_us
from shunter.events import ARRAY, LaunchFailed, decode_record, encode_record, facts
from tests.behaviour.waits_scenes import Row, check, rows
from tests.factories import World, job_id, job_spec, policy, servers

S = 1_000_000
ONE = "live; servers 4; j0: 1 GPU"
LEAVER = ONE.replace("live", "live, bounds_departures=yes")
LONG = "; ".join(
    f"j0 leaves at {at_us}" for at_us in (LONG_US, 2 * LONG_US + S, 3 * LONG_US + 2 * S)
)
SAME = "; ".join(f"j0 saves step 7 at {at}s; j0 leaves at {at}s" for at in (1, 3, 6))
GROWS = "; ".join(
    f"j0 saves step {step} at {at}s; j0 leaves at {at}s"
    for at, step in ((1, 1), (3, 1), (5, 1), (8, 2), (10, 2))
)
ELSEWHERE = ONE.replace("live", "live, retries_elsewhere=yes") + ", retries=9"
TWO = ELSEWHERE.replace("servers 4", "servers 4 4")
WIDE = ELSEWHERE.replace("servers 4", "servers 2").replace("1 GPU", "2 GPUs")
FAILS = "; ".join(f"j0 exits with 1 at {at}" for at in (1000, "1002000", "3003000"))


def tasks(at_once: int, count: int = 3) -> str:
    each = (f"j{n}: 1 GPU, array=j0, at_once={at_once}" for n in range(count))
    return f"live; servers 8; {'; '.join(each)}"


LAUNCHES = [
    *rows(f"""
a launch that succeeds forgets those that failed before
    {ONE}; j0 cannot be launched until 1s; j0 cannot be launched from 5s until 6s;
    j0 is lost at 5s; until 6s
    => j0, log: 0: submitted, gets n0[0], launch 1 fails, waits; 1s: attempt 2 starts on n0[0];
       5s: lost, gets n0[0], launch 3 fails, waits; 6s: attempt 4 starts on n0[0]
the last of five launches fails the job
    {ONE}; j0 cannot be launched until 900s; until 900s
    => j0, log_part: failed (launch: no)
one that was cancelled while it is launched is not launched again
    {ONE}; launches take 9; ending takes 9; ana cancels j0 at 1; j0 is lost at 2
    => j0, log: 0: submitted, gets n0[0]; 1: ana cancels; 2: lost, cancelled (cancelled)
nor if its launch fails then
    {ONE}; launches take 9; ending takes 9; ana cancels j0 at 1; j0 is not launched at 2
    => j0, log: 0: submitted, gets n0[0]; 1: ana cancels; 2: launch 1 fails, cancelled (cancelled)
one that is asked to leave while it is launched leaves
    {ONE}; launches take 9; leaving takes 2; ana suspends j0 at 3; until 5
    => j0, log: 0: submitted, gets n0[0]; 3: held by ana, held; 5: leaves
one that may never be suspended is held only
    {ONE}, suspend_mode=never; ana suspends j0 at 5
    => j0, then: 5: held by ana
a server takes jobs again once it is restored
    live; servers 4; ana drains n0 at 0; j0: 1 GPU at 1; ana restores n0 at 5
    => j0, log: 1: submitted; 5: attempt 1 starts on n0[0]
"""),
]
ENDS = [
    *rows(f"""
one that has exited ends when its GPUs are free
    {ONE}; j0 is done with 0 at 5; j0 is gone at 6
    => j0, then: 5: exits with 0; 6: finished
or lost: it does not run again
    {ONE}; j0 is done with 0 at 5; j0 is lost at 6
    => j0, then: 5: exits with 0; 6: lost, finished
one that failed before its server was lost is tried again
    {ONE}, retries=1; j0 is done with 1 at 5; j0 is lost at 6
    => j0, then: 5: exits with 1; 6: lost, tried again, waits until 1s 6
a code that nobody saw is a failure
    {ONE}, retries=1; j0 exits with nothing at 5
    => j0, then: 5: exits with None, tried again, waits until 1s 5
a failure of one that has to leave does not count
    {ONE}, retries=1; leaving takes 9s; ana suspends j0 at 1s; j0 exits with 1 at 2s;
    bo releases j0 at 3s; j0 exits with 1 at 4s
    => j0, then: 1s: held by ana, held; 2s: exits with 1, tried again;
       3s: released by bo, attempt 2 starts on n0[0];
       4s: exits with 1, tried again, waits until 5s
a failure that a trace tells is the end of its job
    servers 4; j0: 1 GPU for 5, ends=failed, retries=2
    => j0, log: 0: submitted, gets n0[0]; 5: failed (exit)
"""),
]
DEPARTURES = [
    *rows(f"""
one with retries may leave by itself as often more
    {LEAVER}, retries=2; j0 leaves at 1s; j0 leaves at 3s; j0 leaves at 6s
    => j0, log_part: 6s: leaves, failed (left 3 times
also if it saves the same step each time, however long it ran
    {LEAVER}, retries=1; {SAME}
    => j0, log_part: 6s: leaves, failed (left 2 times
a further step begins the count anew
    {LEAVER}; {GROWS}
    => j0, then: 1s: leaves, waits; 2s: attempt 2 starts on n0[0]; 3s: leaves, waits;
       4s: attempt 3 starts on n0[0]; 5s: leaves, waits until 7s; 7s: attempt 4 starts on n0[0];
       8s: leaves, waits; 9s: attempt 5 starts on n0[0]; 10s: leaves, waits
an attempt that ran for long and tells no step made progress
    {LEAVER}, retries=1; {LONG}
    => j0, phase: waiting
one that Slurm ended is not counted
    {LEAVER}, retries=1; j0 is ended by Slurm at 1s; j0 is ended by Slurm at 3s;
    j0 is ended by Slurm at 5s
    => j0, then: 1s: leaves, waits; 2s: attempt 2 starts on n0[0]; 3s: leaves, waits;
       4s: attempt 3 starts on n0[0]; 5s: leaves, waits
logs of before are decided as they were
    {ONE}, retries=1; j0 leaves at 1s; j0 leaves at 3s; j0 leaves at 5s
    => j0, then: 1s: leaves, waits; 2s: attempt 2 starts on n0[0]; 3s: leaves, waits;
       4s: attempt 3 starts on n0[0]; 5s: leaves, waits
one that is held while it leaves for the last time fails
    {LEAVER}, retries=1; j0 leaves at 1s; j0 begins to leave at 3s; ana holds j0 at 3s;
    j0 is gone at 4s
    => j0, log_part: held by ana, leaves; 4s: failed (left 2
and is cancelled if it was told so
    {LEAVER}, retries=1; ending takes 9s; j0 leaves at 1s; j0 begins to leave at 3s;
    ana cancels j0 at 3s; j0 is gone at 4s
    => j0, log_part: ana cancels, leaves; 4s: cancelled
"""),
]
ARRAYS = [
    *rows(f"""
no more tasks of an array start than may
    {tasks(2)}
    => j2, log: 0: submitted, held by array
tasks of an array without a bound all do
    live; servers 8; j0: 1 GPU, array=j0; j1: 1 GPU, array=j0
    => j1, phase: running
the second of two may
    {tasks(2)}
    => j1, phase: running
the next one follows whoever ends
    {tasks(2)}; j1 exits with 0 at 5
    => j2, then: 5: released by array, attempt 1 starts on n0[1]
one that is cancelled before its turn makes no room
    {tasks(1)}; ana cancels j1 at 2
    => j2, phase: waiting
    => j2, log: 0: submitted, held by array
and gives its turn on
    {tasks(1)}; ana cancels j1 at 2; j0 exits with 0 at 5
    => j2, then: 5: released by array, attempt 1 starts on n0[0]
one that is released while the array is full waits for its turn again
    {tasks(1)}; ana suspends j1 at 5; ana releases j1 at 6
    => j1, then: 5: held by ana; 6: released by ana, held by array
"""),
]
PLACES = [
    *rows(f"""
a retry avoids the servers of early failures, and then their GPUs
    {TWO}; {FAILS}; until 8s
    => j0, then: 1000: exits with 1, tried again, waits until 1s 1000;
       1s 1000: attempt 2 starts on n1[0];
       1s 2000: exits with 1, tried again, waits until 3s 2000;
       3s 2000: attempt 3 starts on n0[1];
       3s 3000: exits with 1, tried again, waits until 7s 3000; 7s 3000: attempt 4 starts on n0[2]
on the only server it gets other GPUs
    {ELSEWHERE}; {FAILS}; until 3100000
    => j0, then: 1000: exits with 1, tried again, waits until 1s 1000;
       1s 1000: attempt 2 starts on n0[1];
       1s 2000: exits with 1, tried again, waits until 3s 2000;
       3s 2000: attempt 3 starts on n0[2]; 3s 3000: exits with 1, tried again, waits until 7s 3000
it stays where there is no elsewhere
    {WIDE}; j0 exits with 1 at 1000; until 2s
    => j0, log: 0: submitted, attempt 1 starts on n0[0,1];
       1000: exits with 1, tried again, waits until 1s 1000; 1s 1000: attempt 2 starts on n0[0,1]
one that lived longer goes where the policy says
    {TWO}; j0 exits with 1 at {EARLY_US + 1}; until 60s
    => j0, then: 30s 1: exits with 1, tried again, waits until 31s 1;
       31s 1: attempt 2 starts on n0[0]
in logs of before each does
    {ONE.replace("servers 4", "servers 4 4")}, retries=1; j0 exits with 1 at 1000; until 2s
    => j0, then: 1000: exits with 1, tried again, waits until 1s 1000;
       1s 1000: attempt 2 starts on n0[0]
"""),
]
TABLE = [
    *LAUNCHES,
    *ENDS,
    *DEPARTURES,
    *ARRAYS,
    *PLACES,
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_come_back_as_the_row_says(case: Row) -> None:
    check(case)


def test_waits_double_up_to_five_minutes() -> None:
    waits_s = [backoff_us(failed) // S for failed in (1, 2, 3, 4, 60)]
    assert waits_s == [1, 2, 4, 8, 300]


def test_attempt_that_lived_long_was_well() -> None:
    core, _ = World(servers=servers(4), is_live=True).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, job_id(0), job_spec())])
    losses, lived_us = Losses(), (0, 0, 0, LONG_US, 0)
    waits_us = [losses.wait_us(job_id(0), each, core.state.jobs) for each in lived_us]
    assert waits_us == [0, backoff_us(1), backoff_us(2), 0, backoff_us(1)]


def test_core_that_starts_anew_goes_on_with_waits_and_turns() -> None:
    core, _ = World(servers=servers(8), is_live=True).scheduler(policy(), instant=False)
    alone, array = job_spec(), job_spec(array=job_id(1), at_once=1)
    core.step(0, [SubmitJob(0, job_id(n), array if n else alone) for n in range(3)])
    core.step(0, [LaunchFailed(0, job_id(0), 1, "no")])
    again = Scheduler(policy(), core.rules, decode_record(State, encode_record(core.state)))
    assert again.deadline_us(1) == S
    exited = AttemptExited(10, job_id(1), 1, 0, released=True)
    assert facts.JobReleased(10, job_id(2), ARRAY) in again.step(10, [exited])[0]


@pytest.mark.parametrize("key", ["a", ""])
def test_second_submission_under_a_key_is_none(key: str) -> None:
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    orders = [SubmitJob(0, job_id(n), job_spec(user="ann"), key=key) for n in (1, 2)]
    events, _ = core.step(0, orders)
    submitted = [one.job_id for one in events if isinstance(one, facts.JobSubmitted)]
    assert submitted == [job_id(1)] + ([] if key else [job_id(2)])
