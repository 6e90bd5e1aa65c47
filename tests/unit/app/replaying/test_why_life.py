"""The rest of a job's life: running, preempted, moved, ended, and the split of its time."""

import asyncio
from typing import Any, NoReturn

import pytest

from shunter.ask.why import Explanation, contract_of, document
from shunter.backends.simulated import Costs
from shunter.core import CancelJob
from shunter.errors import NotFoundError
from shunter.events import JobId, Level, NodeLost
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


def test_a_given_curve_is_told_with_what_its_speeds_are_of() -> None:
    curve = (((4,), 1.0), ((2, 2), 0.5))
    jobs = (trace_job(0, 4, lasts=50, shape_tolerance=curve, tolerance=((Level.rack, 0.8),)),)

    found = why(record(World(servers=servers(4), jobs=jobs)), "j0", 20)

    contract = contract_of(found)
    assert contract is not None
    assert str(contract["words"]).startswith(
        "given: speed 0.8 within one rack, 1 on 4, 0.5 on 2+2; no floor; "
    )
