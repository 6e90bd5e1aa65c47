"""Rows of `queue`: reasons with the evidence of now, whatever the log recorded when."""

import asyncio
from dataclasses import replace
from typing import Any

from shunter.api import Present, queue_document
from shunter.ask import fold_events, state_document, told_apart, wait_to_count
from shunter.ask.why import document, rank_lines
from shunter.backends.simulated import Costs
from shunter.cli import clause, explained
from shunter.core import Command, DrainNode, QuarantineGpu, State
from shunter.events import (
    ARRAY,
    ClassWait,
    Event,
    JobHeld,
    JobSubmitted,
    NodeDrained,
    NodeLost,
    NodeName,
    Reason,
    RoundPlanned,
    Wait,
)
from tests.factories import World, job_id, job_spec, job_submitted, quota, servers, trace_job
from tests.replay.recording import asked, record


def state_at(world: World, at_us: int, *commands: Command, name: str = "fifo_backfill") -> State:
    """Return the fold of a run up to an instant."""
    return folded([e for e in record(world, name, *commands).events if e.at_us <= at_us])


def folded(events: list[Event]) -> State:
    state = State()
    fold_events(state, events)
    return state


def rows(state: State, present: Present | None = None) -> dict[str, dict[str, Any]]:
    waiting = [job.job_id for job in state.jobs.values() if job.is_eligible]
    ranks = {job: rank for rank, job in enumerate(waiting, 1)}
    found = queue_document(state, state.jobs.values(), str, now="", ranks=ranks, present=present)
    return {row["id"]: row for row in found["jobs"]}


def test_a_blocker_that_has_ended_is_not_named() -> None:
    """j0 and j1 blocked j2 when its reason was recorded; j0 has ended, and it still waits."""
    jobs = (
        trace_job(0, 1, lasts=10),
        trace_job(1, 3, lasts=90),
        trace_job(2, 4, at=2),
        trace_job(3, 4, at=3),
    )
    state = state_at(World(servers=servers(4), jobs=jobs), 20)
    assert "j0" in next(iter(state.class_waits.values())).blockers

    reason = rows(state)["j3"]["reason"]

    assert reason["blockers"] == ["j1"]
    assert (reason["needed"], reason["free"]) == (4, 1)


def test_what_a_launch_waits_for_is_told_and_service_is_that_of_now() -> None:
    """j0 trains, j1 waits in somebody else's queue; nothing has happened for five seconds."""
    costs = Costs(start_us=10)
    jobs = (trace_job(0, 1, lasts=90), trace_job(1, 2, at=20, lasts=90))
    state = state_at(World(servers=servers(4), jobs=jobs, costs=costs), 25)
    waits = "waiting for Slurm to start job 7, asked 5 s ago (Resources)"
    past = rows(state)

    now = rows(state, Present(state.now_us + 5_000_000, lambda job: waits))

    assert [past[job]["launch_wait"] for job in ("j0", "j1")] == ["", ""]
    assert [now[job]["launch_wait"] for job in ("j0", "j1")] == ["", waits]
    assert now["j0"]["service_gpu_s"] == past["j0"]["service_gpu_s"] + 5
    assert explained(list(now.values())) == [f"j1: {waits}"]


def test_row_says_which_cpus_and_memory_a_job_has() -> None:
    there = servers(4, cpus_milli=8000, memory_mb=400)
    jobs = (trace_job(0, 1, cpus_milli=1500, memory_mb=100, lasts=90), trace_job(1, 4, lasts=90))

    found = rows(state_at(World(servers=there, jobs=jobs), 10))

    assert (found["j0"]["cpus_held"], found["j0"]["memory_mb_held"]) == (1.5, 100)
    assert (found["j1"]["cpus_held"], found["j1"]["memory_mb_held"]) == (0, 0)


def test_a_granted_job_names_who_has_yet_to_leave_its_gpus() -> None:
    world = World(
        servers=servers(4),
        jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4)),
        costs=Costs(start_us=2, suspend_us=3, resume_us=4),
    )

    state = state_at(world, 31, name="las")
    row = rows(state)["j1"]

    assert (row["state"], row["reason"]["name"]) == ("granted", "waiting_for_release")
    assert clause(row["reason"]) == (
        "it was granted GPUs that others have yet to leave; needs 4, 0 free; held back by j0"
    )
    assert row["since_at"] == "30"
    counted = {job.job_id: wait_to_count(job, state) for job in state.jobs.values()}
    assert {name: wait and wait.reason.value for name, wait in counted.items()} == {
        "j0": None,
        "j1": "waiting_for_release",
    }


def test_the_waiting_job_that_must_not_be_overtaken_is_named_to_those_behind_it() -> None:
    jobs = (trace_job(0, 3, lasts=100), trace_job(1, 2, at=1), trace_job(2, 1, at=2))

    found = rows(state_at(World(servers=servers(4), jobs=jobs), 50, name="fifo"))

    assert found["j2"]["reason"]["blockers"] == ["j1", "j0"]
    assert found["j1"]["reason"]["blockers"] == ["j0"]


def test_a_drained_server_is_not_told_as_lost() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 4, at=10))
    drain = DrainNode(5, NodeName("n0"), "ana")

    state = state_at(World(servers=servers(4, 2), jobs=jobs), 50, drain)
    reason = rows(state)["j1"]["reason"]

    assert reason["name"] == "node_drained"
    assert state_document(state)["queue"]["reasons"] == {"node_drained": 1}
    assert clause(reason) == "too few GPUs are in service; needs 4, 1 free; n0 is drained"


def test_gpu_that_is_set_aside_on_a_healthy_server_is_not_told_as_a_lost_server() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 4, at=10))
    aside = QuarantineGpu(5, NodeName("n0"), 3, "ana")

    state = state_at(World(servers=servers(4), jobs=jobs), 50, aside)
    reason = rows(state)["j1"]["reason"]

    assert reason["name"] == "gpus_quarantined"
    assert clause(reason).endswith(
        "too few GPUs are in service; needs 4, 2 free; GPU 3 of n0 is set aside"
    )


def test_type_of_which_all_servers_are_drained_is_not_told_as_missing() -> None:
    """Some policies record `gpu_type_unavailable` where no server of a type takes jobs."""
    drained = state_at(World(servers=servers(4)), 50, DrainNode(5, NodeName("n0"), "ana")).cluster
    wait = Wait(Reason.gpu_type_unavailable, 2)
    assert told_apart(wait, (), drained) is Reason.node_drained
    assert told_apart(replace(wait, detail="throughput"), (), drained) is wait.reason
    assert told_apart(wait, ("k80",), drained) is wait.reason
    assert told_apart(wait, (), state_at(World(servers=servers(4)), 50).cluster) is wait.reason


def test_a_lost_server_beside_a_drained_one_is_told_as_lost() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 4, at=10))
    state = state_at(World(servers=servers(4, 2, 4), jobs=jobs), 4)
    for event in (
        NodeDrained(5, NodeName("n0"), "ana"),
        NodeLost(6, NodeName("n2"), "heartbeat"),
        job_submitted(7, 4, at=7),
        RoundPlanned(
            7,
            1,
            0,
            state.seq + 3,
            waits=(ClassWait(job_spec(4).demand(), Wait(Reason.node_lost, 4, 1)),),
        ),
    ):
        fold_events(state, [event])

    reason = rows(state)["j7"]["reason"]

    assert reason["name"] == "node_lost"
    assert reason["detail"] == "n0 is drained, n2 is lost"


def test_a_task_that_waits_for_its_turn_waits_for_no_dependency() -> None:
    spec = {"array": job_id(0), "at_once": 1}
    events: list[Event] = [
        *servers(4),
        *(JobSubmitted(0, job_id(n), job_spec(1, array_index=n, **spec)) for n in range(2)),
        JobHeld(0, job_id(1), ARRAY),
    ]
    state = folded(events)

    reason = rows(state)["j1"]["reason"]

    assert reason["name"] == "array_limit"
    assert clause(reason) == "it is not its turn in its array; 1 task of its array may run at once"
    assert state_document(state)["queue"]["reasons"] == {"array_limit": 1, "waiting_for_round": 1}


def test_equal_sentences_are_told_once() -> None:
    state = folded([*servers(4), *(job_submitted(number) for number in range(12))])
    found = list(rows(state).values())

    assert explained(found) == [
        "j0, j1, j2, j3, j4, j5, j6, j7 and 4 more: ranks 1 to 12; the next round decides"
    ]


def test_jobs_with_reasons_of_their_own_keep_their_sentence() -> None:
    jobs = (trace_job(0, 3, lasts=100), trace_job(1, 2, at=1), trace_job(2, 1, at=2))
    found = list(rows(state_at(World(servers=servers(4), jobs=jobs), 50, name="fifo")).values())

    assert explained(found) == [
        "j1: rank 1; too few GPUs are free; needs 2, 1 free; held back by j0",
        "j2: rank 2; others come first; needs 1, 1 free; held back by j1, j0",
    ]


FULL_QUOTA = World(
    servers=servers(8, cpus_milli=64_000),
    queues=(quota("research", 2), quota("default", None)),
    jobs=(
        trace_job(0, 2, lasts=100, queue="research"),
        *(trace_job(number, 1, at=number, lasts=100) for number in range(1, 5)),
        trace_job(5, 2, at=5, queue="research"),
    ),
)
WITHOUT_GPUS = World(
    servers=servers(4, cpus_milli=64_000),
    jobs=(
        trace_job(0, 3, lasts=100),
        *(trace_job(each, 0, at=each, lasts=100, cpus_milli=1000) for each in range(1, 5)),
        trace_job(5, 4, at=5),
    ),
)


def named_by_both(world: World, job: str) -> tuple[list[str], list[str]]:
    """Return whom the queue names as blockers of a job, and whom `why` does."""
    row: dict[str, Any] = rows(state_at(world, 50))[job]
    found = document(asyncio.run(asked(record(world, "fifo_backfill"), job, 50)))
    return row["reason"]["blockers"], [each["id"] for each in found["evidence"]["blockers"]]


def test_quota_is_held_by_jobs_of_its_queue_alone() -> None:
    assert named_by_both(FULL_QUOTA, "j5") == (["j0"], ["j0"])


def test_jobs_without_gpus_hold_no_gpus() -> None:
    assert named_by_both(WITHOUT_GPUS, "j5") == (["j0"], ["j0"])
    found = asyncio.run(asked(record(WITHOUT_GPUS, "fifo_backfill"), "j5", 50))
    (ahead,) = [line for line in rank_lines(found) if line.startswith("ahead on GPUs")]
    assert ahead.startswith("ahead on GPUs: 1 job on 3 GPUs")


def test_jobs_without_gpus_hold_cpus() -> None:
    world = World(
        servers=servers(4, cpus_milli=4000),
        jobs=(
            trace_job(0, 0, lasts=100, cpus_milli=3000),
            trace_job(1, 2, at=1, cpus_milli=2000),
        ),
    )
    queue, why = named_by_both(world, "j1")
    assert rows(state_at(world, 50))["j1"]["reason"]["name"] == "cpu_or_memory_short"
    assert (queue, why) == (["j0"], ["j0"])
