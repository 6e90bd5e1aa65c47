"""Who waits, and why: each reason in the smallest scene that has it, and what is said of it."""

import pytest

from tests.behaviour.displacements import (
    CPUS_TAKEN,
    DISPLACED,
    DISPLACED_FOR_CPUS,
    displaced_before_the_round,
    granted_gpus_taken,
)
from tests.behaviour.waits_scenes import Row, check, row

WAYS = "others before it end, leave or fall behind it, or servers join"
FULL = "servers 4; j0: 4 GPUs for 100; j1: 2 GPUs for 5 at 1; under fifo_backfill"
STRICT = "servers 4; j0: 3 GPUs for 100; j1: 2 GPUs at 1; j2: 1 GPU at 2"
ROUNDS = "servers 4; rounds of 10; under fifo_backfill; j0: 4 GPUs for 100"
CLASS = f"{ROUNDS}; j1: 4 GPUs for 5 at 3; j2: 4 GPUs for 5 at 23"
DRAINED = "servers 4 2; j0: 1 GPU for 100; j1: 4 GPUs at 10; ana drains n0 at 5"
TASK = "1 GPU for 50, array=j0, at_once={at_once}, array_index={index}"
WITHOUT_GPUS = "servers 4, cpus_milli=64000; j0: 3 GPUs for 100; " + "; ".join(
    [*(f"j{n}: 0 GPUs for 100 at {n}, cpus_milli=1000" for n in range(1, 5)), "j5: 4 GPUs at 5"]
)
QUEUED = "servers 4; j0: 4 GPUs for 100; " + "; ".join(
    f"j{number}: 4 GPUs for 50 at {number}" for number in range(1, 7)
)
SHORT_OF_CPUS = "servers 4, cpus_milli=4000; j0: 1 GPU for 100, cpus_milli=4000"
ELASTIC = "servers 4; j0: 1 GPU for 500, gpus_max=9; j1: 2 GPUs for 300; j2: 1 GPU for 50 at 30"
RESIZED = f"{ELASTIC}; rounds of 10; ana resizes j0 to 3 at 10"
LEAVING = (
    "servers 4; under las; costs start_us=2, suspend_us=3, resume_us=4, migrate_us=5; "
    "j0: 4 GPUs for 100; j1: 4 GPUs for 4 at 30"
)


def tasks(count: int, at_once: int) -> str:
    """Return the tasks of an array."""
    each = [TASK.format(at_once=at_once, index=index) for index in range(count)]
    return "; ".join(["servers 4", *(f"j{index}: {task}" for index, task in enumerate(each))])


CAPACITY = [
    row(
        "too few GPUs are free",
        FULL,
        "j1 at 50",
        reason="no_capacity",
        needed=(2, 0),
        blockers=["j0"],
        starts="",
        needs=[f"2 more GPUs come free to it: {WAYS}"],
    ),
    row(
        "a single GPU is missing",
        "servers 4; under fifo_backfill; j0: 4 GPUs for 100; j1: 1 GPU at 1",
        "j1 at 50",
        needs=[f"1 more GPU comes free to it: {WAYS}"],
    ),
    row(
        "GPUs are free, but the one before it does not fit, under strict fifo",
        STRICT,
        "j2 at 50",
        reason="outranked",
        blockers=["j1", "j0"],
        place={
            "position": 2,
            "waiting": 2,
            "score": 0,
            "score_in_words": "is ordered by submission alone",
            "ahead": ["j1"],
            "waiting_ahead": {
                "jobs": 1,
                "gpus": 2,
                "left_gpu_s": 20e-6,
                "unknown": 0,
                "limited": 0,
            },
            "running_ahead": {
                "jobs": 1,
                "gpus": 3,
                "left_gpu_s": 150e-6,
                "unknown": 0,
                "limited": 0,
            },
        },
    ),
    row(
        "who must not be overtaken is named to those behind it, in the queue too",
        STRICT,
        "j2 at 50",
        queue_blockers=["j1", "j0"],
    ),
    row("and who runs to itself", STRICT, "j1 at 50", queue_blockers=["j0"]),
    row(
        "who blocked it when its reason was recorded, and has ended, is not named in the queue",
        "servers 4; under fifo_backfill; j0: 1 GPU; j1: 3 GPUs for 90; j2: 4 GPUs at 2; "
        "j3: 4 GPUs at 3",
        "j3 at 20",
        queue="too few GPUs are free; needs 4, 1 free; held back by j1",
    ),
    row(
        "jobs without GPUs hold no GPUs",
        f"{WITHOUT_GPUS}; under fifo_backfill",
        "j5 at 50",
        blockers=["j0"],
        queue_blockers=["j0"],
        ahead_part="ahead on GPUs: 1 job on 3 GPUs",
    ),
    row(
        "but they hold CPUs",
        "servers 4, cpus_milli=4000; j0: 0 GPUs for 100, cpus_milli=3000; "
        "j1: 2 GPUs at 1, cpus_milli=2000",
        "j1 at 50",
        reason="cpu_or_memory_short",
        blockers=["j0"],
        queue_blockers=["j0"],
    ),
    row(
        "the queue tells which CPUs and memory a job has",
        "servers 4, cpus_milli=8000, memory_mb=400; j1: 4 GPUs for 90; "
        "j0: 1 GPU for 90, cpus_milli=1500, memory_mb=100; under fifo_backfill",
        "j0 at 99",
        held=(1.5, 100),
    ),
    row(
        "no CPUs are left beside the free GPUs",
        f"{SHORT_OF_CPUS}; j1: 1 GPU at 1, cpus_milli=1000",
        "j1 at 50",
        reason="cpu_or_memory_short",
    ),
    row(
        "it was submitted between two rounds",
        f"{ROUNDS}; j1: 4 GPUs for 5 at 3",
        "j1 at 5",
        reason="waiting_for_round",
    ),
    row(
        "the first round since has looked at it",
        f"{ROUNDS}; j1: 4 GPUs for 5 at 3",
        "j1 at 10",
        reason="no_capacity",
    ),
    row(
        "the next round starts it",
        "servers 4; rounds of 10; j0: 4 GPUs at 3",
        "j0 at 3",
        reason="waiting_for_round",
        needs=[],
        starts="00.00001",
    ),
    row(
        "no round is planned for it, since what could help would help one of its class first",
        CLASS,
        "j2 at 45",
        reason="no_capacity",
        reasons=["no_capacity"],
        rounds=0,
        of_class=True,
        is_older_than_job=True,
    ),
    row(
        "and so from its submission on",
        CLASS,
        "j2 at 23",
        reason="no_capacity",
        of_class=True,
        is_older_than_job=True,
    ),
    row(
        "a job that has ended blocks nobody, though no round has been since",
        "servers 2; rounds of 10; under fifo_backfill; j0: 1 GPU for 100; j1: 1 GPU for 9; "
        "j2: 1 GPU for 9",
        "j2 at 9",
        needed=(1, 1),
        blockers=["j0"],
        starts="00.00001",
    ),
    row(
        "the reason is of the last round, and the numbers are of the instant asked for",
        QUEUED,
        "j6 at 20",
        reason="no_capacity",
        as_of=(1, 20),
        says="no_capacity is what round 1 found at T+00:00:00.000001; the numbers are of "
        "T+00:00:00.00002, and if nothing else happens the next round finds the same",
    ),
    row(
        "many wait before it, and one that runs has 80 of its 100 microseconds left",
        QUEUED,
        "j6 at 20",
        place={
            "position": 6,
            "waiting": 6,
            "score": 0,
            "score_in_words": "is ordered by submission alone",
            "ahead": ["j1", "j2", "j3"],
            "waiting_ahead": {
                "jobs": 5,
                "gpus": 20,
                "left_gpu_s": 1e-3,
                "unknown": 0,
                "limited": 0,
            },
            "running_ahead": {
                "jobs": 1,
                "gpus": 4,
                "left_gpu_s": 320e-6,
                "unknown": 0,
                "limited": 0,
            },
        },
        served_gpu_s={"j0": 80e-6},
        became={"what": "started", "after_s": 330e-6, "ended": ["j0", "j1", "j2", "j3"]},
    ),
    row("the log says no more of it", f"{QUEUED}; until 20", "j6 at 20", became=None),
    row("both are of one instant", QUEUED, "j1 at 1", as_of=(1, 1), numbers_are_dated=False),
    row(
        "one that wants more GPUs waits for those",
        f"{ELASTIC}; ana resizes j0 to 3 at 10",
        "j0 at 40",
        reason="no_capacity",
        reasons=["no_capacity"],
        says="it needs 3 GPUs, and 2 are free",
    ),
    row(
        "another of the size that it had waits for something else",
        f"{ELASTIC}; ana resizes j0 to 3 at 10",
        "j2 at 40",
        reason="outranked",
    ),
    row(
        "made smaller, it has the reason of those that already waited with that size",
        f"{RESIZED}; ana resizes j0 to 1 at 47",
        "j0 at 48",
        reason="outranked",
        is_stale=True,
        of_class=True,
        is_older_than_job=False,
    ),
    row(
        "made larger, nobody waits with that size until the next round",
        f"{RESIZED}; ana resizes j0 to 4 at 47",
        "j0 at 48",
        reason="waiting_for_round",
    ),
    row(
        "and then that round says why",
        f"{RESIZED}; ana resizes j0 to 4 at 47",
        "j0 at 50",
        reason="no_capacity",
    ),
]

OF_ITS_OWN = [
    row(
        "another job must end first",
        "servers 4; j0: 1 GPU for 100; j1: 1 GPU at 1, depends_on=j0",
        "j1 at 50",
        reason="dependency",
        needs=["j0 ends well"],
        checked=False,
    ),
    row(
        "somebody put it on hold",
        "servers 4; j0: 4 GPUs for 100; j1: 1 GPU at 1; ana holds j1 at 20",
        "j1 at 50",
        reason="held",
        says_first="it was put on hold by ana at T+00:00:00.00002",
    ),
    row(
        "its last launch failed",
        f"{FULL}; backing_off holds j1 at 10",
        "j1 at 50",
        reason="backing_off",
        says_first="its last launch failed or was lost, and the next one waits a while",
        needs=[
            "its wait between two launches is over at T+00:00:01.00001, or it is resumed before"
        ],
    ),
    row(
        "as many tasks of its array run as may",
        tasks(4, 2),
        "j3 at 20",
        reason="array_limit",
        says_first="2 tasks of array j0 may run at once, and j0, j1 come first",
        needs=["a task of array j0 that has its turn ends, or gives it up"],
    ),
    row(
        "one task of its array may run",
        tasks(2, 1),
        "j1 at 20",
        says_first="1 task of array j0 may run at once, and j0 comes first",
        queue="it is not its turn in its array; 1 task of its array may run at once",
    ),
]

OF_SERVERS = [
    row(
        "its server is drained, which is no loss",
        DRAINED,
        "j1 at 50",
        reason="node_drained",
        checked=True,
        blockers=[],
        says_first="it needs 4 GPUs, and 2 are in service: n0 is drained",
        queue="too few GPUs are in service; needs 4, 1 free; n0 is drained",
    ),
    row(
        "it waited for a drained server that is back",
        f"{DRAINED}; ana restores n0 at 60",
        "j1 at 90",
        reasons=["node_drained"],
    ),
    row(
        "a GPU that is set aside on a healthy server is no lost server",
        "servers 4; j0: 1 GPU for 100; j1: 4 GPUs at 10; ana sets aside GPU 3 of n0 at 5",
        "j1 at 50",
        reason="gpus_quarantined",
        queue_part="too few GPUs are in service; needs 4, 2 free; GPU 3 of n0 is set aside",
    ),
    row(
        "single GPUs are set aside",
        "servers 4; j0: 4 GPUs at 10; ana sets aside GPU 0 of n0 at 5; "
        "ana sets aside GPU 2 of n0 at 5",
        "j0 at 20",
        reason="gpus_quarantined",
        to_do_part="`shunter nodes release 'n0[0]'`, `shunter nodes release 'n0[2]'`",
    ),
]

KEY = "(policy.params.fifo_easy.default_limit)"
EASY = (
    "servers 4 4; under fifo_easy{params}; j0: 4 GPUs for 3600s{a}; j1: 4 GPUs for 1800s{b}; "
    "j2: 8 GPUs for 600s at 60s; j3: 1 GPU for 100s at 180s{e}"
)


def easy(params: str = "", *, a: int = 0, b: int = 0, e: int = 0) -> str:
    """Return a scene in which j2 is promised GPUs; some jobs declare a time limit in seconds."""
    limits = {"a": a, "b": b, "e": e}
    said = {name: f", time_limit_us={limit}s" if limit else "" for name, limit in limits.items()}
    return EASY.format(params=params, **said)


PROMISED = [
    row(
        "GPUs are promised to it, under EASY backfilling",
        "servers 4; under fifo_easy; j0: 3 GPUs for 100, time_limit_us=200; "
        "j1: 4 GPUs at 1, time_limit_us=10",
        "j1 at 50",
        says_last="GPUs are promised to it from T+00:00:00.0002 on; the promise counts on the "
        "time limits of the jobs that have GPUs",
    ),
    row(
        "no job on the GPUs declares a time limit",
        easy(),
        "j2 at 100s",
        says_last="GPUs are promised to it from T+8760:00:00 on; the promise counts on time "
        "limits, and none of the 2 jobs that have GPUs declares one; each counts as running for "
        f"365d {KEY}",
    ),
    row(
        "one of two declares none",
        easy(", default_limit=5400", b=1900),
        "j2 at 100s",
        says_last="GPUs are promised to it from T+01:30:00 on; the promise counts on time limits, "
        "and 1 of the 2 jobs that have GPUs declares none, and counts as running for 1h 30m "
        f"{KEY}",
    ),
    row(
        "the only one declares none",
        easy(),
        "j2 at 2000s",
        says_last="GPUs are promised to it from T+8760:00:00 on; the promise counts on time "
        f"limits, and the job that has GPUs declares none, and counts as running for 365d {KEY}",
    ),
    row(
        "a short job without a limit would outlast the promise",
        easy(),
        "j3 at 2000s",
        reason="outranked",
        says_last="it is not started before j2, to which GPUs are promised from T+8760:00:00 on: "
        f"it declares no time limit, and counts as running for 365d {KEY}, so it would outlast "
        "that",
    ),
    row(
        "with a limit that ends before the promise it is started",
        easy(e=120),
        "j3 at 2000s",
        phase="finished",
    ),
    row(
        "with a longer limit it is not",
        easy(a=4000, e=7200),
        "j3 at 2000s",
        says_last_part="from T+01:06:40 on: by its time limit it may run for 2h 00m, so it would "
        "outlast that",
    ),
    row(
        "other policies promise nothing",
        easy().replace("fifo_easy", "fifo"),
        "j3 at 2000s",
        promises=False,
    ),
]

RELEASES = [
    row(
        "it was granted GPUs that another is leaving",
        LEAVING,
        "j1 at 31",
        headline="j1 was granted n0[0-3], and waits until j0 (suspending) has left it",
        reason="waiting_for_release",
        reasons=["waiting_for_release"],
        needed=(4, 0),
        holders=[("j0", "suspending", "n0[0-3]")],
        made_room=["j0"],
        needs=["the GPUs that it was granted are left by j0"],
        queue="it was granted GPUs that others have yet to leave; needs 4, 0 free; held back by j0",
        counted="waiting_for_release",
        state="granted",
    ),
    row("who leaves them waits for nothing", LEAVING, "j0 at 31", state="suspending", counted=None),
    row(
        "who starts as it comes waited for the round, whatever others of its class wait for later",
        "servers 4; j0: 4 GPUs; j1: 4 GPUs for 20 at 30; j2: 4 GPUs for 5 at 32",
        "j1 at 30, 31, 40, 50, 60",
        reasons=["waiting_for_round"],
    ),
    row("and that is told of it once it has ended", LEAVING, "j1", reasons=["waiting_for_release"]),
]

GAVE = "it was displaced at T+00:00:00.00001: Slurm gave its GPUs to j0"
OTHERS_HAVE = [
    row(
        "its GPUs turned out to be another's, and no round has looked at it since",
        displaced_before_the_round,
        "j1",
        headline="j1 has waited for 0s: displaced",
        reason="displaced",
        blockers=["j0"],
        says_first=GAVE,
        preemptions=0,
    ),
    row(
        "others took the GPUs that it was granted, and no round has looked at it since",
        granted_gpus_taken,
        "j2",
        reason="displaced",
        says_first="others hold its GPUs of n0, and no round has looked at it since",
    ),
    row(
        "its attempt is withdrawn, since Slurm gave its GPUs to another",
        DISPLACED,
        "j1 at 20",
        phase="suspending",
        says_last=f"{GAVE}; it waits again once its attempt is over",
    ),
    row(
        "where Slurm put the other is told as it was found, not as it was planned",
        DISPLACED,
        "j0 at 10",
        headline="j0 has been launching on n1[0-3] for ",
    ),
    row(
        "a round that has looked at it says what it lacks",
        DISPLACED,
        "j1",
        reason="no_capacity",
        reasons=["no_capacity"],
        says_first="it needs 4 GPUs, and 0 are free",
        preemptions=0,
    ),
    row(
        "others hold too many of the GPUs",
        DISPLACED,
        "j2",
        reason="gpus_taken",
        says_first=(
            "it needs 8 GPUs, and beside what others hold there are 4: others hold 4 GPUs of n0"
        ),
        queue="others hold too many of the GPUs; needs 8, 0 free; held back by j1; "
        "others hold 4 GPUs of n0",
        needs=["others leave 4 GPUs or more of one type, or servers join"],
    ),
    row(
        "others take CPUs that it needs",
        DISPLACED_FOR_CPUS,
        "j0 at 10",
        says_last="it was displaced at T+00:00:00.00001: others hold 1 GPU and 12 CPUs of n0; "
        "it waits again once its attempt is over",
    ),
    row(
        "others hold the CPUs beside free GPUs",
        CPUS_TAKEN,
        "j0 at 20",
        reason="cpu_or_memory_short",
        queue_part="others hold 12 CPUs of n0, 9 CPUs of n1",
        says_first="it needs 1 GPU, and 8 are free, but not with the 8 CPUs that it needs beside "
        "it: n1 has 7 CPUs beside 4 GPUs, n0 has 4 CPUs beside 4 GPUs; "
        "others hold 12 CPUs of n0, 9 CPUs of n1",
    ),
]


CONTENDED = """
    live, decentralised=yes; launches take 9s; servers 4 4; j0: 4 GPUs at 1s; j1: 4 GPUs at 1s;
    j2: 4 GPUs at 1s; ana proposes j0 on n0[0-3] at 2s
"""
REJECTED = f"{CONTENDED}; ana proposes j1 on n0[0-3] at 3s"
APPROVED = f"{CONTENDED}; ana proposes j1 on n1[0-3] at 3s"
AGAIN = f"{REJECTED}; ana proposes j1 on n0[0-3] at 64s; ana proposes j1 on n0[0-3] at 185s"
SECOND_TURN = f"""
    under gavel; {CONTENDED.replace("9s", "1s")}; ana proposes j1 on n1[0-3] at 2s;
    leaving takes 9s; until 62s
"""
PROPOSED = [
    row(
        "no job scheduler has proposed a place yet",
        CONTENDED,
        "j1",
        reason="awaiting_proposal",
        says_first="the order lets it start, and no place was proposed for it yet",
    ),
    row(
        "free GPUs are for one before it, whose place is to be proposed",
        CONTENDED,
        "j2",
        reason="no_capacity",
        says_part="4 GPUs of what is free are for j1: before it in the order, with a place yet "
        "to be proposed",
    ),
    row(
        "the proposed GPUs were not free",
        REJECTED,
        "j1",
        reason="proposal_rejected",
        headline="j1 has waited for 2s: proposal_rejected",
        says_first_part="the order lets it start, and its proposal was rejected at T+00:00:03: "
        "GPUs n0[0-3] were not free for it (no_capacity: GPUs of node n0 are taken); "
        "proposed again from T+",
    ),
    row("not for the third time", AGAIN, "j1", says_first_part=", 3 times in a row by then"),
    row("the proposed GPUs were free", APPROVED, "j1", phase="launching", reason=None),
    row("and before, it waited", APPROVED, "j1 at 2s", reason="awaiting_proposal"),
    row(
        "its turn has come under gavel",
        SECOND_TURN,
        "j2",
        reasons=["share_met", "awaiting_proposal"],
    ),
    row(
        "its turn has come in vain",
        f"{SECOND_TURN}; ana proposes j2 on n0[0-3] at 61s",
        "j2",
        reason="proposal_rejected",
    ),
    row(
        "in its turn it was granted",
        f"{SECOND_TURN}; ana proposes j2 on n1[0-3] at 61s",
        "j2",
        reason="waiting_for_release",
    ),
]

TABLE = [
    *(*CAPACITY, *OF_ITS_OWN, *OF_SERVERS, *PROMISED, *RELEASES, *OTHERS_HAVE, *PROPOSED),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_job_waits_for_what_the_row_says(case: Row) -> None:
    check(case)
