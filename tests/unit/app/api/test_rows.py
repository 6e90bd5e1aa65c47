"""Rows of `queue`: reasons with the evidence of now, whatever the log recorded when."""

from dataclasses import replace
from typing import Any

from shunter.api import Present, queue_document
from shunter.ask import fold_events, told_apart
from shunter.backends.simulated import Costs
from shunter.cli import explained
from shunter.core import Command, DrainNode, State
from shunter.events import ClassWait, Event, NodeName, Reason, Wait, facts
from tests.factories import World, job_spec, job_submitted, servers, trace_job
from tests.replay.recording import record


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
        facts.NodeDrained(5, NodeName("n0"), "ana"),
        facts.NodeLost(6, NodeName("n2"), "heartbeat"),
        job_submitted(7, 4, at=7),
        facts.RoundPlanned(
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
