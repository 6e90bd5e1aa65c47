"""What becomes of bookings when jobs are found elsewhere, or strangers hold GPUs.

Two servers of four GPUs; tests read: given bookings, when something is found, then what is booked.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shunter.core import FoldResult, JobPhase, State
from shunter.core.fold import apply, replay
from shunter.errors import IllegalEventError
from shunter.events import (
    NOTHING,
    Allocation,
    Because,
    Event,
    Share,
    decode_record,
    encode_record,
    facts,
)
from tests.behaviour.waits_scenes import Row, check, played, row, rows
from tests.factories import (
    allocation,
    attempt_started,
    granted,
    job_id,
    job_submitted,
    node_added,
    node_name,
    packed,
    revoked,
    servers,
)
from tests.property.invariants import check_state

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
N0 = node_name(0)
QUEUED: list[Event] = [*servers(4, 4), job_submitted(0, 2), job_submitted(1, 2)]
SIDE_BY_SIDE: list[Event] = [*QUEUED, granted(0, n0=0b0011), granted(1, n0=0b1100)]
APART: list[Event] = [*QUEUED, granted(0, n1=0b0011), granted(1, n0=0b1100)]
FULL: list[Event] = [*APART, job_submitted(2, 2), granted(2, n0=0b0011)]


def learned(job: int = 0, at: int = 0, **masks: int) -> facts.AllocationLearned:
    return facts.AllocationLearned(at, job_id(job), 1, allocation(**masks))


def told(history: Sequence[Event], event: Event) -> tuple[State, FoldResult]:
    """Return what is true after one more fact, and what became of jobs with it."""
    state = replay(history)
    result = apply(state, event)
    check_state(state, may_be_displaced=True) if not result.displaced else None
    return state, result


def test_an_attempt_holds_the_gpus_it_was_found_on_of_another_type_too() -> None:
    history: list[Event] = [node_added(0, 4), node_added(1, 4, gpu_type="k80"), job_submitted(0, 2)]
    state, result = told([*history, granted(0, n0=0b0011)], learned(n1=0b0110))

    job = state.jobs[J0]
    assert job.allocation == job.held == allocation(n1=0b0110)
    assert not result.displaced
    assert {name: pool.gpus_free for name, pool in state.cluster.pools.items()} == {
        "v100": 4,
        "k80": 2,
    }


def test_who_has_not_started_gets_the_gpus_that_the_other_gave_up() -> None:
    state, result = told(SIDE_BY_SIDE, learned(n0=0b0110))

    assert not result.displaced
    assert state.jobs[J0].held == allocation(n0=0b0110)
    assert state.jobs[J1].held == state.jobs[J1].allocation == allocation(n0=0b1001)
    assert state.jobs[J1].phase is JobPhase.launching


def test_who_has_not_started_gets_other_free_gpus_of_the_server() -> None:
    state, result = told(APART, learned(n0=0b1100))

    assert not result.displaced
    assert state.jobs[J1].held == allocation(n0=0b0011)


def test_who_has_not_started_and_finds_none_is_displaced() -> None:
    """One after the other, in order of submission: j2 gets the GPU that j1 does not need now."""
    state, result = told(FULL, learned(n0=0b0110))

    job = state.jobs[J1]
    assert result.displaced == (job,)
    assert (job.allocation, job.held, job.gpus) == (NOTHING, NOTHING, 0)
    assert state.jobs[J2].held == allocation(n0=0b1001)
    assert state.queues[job.spec.queue].gpus == 4


def test_quarantined_and_taken_gpus_are_given_to_nobody_instead() -> None:
    history: list[Event] = [*APART, facts.GpuQuarantined(0, N0, 0), facts.GpusTaken(0, N0, 0b0010)]
    _, result = told(history, learned(n0=0b1000))

    assert [job.job_id for job in result.displaced] == [J1]


def test_a_gang_is_exchanged_whole_or_not_at_all() -> None:
    history: list[Event] = [*servers(4, 2), job_submitted(0, 2), job_submitted(1, 4)]
    history += [granted(0, n0=0b1100), granted(1, n0=0b0011, n1=0b11)]
    state, result = told(history, facts.AllocationLearned(0, J0, 1, allocation(n0=0b0001, n1=0b01)))

    assert [job.job_id for job in result.displaced] == [J1]
    assert state.cluster.servers[N0].decided == 0b0001


def test_a_started_job_is_displaced_and_counted_there_no_more() -> None:
    state, result = told([*FULL, attempt_started(1)], learned(n0=0b0110))

    assert [job.job_id for job in result.displaced] == [J1, J2]
    assert state.jobs[J1].allocation == NOTHING
    assert state.jobs[J1].held == allocation(n0=0b1000)


def test_a_job_granted_gpus_is_launched_on_others_that_are_free() -> None:
    """j2 waits for j0 to leave; j1 is found there, and j2 gets what j1 gave up."""
    leaving: list[Event] = [attempt_started(0), revoked(0), job_submitted(2, 2)]
    history: list[Event] = [*SIDE_BY_SIDE, *leaving, granted(2, n0=0b0011)]
    assert replay(history).jobs[J2].phase is JobPhase.granted

    state, result = told(history, learned(1, n0=0b0011))

    assert state.jobs[J2].held == allocation(n0=0b1100)
    assert [job.job_id for job in result.launched] == [J2]
    assert state.jobs[J0].held == NOTHING


def test_of_a_job_that_leaves_only_what_it_holds_changes() -> None:
    history: list[Event] = [*SIDE_BY_SIDE, revoked(0)]
    state, result = told(history, learned(n1=0b0011))

    job = state.jobs[J0]
    assert (job.phase, job.allocation, job.held) == (
        JobPhase.suspending,
        NOTHING,
        allocation(n1=0b0011),
    )
    assert not result.displaced


def test_service_counts_the_gpus_that_were_held_when() -> None:
    state = replay([*SIDE_BY_SIDE, learned(at=10, n1=0b0111)])

    assert state.jobs[J0].service_us(10) == 20
    assert state.jobs[J0].service_us(12) == 26
    assert state.jobs[J0].occupied_us(12) == 12


def test_a_job_is_booked_no_more_cpus_than_are_left() -> None:
    history: list[Event] = [node_added(0, 4, cpus_milli=4000), node_added(1, 4, cpus_milli=4000)]
    history += [job_submitted(0, 1), job_submitted(1, 1)]
    for name, node in ((J0, 0), (J1, 1)):
        what = Allocation((Share(node_name(node), 1, 3000),))
        history.append(facts.AllocationChanged(0, name, what, Because("test")))
    found = Allocation((Share(node_name(1), 0b10, 3000),))

    state, _ = told(history, facts.AllocationLearned(0, J0, 1, found))

    assert state.jobs[J0].allocation.shares[0].cpus_milli == 1000
    assert state.cluster.servers[node_name(1)].beside_free.cpus_milli == 0


def test_what_strangers_hold_is_free_for_nobody_and_no_capacity() -> None:
    state, _ = told([*servers(4)], facts.GpusTaken(0, N0, 0b0011))
    pool = state.cluster.pools["v100"]
    assert (pool.gpus_free, pool.gpus_up) == (2, 2)

    apply(state, facts.GpusTaken(0, N0, 0b1000))
    assert (pool.gpus_free, pool.gpus_up) == (3, 3)


def test_who_runs_keeps_what_strangers_take() -> None:
    state, result = told([*SIDE_BY_SIDE, attempt_started(0)], facts.GpusTaken(0, N0, 0b0011))

    assert not result.displaced
    assert state.jobs[J0].held == allocation(n0=0b0011)


@pytest.mark.parametrize(("mask", "has"), [(0b0101, 0b1010), (0b0111, 0)])
def test_who_has_not_started_gives_way_to_strangers(mask: int, has: int) -> None:
    history: list[Event] = [*QUEUED, granted(0, n0=0b0011)]
    state, result = told(history, facts.GpusTaken(0, N0, mask))

    assert state.jobs[J0].allocation == (allocation(n0=has) if has else NOTHING)
    assert len(result.displaced) == (not has)


ILLEGAL: dict[str, tuple[Sequence[Event], Event]] = {
    "a job that waits": (QUEUED, learned(n0=1)),
    "another attempt": (SIDE_BY_SIDE, replace(learned(n0=1), attempt=2)),
    "nothing": (SIDE_BY_SIDE, learned()),
    "GPUs that are shared": (SIDE_BY_SIDE, facts.AllocationLearned(0, J0, 1, packed(n0=1))),
    "GPUs that there are not": (SIDE_BY_SIDE, learned(n0=0b10000)),
    "no server": (SIDE_BY_SIDE, learned(n7=1)),
    "more taken than there are": (QUEUED, facts.GpusTaken(0, N0, 0b10000)),
    "taken of no server": (QUEUED, facts.GpusTaken(0, node_name(7), 1)),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_what_cannot_be_found_is_illegal(name: str) -> None:
    history, event = ILLEGAL[name]
    with pytest.raises(IllegalEventError):
        replay([*history, event])


def test_a_snapshot_keeps_what_is_taken_and_one_without_it_is_as_before() -> None:
    before = replay(QUEUED)
    state, _ = told(QUEUED, facts.GpusTaken(0, N0, 0b0011))

    again = decode_record(State, encode_record(state))
    assert encode_record(again) == encode_record(state)
    assert again.cluster.pools["v100"].gpus_free == 6
    apply(state, facts.GpusTaken(0, N0, 0))
    before.seq = state.seq
    assert encode_record(state) == encode_record(before), "no field is written for nobody"


BOTH = "live; servers 4 4; j0: 4 GPUs; j1: 4 GPUs"
TAKES = "j0 is found on n1[0-3] at 5; until 5"
TABLE = [
    row(
        "an attempt that is displaced is withdrawn, and its job starts when it is over",
        f"{BOTH}; launches take 9; leaving takes 1; j0 is found on n1[0-3] at 5; until 20",
        "j1",
        log=(
            "0: submitted, gets n1[0,1,2,3]; 5: displaced; 6: leaves, gets n0[0,1,2,3]; "
            "15: attempt 2 starts"
        ),
        preemptions=0,
    ),
    *rows(f"""
however its withdrawal is told, that is no failure
    {BOTH}; launches take 9; leaving takes 9; j0 is found on n1[0-3] at 5;
    j1 is not launched at 6; until 20
    => j1, log: 0: submitted, gets n1[0,1,2,3]; 5: displaced; 6: launch 1 fails, gets n0[0,1,2,3];
       15: attempt 2 starts
also as a loss
    {BOTH}; launches take 9; leaving takes 9; j0 is found on n1[0-3] at 5; j1 is lost at 6;
    until 20
    => j1, log: 0: submitted, gets n1[0,1,2,3]; 5: displaced; 6: lost, gets n0[0,1,2,3];
       15: attempt 2 starts
news of the end may come after that of who has the GPUs now
    {BOTH}; leaving takes 9; j0 is found on n1[0-3] at 5; j1 exits with 0 at 6
    => j1, then: 5: displaced; 6: exits with 0, finished
a job promised GPUs that strangers have waits again
    {BOTH}; j2: 4 GPUs at 1; leaving takes 9; ana suspends j0 at 2; strangers take n0[0-3] at 3;
    until 3
    => j2, log: 1: submitted; 2: gets n0[0,1,2,3]; 3: displaced
    => j2, phase: waiting
news of one that has ended becomes no fact
    {BOTH}; j1 exits with 0 at 2; j1 is found on n0[0-3] at 3
    => j1, log: 0: submitted, attempt 1 starts on n1[0,1,2,3]; 2: exits with 0, finished
others hold CPUs and GPUs: an attempt is withdrawn, and starts where there is room
    live; servers 4 4, cpus_milli=16000, memory_mb=64; launches take 9;
    j0: 1 GPU, cpus_milli=4000; strangers take n0[1-2] and 13 CPUs and 40 MB at 5; until 20
    => j0, log: 0: submitted, gets n0[0]; 5: displaced, leaves, gets n1[0]; 14: attempt 2 starts
a job is not planned on CPUs that others hold
    live; servers 4 4, cpus_milli=16000; strangers take n0 and 13 CPUs at 0;
    j0: 1 GPU at 1, cpus_milli=4000
    => j0, log: 1: submitted, attempt 1 starts on n1[0]
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_make_way_as_the_row_says(case: Row) -> None:
    check(case)


def test_news_that_is_none_becomes_no_fact() -> None:
    scene = "live; servers 4; strangers take n0 at 1; strangers take n9[0] at 2; j0: 1 GPU at 9"
    amounts = "strangers take n0 and 3 CPUs and 2 MB at {}"
    beside = f"live; servers 4, cpus_milli=16000, memory_mb=64; {amounts.format(0)}; "
    beside += f"{amounts.format(1)}; strangers take n0 and 3 CPUs and 3 MB at 2"
    for text, told_at in ((scene, []), (beside, [0, 2])):
        taken = [one for one in played(text).events if isinstance(one, facts.GpusTaken)]
        assert [one.at_us for one in taken] == told_at
