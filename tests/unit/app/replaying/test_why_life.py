"""The rest of a job's life: running, preempted, moved, ended, and the split of its time."""

import asyncio
from typing import Any, NoReturn

import pytest

from shunter.ask.why import Explanation, details, document
from shunter.backends.simulated import Costs
from shunter.core import CancelJob
from shunter.errors import NotFoundError
from shunter.events import AllocationChanged, JobId, NodeLost
from tests.factories import World, servers, trace_job
from tests.replay.recording import Recorded, asked, reading, record

PREEMPTED = World(
    servers=servers(4), jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4))
)
COSTLY = World(
    servers=servers(4),
    jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4)),
    costs=Costs(start_us=2, suspend_us=3, resume_us=4, migrate_us=5),
)


def why(recorded: Recorded, job: str, at: int | None = None) -> Explanation:
    return asyncio.run(asked(recorded, job, at))


def test_a_running_job_says_where_and_by_which_decision() -> None:
    found = why(record(PREEMPTED, "las"), "j0", 10)

    said = document(found)
    assert said["headline"].startswith("j0 has been running on n0[0-3] for ")
    assert said["decision"]["rule"] == "las"
    assert said["decision"]["round"] == 0
    assert said["decision"]["where"] == "n0[0-3]"


def test_a_job_that_leaves_says_for_how_long_it_has_been_leaving() -> None:
    """It was launched at 0, and told to leave at 30, which takes it 3 us."""
    found = why(record(COSTLY, "las"), "j0", 32)
    assert document(found)["headline"] == (
        "j0 has been suspending on n0[0-3] for 2e-06s (attempt 1)"
    )


@pytest.mark.parametrize("at", [29, 31, 32, 40])
def test_a_preemption_counts_from_its_decision_on_as_in_the_queue(at: int) -> None:
    found = why(record(COSTLY, "las"), "j0", at)
    assert found.job is not None
    assert document(found)["totals"]["preemptions"] == found.job.preemptions == int(at >= 30)


def test_a_preempted_job_says_who_gained_by_which_rule_and_when() -> None:
    recorded = record(PREEMPTED, "las")

    found = why(recorded, "j0", 32)

    decision = document(found)["decision"]
    seq = recorded.seqs(AllocationChanged)[1]
    assert (decision["seq"], decision["at_us"], decision["rule"]) == (seq, 30, "outranked")
    assert decision["beneficiaries"] == ["j1"]
    assert decision["scores"] == [2]
    assert details(found)[0] == (
        "it was preempted at T+00:00:00.00003: outranked, "
        "because it had used 0.00012 GPU-seconds, so it was in the third queue, for j1"
    )


def test_the_job_that_gained_says_who_had_to_leave() -> None:
    found = why(record(PREEMPTED, "las"), "j1", 32)

    assert document(found)["decision"]["made_room"] == ["j0"]
    assert "j0 had to leave for it" in details(found)


def test_a_job_that_runs_again_says_what_ended_the_attempt_before() -> None:
    found = why(record(PREEMPTED, "las"), "j0", 40)

    assert details(found)[-1] == (
        "attempt 1 on n0[0-3] was preempted: outranked, "
        "because it had used 0.00012 GPU-seconds, so it was in the third queue, for j1"
    )


def test_a_finished_job_splits_its_time_into_waits_and_runs() -> None:
    found = why(record(PREEMPTED, "las"), "j0")

    said = document(found)
    parts = [(part["what"], part["from_us"], part["to_us"]) for part in said["timeline"]]
    assert parts == [("run", 0, 30), ("wait", 30, 34), ("run", 34, 104)]
    assert said["totals"] == {
        "wait_s": 4e-6,
        "held_s": 100e-6,
        "jct_s": 104e-6,
        "attempts": 2,
        "preemptions": 1,
    }


def test_costs_are_time_on_gpus() -> None:
    """Starting, suspending and resuming hold GPUs: 30 + 3 before, 4 + 72 after."""
    found = why(record(COSTLY, "las"), "j0")

    runs = [(run.from_us, run.to_us) for run in found.runs]
    assert runs[0] == (0, 33)
    assert found.held_us + found.waited_us == found.story.own[-1].event.at_us


@pytest.mark.parametrize("world", [PREEMPTED, COSTLY], ids=["free", "costly"])
def test_reasons_over_time_add_up_to_the_wait(world: World) -> None:
    found = why(record(world, "las"), "j0")

    assert sum(spent for _, spent in found.shares()) == found.waited_us


def test_a_job_granted_gpus_that_another_has_yet_to_leave_names_gpus_and_job() -> None:
    """j0 is told to leave at 30 and has left at 33; j1 is launched there then."""
    recorded = record(COSTLY, "las")

    said = document(why(recorded, "j1", 31))

    assert said["headline"] == "j1 was granted n0[0-3], and waits until j0 (suspending) has left it"
    assert said["reason"]["name"] == "waiting_for_release"
    assert (said["evidence"]["needed"], said["evidence"]["free"]) == (4, 0)
    blocker = said["evidence"]["blockers"][0]
    assert (blocker["id"], blocker["phase"], blocker["where"]) == ("j0", "suspending", "n0[0-3]")
    assert (said["decision"]["seq"], said["decision"]["made_room"]) == (10, ["j0"])
    assert said["needs_at_least"] == ["the GPUs that it was granted are left by j0"]
    assert [part["reason"] for part in said["reasons_over_time"]] == ["waiting_for_release"]


def test_a_wait_for_release_is_told_of_jobs_that_ended_as_well() -> None:
    said = document(why(record(COSTLY, "las"), "j1"))

    assert said["reasons_over_time"] == [
        {"reason": "waiting_for_release", "s": 3e-06, "share": 1.0}
    ]


def test_a_cancelled_job_says_who_cancelled_it() -> None:
    world = World(servers=servers(4), jobs=(trace_job(0, 4, lasts=100),))

    found = why(record(world, "fifo", CancelJob(40, JobId("j0"), "bo")), "j0")

    assert document(found)["headline"].startswith("j0 was cancelled by bo at T+00:00:00.00004")


def test_a_job_that_failed_says_its_code() -> None:
    world = World(servers=servers(4), jobs=(trace_job(0, 4, lasts=10, ends="failed"),))

    assert "failed with code 1" in document(why(record(world), "j0"))["headline"]


def test_a_job_over_its_limit_says_so() -> None:
    world = World(servers=servers(4), jobs=(trace_job(0, 4, lasts=10, time_limit_us=5),))

    found = why(record(world), "j0")

    assert found.phase == "timeout"
    assert "hit its time limit" in document(found)["headline"]


def test_an_unknown_job_is_told_the_nearest_ids() -> None:
    with pytest.raises(NotFoundError, match=r"no job 'j9'.*the nearest are j"):
        why(record(PREEMPTED), "j9")


def test_a_job_that_comes_later_says_when() -> None:
    with pytest.raises(NotFoundError, match=r"j1 was submitted at T\+00:00:00.00003 only"):
        why(record(PREEMPTED), "j1", 10)


def test_a_log_whose_policy_is_gone_is_still_explained() -> None:
    recorded = record(PREEMPTED, "las")

    def gone(started: object) -> NoReturn:
        raise NotFoundError("there is no policy 'las'")

    found = why(Recorded(recorded.events, gone), "j0", 32)

    assert document(found)["reason"]["name"] == "outranked"
    assert document(found)["planned_again"]["problem"] == "there is no policy 'las'"


def test_the_answer_does_not_depend_on_snapshots_or_frames() -> None:
    async def twice() -> list[dict[str, Any]]:
        from shunter.ask.why import explain

        recorded = record(COSTLY, "las")
        found = []
        for frame_events in (1, 1000):
            async with reading(recorded.events, frame_events) as reader:
                seq, at_us = len(recorded.events) - 3, recorded.events[-4].at_us
                answer = await explain(reader, JobId("j0"), seq, at_us, recorded.rebuild)
                found.append(document(answer))
        return found

    one, other = asyncio.run(twice())

    assert one == other


def test_a_lost_server_is_the_reason_until_the_next_round() -> None:
    from shunter.backends.simulated import Failures
    from shunter.events import NodeName

    world = World(
        servers=servers(4),
        jobs=(trace_job(0, 4, lasts=100),),
        failures=Failures(racks={NodeName("n0"): ""}, seed=1, mtbf_us=40, mttr_us=10),
        round_us=50,
        until_us=2000,
    )
    recorded = record(world)
    lost_us = recorded.at(recorded.seqs(NodeLost)[0]).at_us

    found = why(recorded, "j0", lost_us)

    assert found.waits_now is not None
    assert found.waits_now.wait.reason == "node_lost"


def test_reason_of_a_wait_of_no_length_is_the_same_whenever_it_is_asked_for() -> None:
    """j1 starts as it comes; j2 comes later, finds nothing, and its class is theirs."""
    jobs = (
        trace_job(0, 4, lasts=10),
        trace_job(1, 4, at=30, lasts=20),
        trace_job(2, 4, at=32, lasts=5),
    )
    recorded = record(World(servers=servers(4), jobs=jobs), "fifo")
    for at in (30, 31, 40, 50, 60):
        waits: Any = document(why(recorded, "j1", at))["reasons_over_time"]
        assert [each["reason"] for each in waits] == ["waiting_for_round"], at
