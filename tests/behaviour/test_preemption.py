"""Preemption: who has to leave for whom, who may not be made to, and what both are told."""

import pytest

from tests.behaviour.waits_scenes import Row, check, row

PREEMPTED = "servers 4; under las; j0: 4 GPUs for 100; j1: 4 GPUs for 4 at 30"
COSTLY = f"{PREEMPTED}; costs start_us=2, suspend_us=3, resume_us=4, migrate_us=5"
USED = "outranked, because it had used 0.00012 GPU-seconds, so it was in the third queue, for j1"
GUARDED = (
    "servers 4; under las; j0: 2 GPUs for 100, priority={0}; "
    "j1: 2 GPUs for 100 at 20, priority={0}; j2: 4 GPUs for 4 at 30; "
    "guard min_runtime_us=60, only_lower={1}"
)
STARTS = "servers 4; under las; costs start_us=20; j0: 4 GPUs for 100; j1: 4 GPUs at 10"
NEVER = PREEMPTED.replace("j1", "guard min_runtime_us=1; j1").replace(
    "for 100", "for 100, suspend_mode=never"
)
SUSPENDED = (
    "servers 4; rounds of 10; j0: 4 GPUs for 100; ana suspends j0 at 25; bo releases j0 at 32"
)
BY_RANK = "servers 1; rounds of 2; under las; j0: 1 GPU for 100; j1: 1 GPU for 9"

TABLE = [
    row(
        "before, it runs by the decision that started it",
        PREEMPTED,
        "j0 at 10",
        headline="j0 has been running on n0[0-3] for ",
        rule="las",
        decided_in_round=0,
        where="n0[0-3]",
        preemptions=0,
    ),
    row(
        "one that has used more leaves for one that has used less",
        PREEMPTED,
        "j0 at 32",
        reason="outranked",
        checked=True,
        rule="outranked",
        decided_at=30,
        gains=["j1"],
        scores=[2],
        says_first=f"it was preempted at T+00:00:00.00003: {USED}",
    ),
    row(
        "the other is told who left for it",
        PREEMPTED,
        "j1 at 32",
        phase="running",
        made_room=["j0"],
        says="j0 had to leave for it",
    ),
    row(
        "it runs again once the other has ended, and is told why its first attempt ended",
        PREEMPTED,
        "j0 at 40",
        phase="running",
        says_last=f"attempt 1 on n0[0-3] was preempted: {USED}",
        preemptions=1,
    ),
    row(
        "its time is split into waits and runs",
        PREEMPTED,
        "j0",
        timeline=[("run", 0, 30), ("wait", 30, 34), ("run", 34, 104)],
        totals={
            "wait_s": 4e-6,
            "held_s": 100e-6,
            "jct_s": 104e-6,
            "attempts": 2,
            "preemptions": 1,
        },
    ),
    row("before the decision none is counted", COSTLY, "j0 at 29", preemptions=0),
    row("from the decision on one is counted", COSTLY, "j0 at 30, 31, 32, 40", preemptions=1),
    row(
        "it holds its GPUs until it is suspended",
        COSTLY,
        "j0 at 32",
        headline="j0 has been suspending on n0[0-3] for 2e-06s (attempt 1)",
    ),
    row(
        "starting (2), suspending (3) and resuming (4) are time on GPUs",
        COSTLY,
        "j0",
        timeline=[("run", 0, 33), ("wait", 33, 39), ("run", 39, 115)],
    ),
    row(
        "nobody is preempted in the first minutes of a run, where a guard says so",
        GUARDED.format(0, "yes"),
        "j2 at 40",
        reason="guard_min_runtime",
        needs=["a guard ends, the first at T+00:00:00.00006: j0, or GPUs come free otherwise"],
    ),
    row(
        "who has yet to start keeps what it was given, where another guard is on",
        f"{STARTS}; guard preemptions_per_hour=9, launches_first=yes",
        "j1 at 10",
        reason="guard_min_runtime",
        says_first="it needs 4 GPUs, and 0 are free; others keep what they were given until they "
        "start",
        needs=["jobs that were given GPUs start there, or GPUs come free otherwise"],
    ),
    row(
        "the guards of all whose GPUs are needed have to end",
        GUARDED.format(0, "yes"),
        "j2 at 70",
        starts="00.00008",
    ),
    row(
        "a guard is no reason where those that it guards rank before it anyway",
        GUARDED.format(1, "yes"),
        "j2 at 40",
        reason="outranked",
    ),
    row(
        "it was one in logs of before",
        GUARDED.format(1, "no"),
        "j2 at 40",
        reason="guard_min_runtime",
    ),
    row(
        "nobody is preempted who may never be suspended",
        NEVER,
        "j1 at 40",
        reason="guard_preemption_limit",
    ),
    row(
        "who is suspended by a person is on hold, by the decision of no round",
        SUSPENDED,
        "j0 at 28",
        reason="held",
        decided_at=25,
        decision="held by ana",
        decided_in_round=None,
        says_first="it was suspended at T+00:00:00.000025: held by ana",
    ),
    row(
        "who is released waits for a round",
        SUSPENDED,
        "j0 at 34",
        reason="waiting_for_round",
    ),
    row(
        "a swap that only a rank decides is told with the instant of its plan",
        BY_RANK,
        "j1 at 3",
        starts="00.00002",
        needs=[],
    ),
    row("and happens then", BY_RANK, "j1 at 20", phase="running", decided_at=20),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_leave_for_others_as_the_row_says(case: Row) -> None:
    check(case)
