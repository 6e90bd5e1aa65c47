"""Checkpoints that lie on servers, and the split over servers that they are of."""

import pytest

from shunter.core import State, Timers
from shunter.core.fold import PLACES_MOST, apply, replay
from shunter.errors import IllegalEventError
from shunter.events import JobId, QueueName, decode_record, encode_record, facts
from tests.behaviour.waits_scenes import Row, check, played, row, rows
from tests.factories import job_id, node_name

J0, N0 = job_id(0), node_name(0)
LIVE = "live, checkpoints_stay=yes; servers 1 1 1; j0: 1 GPU"
SAVED = f"{LIVE}; ana suspends j0 at 1"
SILENT = f"{SAVED}; n0 is silent at 2"
LOST = f"{SILENT}; n0 is lost at 3"
BOUND = f"{SAVED}; j0 is too large to leave n0; ana drains n0 at 2; ana releases j0 at 3; until 3s"
TASKS = "live, checkpoints_stay=yes; servers 1 1; "
TASKS += "; ".join(f"j{number}: 1 GPU, array=j0, at_once=1" for number in range(2))
TASKS += "; launches take 5; n1 is silent at 6; j0 is lost at 7; n0 is silent at 8; "
TASKS += "j0 is not launched for n0 at 9; n1 answers at 2s"
MOVED = "ana drains n0 at 2; ana releases j0 at 3; ana suspends j0 at 4; "
PAIR = SAVED.replace("1 GPU", "2 GPUs")
SPLIT = f"{PAIR.replace('1 1 1', '2 1 1')}; ana drains n0 at 2; ana releases j0 at 3"

PLACES = [
    *rows(f"""
somebody's own hold outlasts the silence
    {SILENT}; ana releases j0 at 3; ana suspends j0 at 4; n0 answers at 5
    => j0, reason: held
    => j0, then: 1: held by ana, held, leaves; 3: released by ana, held by checkpoint;
       4: held by ana
what a lost server had is given up once the next attempt runs
    {LIVE}; launches take 5; ana suspends j0 at 11; n0 is silent at 12; ana releases j0 at 13;
    n0 is lost at 14; until 30
    => j0, then: 5: attempt 1 starts; 11: held by ana, held, leaves;
       13: released by ana, held by checkpoint; 14: released by checkpoint, gets n1[0];
       19: gives n0/1 up, attempt 2 starts anew
a launch that fails has given nothing up
    {LOST}; j0 cannot be launched from 4 until 5; ana releases j0 at 4; n0 answers at 5; until 2s
    => j0, then: 1: held by ana, held, leaves;
       4: released by ana, gets n1[0], launch 2 fails, waits;
       1s 4: attempt 3 starts on n0[0] from n0
a lost server that is silent after a restart is still lost
    {LOST}; n0 is silent at 4; ana releases j0 at 5
    => j0, then: 1: held by ana, held, leaves;
       5: released by ana, gives n0/1 up, attempt 2 starts on n1[0] anew
its owner gives up all that is out of reach and no more
    {SAVED}; {MOVED}ana drains n1 at 5; ana releases j0 at 6; j0 saves step 40 at 7;
    ana suspends j0 at 8; n1 is silent at 9; n2 is silent at 9; ana restores n0 at 10;
    ana releases j0 at 11; bo gives up j0 at 12
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, attempt 2 starts on n1[0] from n0; 4: held by ana, held, leaves;
       6: released by ana, attempt 3 starts on n2[0] from n1 or n0; 8: held by ana, held, leaves;
       11: released by ana, held by checkpoint;
       12: gives n2/3 up, gives n1/2 up, released by checkpoint, attempt 4 starts on n0[0] from n0
nothing is given up that can be had, or that it runs by
    {SAVED}; ana gives up j0 at 2; ana gives up j9 at 2; ana releases j0 at 3; n0 is silent at 4;
    ana gives up j0 at 5
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, attempt 2 starts on n0[0] from n0
places are told newest first, each once
    {SAVED}; {MOVED}ana restores n0 at 5; ana drains n1 at 5; ana releases j0 at 6;
    ana suspends j0 at 7; ana drains n0 at 8; ana releases j0 at 9
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, attempt 2 starts on n1[0] from n0; 4: held by ana, held, leaves;
       6: released by ana, attempt 3 starts on n0[0] from n1 or n0; 7: held by ana, held, leaves;
       9: released by ana, attempt 4 starts on n2[0] from n0 or n1
"""),
    row(
        "launches that fail for the checkpoint never fail the job",
        f"{BOUND.replace('; j0 is too large to leave n0', '')}"
        + "".join(f"; j0 is not launched for n0 at {at}" for at in (4, 1000004)),
        "j0",
        then=(
            "1: held by ana, held, leaves; 3: released by ana, attempt 2 starts on n1[0] from n0; "
            "4: launch 2 fails, attempt 3 starts on n1[0] from n1 or n0; "
            "1s 4: launch 3 fails, attempt 4 starts on n1[0] from n1 or n0"
        ),
    ),
    *rows(f"""
a task whose checkpoint is out of reach waits for it
    {TASKS}
    => j0, then: 5: attempt 1 starts; 7: lost, gets n0[0]; 9: launch 2 fails, waits until 1s 9;
       1s 9: held by checkpoint
and keeps its turn
    {TASKS}
    => j1, phase: waiting
    => j1, reason: array_limit
"""),
]
STAYS = [
    *rows(f"""
a checkpoint that stays is waited for without a try elsewhere, whatever else happens
    {BOUND}; ana drains n1 at 2s; ana restores n0 at 3s
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n1[0], launch 2 fails, waits until 1s 3;
       1s 3: held by checkpoint_stays;
       3s: released by checkpoint_stays, attempt 3 starts on n0[0] from n0
its job starts where it lies, whatever the policy would choose
    live, checkpoints_stay=yes; servers 4 2 1; j0: 2 GPUs; j1: 1 GPU; j0 is too large to leave n1;
    ana suspends j0 at 1; ana drains n1 at 2; ana releases j0 at 3; ana restores n1 at 4; until 2s
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n0[0,1], launch 2 fails, waits until 1s 3;
       1s 3: attempt 3 starts on n1[0,1] from n1
a resume lets it be copied
    {BOUND}; ana releases j0 at 2s
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n1[0], launch 2 fails, waits until 1s 3;
       1s 3: held by checkpoint_stays;
       2s: released by ana, gets n1[0], launch 3 fails, waits until 3s;
       3s: held by checkpoint_stays
also during the wait after the launch
    {BOUND}; ana releases j0 at 500000; until 500000
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n1[0], launch 2 fails, waits until 1s 3;
       500000: released by ana, gets n1[0], launch 3 fails, waits until 1s 500000
it is given up
    {BOUND}; ana gives up j0 at 2s
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n1[0], launch 2 fails, waits until 1s 3;
       1s 3: held by checkpoint_stays;
       2s: gives n0/1 up, released by checkpoint_stays, attempt 3 starts on n1[0] anew
or lost with its server
    {BOUND}; n0 is lost at 2s
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, gets n1[0], launch 2 fails, waits until 1s 3;
       1s 3: held by checkpoint_stays;
       2s: released by checkpoint_stays, gives n0/1 up, attempt 3 starts on n1[0] anew
nobody is preempted for it
    under las; live, checkpoints_stay=yes; servers 1 1; j0: 1 GPU; ana suspends j0 at 1;
    j1: 1 GPU at 2; j2: 1 GPU at 2; j0 is too large to leave n0; ana drains n0 at 50;
    ana releases j0 at 99; until 3s
    => j0, then: 1: held by ana, held, leaves;
       99: released by ana, gets n1[0], launch 2 fails, waits until 1s 99;
       1s 99: held by checkpoint_stays
"""),
]
SPLITS = [
    *rows(f"""
one over two servers does not come back on one
    {LIVE.replace("1 1 1", "1 1 2 1").replace("1 GPU", "2 GPUs at 1")}; ana drains n2 at 0;
    ana suspends j0 at 2; ana restores n2 at 2; ana releases j0 at 3
    => j0, then: 2: held by ana, held, leaves;
       3: released by ana, attempt 2 starts on n0[0]+n1[0] from n0+n1
each rank gets as many GPUs as it had
    under fifo, placement=first_fit; {SAVED.replace("1 1 1", "1 2 2").replace("1 GPU", "3 GPUs")};
    ana drains n1 at 2; ana releases j0 at 3
    => j0, then: 1: held by ana, held, leaves;
       3: released by ana, attempt 2 starts on n0[0]+n2[0,1] from n0+n1
"""),
    *(
        row(f"{name} keeps splits", f"under {name}; {SPLIT}", "j0", reason="split_kept")
        for name in ("las", "srtf", "fifo_easy")
    ),
    *rows(f"""
it is free again when no checkpoint is left
    {SPLIT}; n0 is silent at 4; n0 is lost at 5
    => j0, then: 1: held by ana, held, leaves; 3: released by ana; 4: held by checkpoint;
       5: released by checkpoint, gives n0/1 up, attempt 2 starts on n1[0]+n2[0] anew
and binds again when the lost server is back in time
    {PAIR.replace("1 1 1", "2 1 1")}; ana drains n0 at 2; ana drains n1 at 2;
    ana releases j0 at 3; n0 is lost at 4; n0 answers at 5; ana restores n1 at 6
    => j0, reason: split_kept
"""),
]
TABLE = [
    *PLACES,
    *STAYS,
    *SPLITS,
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_checkpoints_bind_jobs_as_the_row_says(case: Row) -> None:
    check(case)


def state_of(scene: str) -> State:
    return replay(played(scene).events)


def test_no_more_places_are_remembered_than_are_of_use() -> None:
    servers = " ".join("1" * (PLACES_MOST + 2))
    scene = [f"live, checkpoints_stay=yes; servers {servers}; j0: 1 GPU"]
    for number in range(PLACES_MOST + 1):
        at = 10 * number
        scene.append(f"ana suspends j0 at {at + 1}; ana drains n{number} at {at + 2}")
        scene.append(f"ana releases j0 at {at + 3}")
    assert len(state_of("; ".join(scene)).jobs[J0].checkpoints or ()) == PLACES_MOST


def test_snapshot_keeps_what_checkpoints_bind_a_job_to() -> None:
    state = state_of(SPLIT)
    read = decode_record(State, encode_record(state))
    assert read.jobs == state.jobs
    assert list(read.resumable) == [J0]
    bound = played(f"{BOUND}; until 2s")
    state = decode_record(State, encode_record(replay(bound.events)))
    assert state.jobs[J0].stays_on == N0
    _, rules = bound.rebuild(bound.events[0])  # type: ignore[arg-type]  # a log begins so
    assert Timers(state, rules).due(2_000_000) is None


def test_discarding_what_is_not_there_is_illegal() -> None:
    with pytest.raises(IllegalEventError, match="there was none"):
        apply(state_of(SAVED), facts.CheckpointDiscarded(99, J0, 7, (N0,)))


def test_changed_quota_leaves_the_split() -> None:
    state = state_of(SPLIT)
    apply(state, facts.QuotaChanged(9, QueueName("default"), 3))
    demand = state.jobs[J0].demand
    assert (demand.shapes, demand.keeps_split, demand.queue) == (((2,),), True, "default")


@pytest.mark.parametrize(
    "scene",
    [SPLIT.replace("2 GPUs", "2 GPUs, shapes=2"), SAVED],
    ids=["it asks for its split itself", "one GPU has but one split"],
)
def test_job_stays_in_its_class(scene: str) -> None:
    assert not state_of(scene).jobs[J0].demand.keeps_split


def test_simulation_binds_nobody() -> None:
    state = state_of("servers 2 1 1; costs start_us=1; j0: 2 GPUs for 9; until 5")
    job = state.jobs[JobId("j0")]
    assert job.checkpoints is None
    assert not job.split
    assert not state.resumable
