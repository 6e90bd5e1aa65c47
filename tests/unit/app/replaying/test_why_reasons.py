"""Every reason that the policies of this version give, asked for in the smallest world it has."""

import asyncio
from pathlib import Path

import pytest

from shunter.ask import clock
from shunter.ask.why import Explanation, contract_of, details, document, needs, suffices
from shunter.core import Command, DrainNode, Guards, HoldJob, QuarantineGpu, RestoreNode
from shunter.events import BACKING_OFF, Dependency, JobId, Level, NodeName, Reason, SuspendMode
from tests.factories import World, quota, servers, trace_job
from tests.replay.recording import asked, record


def why(world: World, job: str, at: int, *commands: Command, name: str = "fifo") -> Explanation:
    """Run a world, and ask for a job at an instant."""
    return asyncio.run(asked(record(world, name, *commands), job, at))


def reason_of(found: Explanation) -> str:
    assert found.waits_now is not None, f"{found.story.job_id} is {found.phase}"
    return str(found.waits_now.wait.reason)


FULL = World(
    servers=servers(4),
    jobs=(trace_job(0, 4, lasts=100), trace_job(1, 2, at=1, lasts=5)),
)


def test_a_job_that_does_not_fit_lacks_capacity() -> None:
    found = why(FULL, "j1", 50, name="fifo_backfill")

    assert reason_of(found) == "no_capacity"
    assert document(found)["evidence"]["needed"] == 2
    assert document(found)["evidence"]["blockers"][0]["id"] == "j0"
    assert found.agreement.checked
    assert found.agreement.agrees


def test_what_must_happen_at_least_is_no_promise() -> None:
    found = why(FULL, "j1", 50, name="fifo_backfill")

    ways = "others before it end, leave or fall behind it, or servers join"
    assert needs(found) == [f"2 more GPUs come free to it: {ways}"]
    assert suffices(found) == []
    one = World(
        servers=servers(4), jobs=(trace_job(0, 4, lasts=100), trace_job(1, 1, at=1, lasts=5))
    )
    assert needs(why(one, "j1", 50, name="fifo_backfill")) == [
        f"1 more GPU comes free to it: {ways}"
    ]


def test_a_job_behind_one_that_does_not_fit_is_outranked_under_strict_fifo() -> None:
    jobs = (trace_job(0, 3, lasts=100), trace_job(1, 2, at=1), trace_job(2, 1, at=2))

    found = why(World(servers=servers(4), jobs=jobs), "j2", 50)

    assert reason_of(found) == "outranked"
    assert document(found)["evidence"]["blockers"][0]["id"] == "j1"
    assert document(found)["rank"] == {
        "position": 2,
        "waiting": 2,
        "score": 0,
        "score_in_words": "is ordered by submission alone",
        "ahead": ["j1"],
        "waiting_ahead": {"jobs": 1, "gpus": 2, "left_gpu_s": 20e-6, "unknown": 0, "limited": 0},
        "running_ahead": {"jobs": 1, "gpus": 3, "left_gpu_s": 150e-6, "unknown": 0, "limited": 0},
    }


def test_a_job_of_a_lower_queue_is_outranked_under_las() -> None:
    jobs = (trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4))

    found = why(World(servers=servers(4), jobs=jobs), "j0", 32, name="las")

    assert reason_of(found) == "outranked"
    assert found.agreement.agrees


def test_free_gpus_on_the_wrong_servers_are_fragments() -> None:
    jobs = (
        trace_job(0, 2, lasts=100, shapes=((1, 1),)),
        trace_job(1, 3, at=1, shapes=((3,),)),
    )

    found = why(World(servers=servers(3, 3), jobs=jobs), "j1", 50)

    assert reason_of(found) == "fragmented"
    assert details(found)[0].endswith("n0:2 n1:2")
    assert needs(found)[0].endswith(", or it accepts another split over servers")


def test_a_queue_with_its_quota_used_up() -> None:
    jobs = (
        trace_job(0, 2, lasts=100, queue="q"),
        trace_job(1, 2, at=1, queue="q"),
    )

    found = why(World(servers=servers(8), jobs=jobs, queues=(quota("q", 2),)), "j1", 50)

    assert reason_of(found) == "quota"
    assert "2 of 2 are used" in details(found)[0]


def test_a_server_without_cpus_left() -> None:
    jobs = (
        trace_job(0, 1, lasts=100, cpus_milli=4000),
        trace_job(1, 1, at=1, cpus_milli=1000),
    )

    found = why(World(servers=servers(4, cpus_milli=4000), jobs=jobs), "j1", 50)

    assert reason_of(found) == "cpu_or_memory_short"


def test_a_gang_that_must_stay_on_one_server() -> None:
    jobs = (
        trace_job(0, 2, lasts=100, max_level=Level.server),
        trace_job(1, 2, lasts=100, max_level=Level.server),
        trace_job(2, 2, at=1, max_level=Level.server),
    )

    found = why(World(servers=servers(3, 3), jobs=jobs), "j2", 50)

    assert reason_of(found) == "locality_not_met"
    assert needs(found)[0].endswith(", or it accepts to spread further than one server")


def test_a_gpu_type_that_is_nowhere_is_infeasible() -> None:
    jobs = (trace_job(0, 1, gpu_types=("a100",)),)

    found = why(World(servers=servers(4), jobs=jobs), "j0", 0)

    assert found.phase == "rejected"
    assert "infeasible" in document(found)["headline"]
    assert "a100" in document(found)["headline"]


def test_a_job_wider_than_the_cluster_is_infeasible() -> None:
    found = why(World(servers=servers(4), jobs=(trace_job(0, 5),)), "j0", 0)

    assert document(found)["headline"] == (
        "j0 was rejected at T+00:00:00 as infeasible: it needs 5 GPUs, and there are 4 "
        "(GPUs of one type in the cluster)"
    )


def test_memory_that_can_never_fit_is_not_told_as_too_few_gpus() -> None:
    jobs = (trace_job(0, 1, memory_mb=900),)

    found = why(World(servers=servers(4, memory_mb=64), jobs=jobs), "j0", 0)

    assert document(found)["headline"] == (
        "j0 was rejected at T+00:00:00 as infeasible: it needs 1 GPU with 900 MB of memory, and "
        "no server could give that, even when empty; the most that one has is 64 MB"
    )


def test_gpus_that_are_never_near_enough_are_not_told_as_too_few() -> None:
    jobs = (trace_job(0, 4, max_level=Level.server),)

    found = why(World(servers=servers(2, 2), jobs=jobs), "j0", 0)

    assert document(found)["headline"] == (
        "j0 was rejected at T+00:00:00 as infeasible: it needs 4 GPUs within one server, and none "
        "are so, even when empty; the most in one server are 2"
    )


def test_a_minimum_runtime_that_keeps_others_in_place() -> None:
    world = World(
        servers=servers(4),
        jobs=(
            trace_job(0, 2, lasts=100),
            trace_job(1, 2, at=20, lasts=100),
            trace_job(2, 4, at=30, lasts=4),
        ),
        guards=Guards(min_runtime_us=60),
    )

    found = why(world, "j2", 40, name="las")

    assert reason_of(found) == "guard_min_runtime"
    assert needs(found) == [
        "a guard ends, the first at T+00:00:00.00006: j0, or GPUs come free otherwise"
    ]
    assert document(why(world, "j2", 70, name="las"))["would_start_if"] == [
        "nothing changes until the plan at T+00:00:00.00008, which starts it"
    ]


@pytest.mark.parametrize(
    ("priority", "only_lower", "reason"),
    [(1, True, "outranked"), (0, True, "guard_min_runtime"), (1, False, "guard_min_runtime")],
)
def test_guard_is_no_reason_where_those_it_guards_rank_first_without_it(
    priority: int, only_lower: bool, reason: str
) -> None:
    """Those that run have used GPUs, so only a priority goes before; at last as in old logs."""
    world = World(
        servers=servers(4),
        jobs=(
            trace_job(0, 2, lasts=100, priority=priority),
            trace_job(1, 2, at=20, lasts=100, priority=priority),
            trace_job(2, 4, at=30, lasts=4),
        ),
        guards=Guards(min_runtime_us=60, only_lower=only_lower),
    )
    assert reason_of(why(world, "j2", 40, name="las")) == reason


def test_a_job_that_may_never_be_suspended() -> None:
    jobs = (
        trace_job(0, 4, lasts=100, suspend_mode=SuspendMode.never),
        trace_job(1, 4, at=30, lasts=4),
    )

    found = why(
        World(servers=servers(4), jobs=jobs, guards=Guards(min_runtime_us=1)), "j1", 40, name="las"
    )

    assert reason_of(found) == "guard_preemption_limit"


def test_a_dependency_is_the_jobs_own_reason() -> None:
    jobs = (
        trace_job(0, 1, lasts=100),
        trace_job(1, 1, at=1, depends_on=(Dependency(JobId("j0")),)),
    )

    found = why(World(servers=servers(4), jobs=jobs), "j1", 50)

    assert reason_of(found) == "dependency"
    assert needs(found) == ["j0 ends well"]
    assert not found.agreement.checked


def test_a_job_that_waits_between_launches_backs_off() -> None:
    found = why(FULL, "j1", 50, HoldJob(10, JobId("j1"), BACKING_OFF))

    assert reason_of(found) == "backing_off"
    assert found.job is not None
    assert found.job.back_at_us is not None
    until = clock(found.job.back_at_us)
    assert needs(found) == [
        f"its wait between two launches is over at {until}, or it is resumed before"
    ]
    assert details(found)[0] == "its last launch failed or was lost, and the next one waits a while"


def test_a_held_job_says_who_holds_it() -> None:
    jobs = (trace_job(0, 4, lasts=100), trace_job(1, 1, at=1))

    found = why(World(servers=servers(4), jobs=jobs), "j1", 50, HoldJob(20, JobId("j1"), "ana"))

    assert reason_of(found) == "held"
    assert details(found)[0] == "it was put on hold by ana at T+00:00:00.00002"


def test_a_drained_server_is_not_told_as_lost() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 4, at=10))

    found = why(
        World(servers=servers(4, 2), jobs=jobs), "j1", 50, DrainNode(5, NodeName("n0"), "ana")
    )

    assert reason_of(found) == "node_drained"
    assert found.agreement.checked
    assert found.agreement.agrees
    assert details(found)[0] == "it needs 4 GPUs, and 2 are in service: n0 is drained"
    assert document(found)["evidence"]["blockers"] == []


def test_a_wait_for_a_drained_server_is_told_so_after_its_return() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 4, at=10))
    world = World(servers=servers(4, 2), jobs=jobs)
    drained, back = DrainNode(5, NodeName("n0"), "ana"), RestoreNode(60, NodeName("n0"), "ana")

    found = why(world, "j1", 90, drained, back)

    assert next(part.wait.reason for part in found.reasons) == Reason.node_drained
    assert Reason.node_lost not in {part.wait.reason for part in found.reasons}


def test_a_task_of_an_array_waits_for_its_turn() -> None:
    jobs = tuple(
        trace_job(number, 1, lasts=50, array="j0", array_index=number, at_once=2)
        for number in range(4)
    )

    found = why(World(servers=servers(4), jobs=jobs), "j3", 20)

    assert reason_of(found) == "array_limit"
    assert details(found)[0] == "2 tasks of array j0 may run at once, and j0, j1 come first"
    assert needs(found) == ["a task of array j0 that has its turn ends, or gives it up"]


def test_one_task_of_an_array_is_told_in_the_singular() -> None:
    jobs = tuple(
        trace_job(number, 1, lasts=50, array="j0", array_index=number, at_once=1)
        for number in range(2)
    )

    found = why(World(servers=servers(4), jobs=jobs), "j1", 20)

    assert details(found)[0] == "1 task of array j0 may run at once, and j0 comes first"


def test_a_given_curve_is_told_with_what_its_speeds_are_of() -> None:
    curve = (((4,), 1.0), ((2, 2), 0.5))
    jobs = (trace_job(0, 4, lasts=50, shape_tolerance=curve, tolerance=((Level.rack, 0.8),)),)

    found = why(World(servers=servers(4), jobs=jobs), "j0", 20)

    contract = contract_of(found)
    assert contract is not None
    assert str(contract["words"]).startswith(
        "given: speed 0.8 within one rack, 1 on 4, 0.5 on 2+2; no floor; "
    )


@pytest.mark.parametrize(("at", "reason"), [(5, "waiting_for_round"), (10, "no_capacity")])
def test_before_its_first_round_a_job_waits_for_it(at: int, reason: str) -> None:
    world = World(
        servers=servers(4),
        jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=3, lasts=5)),
        round_us=10,
    )

    assert reason_of(why(world, "j1", at, name="fifo_backfill")) == reason


def test_a_job_that_waits_for_its_round_is_told_what_it_will_find() -> None:
    world = World(servers=servers(4), jobs=(trace_job(0, 4, at=3),), round_us=10)

    found = why(world, "j0", 3)

    assert needs(found) == []
    assert suffices(found) == [
        "nothing changes until the plan at T+00:00:00.00001, which starts it"
    ]


def test_a_job_behind_another_of_its_class_has_its_reason_from_the_first() -> None:
    """No round is planned for j2, because what could help it would help j1 first."""
    world = World(
        servers=servers(4),
        jobs=(
            trace_job(0, 4, lasts=100),
            trace_job(1, 4, at=3, lasts=5),
            trace_job(2, 4, at=23, lasts=5),
        ),
        round_us=10,
    )

    found = why(world, "j2", 45, name="fifo_backfill")

    assert found.story.rounds == []
    assert reason_of(found) == "no_capacity"
    assert [str(part.wait.reason) for part in found.reasons] == ["no_capacity"]


def test_a_promise_is_told() -> None:
    jobs = (
        trace_job(0, 3, lasts=100, time_limit_us=200),
        trace_job(1, 4, at=1, time_limit_us=10),
    )

    found = why(World(servers=servers(4), jobs=jobs), "j1", 50, name="fifo_easy")

    assert details(found)[-1] == (
        "GPUs are promised to it from T+00:00:00.0002 on; the promise counts on the time limits of "
        "the jobs that have GPUs"
    )


def test_the_manual_has_a_heading_for_the_link_of_a_reason() -> None:
    page = Path(__file__).parents[4] / "docs" / "reference" / "reasons.md"
    link = document(why(FULL, "j1", 50, name="fifo_backfill"))["reason"]["manual"]
    assert f"## `{link.partition('#')[2]}`" in page.read_text()


def test_all_gpus_that_are_out_are_named_as_a_shell_takes_them() -> None:
    world = World(servers=servers(4), jobs=(trace_job(0, 4, at=10, lasts=5),))
    out = [QuarantineGpu(5, NodeName("n0"), gpu, "ana") for gpu in (0, 2)]
    short = document(why(world, "j0", 20, *out))["short"]
    releases = "`shunter nodes release 'n0[0]'`, `shunter nodes release 'n0[2]'`"
    assert releases in short["to_do"]
