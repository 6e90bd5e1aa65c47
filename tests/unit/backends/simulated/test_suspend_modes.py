"""What a suspension loses by the job's suspend mode: instants and work worked out by hand."""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from shunter.events import JobId, JobSuspended, SuspendMode
from tests.factories import World, job_id, las_policy, run, servers, trace_job
from tests.unit.backends.simulated.driving import Case, Hand, cases, launch, resume, suspend, told

J0 = "j0: 1 GPU for 20, total_steps=10, suspend_mode="
LAUNCH = "; 0: launch j0"
RESTART = f"{J0}restart, checkpoint_interval_us=3{LAUNCH}"

TABLE = [
    *(
        Case(
            f"one that is ended ({mode}) goes back to its last checkpoint, each {interval_us}",
            f"{J0}{mode}{saves}{LAUNCH}; 8: suspend j0; 30: resume j0",
            f"0: j0 starts; 8: j0 leaves{loses}, j0 is gone; "
            f"30: j0 starts #2; {ends_us}: j0 ends #2",
        )
        for mode in ("restart", "stop")
        for interval_us, loses, ends_us in (
            (None, " losing 8", 50),  # 30 + 20
            (3, " losing 2", 44),  # checkpoints at 3 and 6: 30 + 14
            (4, "", 42),  # and at 4 and 8: 30 + 12
            (9, " losing 8", 50),
        )
        for saves in [f", checkpoint_interval_us={interval_us}" if interval_us else ""]
    ),
    *(
        Case(
            f"one that saves on the way out ({mode}) keeps all its work",
            f"{J0}{mode}, checkpoint_interval_us=3{LAUNCH}; costs suspend_us=2; 8: suspend j0; "
            "30: resume j0",
            "0: j0 starts; 8: j0 leaves; 10: j0 is gone; 30: j0 starts #2; 42: j0 ends #2",
        )
        for mode in ("cooperative", "signal")
    ),
    *(
        Case(
            f"one that saves nothing ({mode}) pays no time to save it, and does all of it again",
            f"{J0}{mode}{LAUNCH}; costs start_us=1, suspend_us=2, resume_us=5, checkpoint_us=4; "
            "8: suspend j0; 30: resume j0",
            "1: j0 starts; 8: j0 leaves losing 7, j0 is gone; 39: j0 starts #2; 59: j0 ends #2",
        )
        for mode in ("restart", "stop")
    ),
    *cases(f"""
a move loses what a suspension loses
    {RESTART}; 8: migrate j0 on n1; until 30
    => 0: j0 starts; 8: j0 leaves losing 2, j0 is gone
checkpoints count from the beginning of each attempt: with 6 of 20, then with 9
    {RESTART}; 8: suspend j0; 30: resume j0; 32: suspend j0; 40: resume j0; 44: suspend j0;
    50: resume j0
    => 0: j0 starts; 8: j0 leaves losing 2, j0 is gone; 30: j0 starts #2;
       32: j0 leaves losing 2 #2, j0 is gone #2; 40: j0 starts #3;
       44: j0 leaves losing 1 #3, j0 is gone #3; 50: j0 starts #4; 61: j0 ends #4
one told to leave before it works loses nothing
    {J0}restart{LAUNCH}; costs start_us=5; 4: suspend j0
    => 4: j0 leaves, j0 is gone
one whose work is done ends whatever its mode: it was credited with the lease up to 20
    {J0}restart{LAUNCH}; lease credit=at_grant, round_us=20; 15: suspend j0
    => 0: j0 starts; 15: j0 ends
a checkpoint of a job in steps holds whole steps: two of four by 5
    {J0}restart, checkpoint_interval_us=5{LAUNCH}; 8: suspend j0;
    lease progress=whole_steps, round_us=10
    => 0: j0 starts; 8: j0 leaves losing 4, j0 is gone
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_lose_what_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_policy_sees_what_was_lost() -> None:
    """Goal: with a job that restarts, the state's count of work is that of the world."""
    jobs = (
        trace_job(0, lasts=40, suspend_mode=SuspendMode.restart),
        trace_job(1, at=20, lasts=5),
    )
    outcome = run(World(servers=servers(1), jobs=jobs), las_policy((15,)))
    assert [event.lost_us for event in outcome.of(JobSuspended)] == [20]
    # j1 runs from 20 to 25, and then all of j0 is to be done again.
    assert outcome.ends_us() == {"j1": 25, "j0": 65}


@pytest.mark.parametrize(
    ("staying", "notice_us", "mode", "sees"),
    [
        ({job_id(0)}, 0, SuspendMode.cooperative, "0: j0 starts; 20: j0 ends"),
        (
            set(),
            5,  # it works on until it sees that it is to leave, and then saves: 13 of 20 are done
            SuspendMode.cooperative,
            "0: j0 starts; 8: j0 leaves; 15: j0 is gone; 30: j0 starts #2; 37: j0 ends #2",
        ),
        (set(), 12, SuspendMode.cooperative, "0: j0 starts; 20: j0 ends"),
        (
            set(),
            5,
            SuspendMode.restart,
            "0: j0 starts; 8: j0 leaves losing 8, j0 is gone; 30: j0 starts #2; 50: j0 ends #2",
        ),
    ],
    ids=["stays", "sees it late", "ends before it sees it", "saves nothing, so is not asked"],
)
def test_job_that_leaves_late(
    staying: set[JobId], notice_us: int, mode: SuspendMode, sees: str
) -> None:
    job = trace_job(0, lasts=20, suspend_mode=mode)
    backend = SimulatedBackend([job], costs=Costs(suspend_us=2))
    backend.leaves_late(frozenset(staying), notice_us)
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch())
    seen = hand.until(8)
    hand.orders(suspend())
    seen += hand.until(30)
    if "gone" in sees:
        hand.orders(resume())
    assert told(seen + hand.goes_on()) == sees
