"""Turns that follow targets: small worlds whose outcome can be worked out by hand."""

from itertools import pairwise
from typing import Any

from shunter.backends.simulated import Costs
from shunter.core import Guards
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import GpuType, Reason, SuspendMode, facts
from shunter.policies.gavel import OBJECTIVES, Chosen, GavelPolicy, Timing
from shunter.workloads import TraceJob
from tests.factories import Outcome, World, node_added, quota, run, trace_job

TURN_US = 60_000_000
K80, V100 = GpuType("k80"), GpuType("v100")
TABLE = ThroughputTable(
    {
        V100: {JobKind("keen", 1): 10.0, JobKind("calm", 1): 1.2},
        K80: {JobKind("keen", 1): 1.0, JobKind("calm", 1): 1.0},
    },
    base_type=V100,
)


def gavel(objective: str = "max_min_fairness", **chosen: Any) -> GavelPolicy:
    made = OBJECTIVES[objective](Chosen(**chosen))
    return GavelPolicy(made, PLACEMENTS["consolidated"](), Timing(TURN_US, 10 * TURN_US))


def job(name: str | int, minutes: int, **fields: Any) -> TraceJob:
    return trace_job(name, at=fields.pop("at", 0), lasts=minutes * 60_000_000, **fields)


def on_one_gpu(*jobs: TraceJob, **fields: Any) -> World:
    return World(servers=(node_added(gpus=1),), jobs=jobs, round_us=TURN_US, **fields)


def starts_of(outcome: Outcome, name: str) -> list[facts.AllocationChanged]:
    changes = outcome.of(facts.AllocationChanged)
    return [each for each in changes if each.job_id == name and each.allocation.shares]


def test_equal_jobs_take_turns_and_stay_where_neither_is_behind() -> None:
    outcome = run(on_one_gpu(job(0, 3), job(1, 3)), gavel())

    assert [each.at_us // TURN_US for each in starts_of(outcome, "j0")] == [0, 3]
    assert [each.at_us // TURN_US for each in starts_of(outcome, "j1")] == [1, 5]


def test_job_of_twice_the_weight_gets_twice_the_turns() -> None:
    outcome = run(on_one_gpu(job(0, 8, weight=2.0), job(1, 4)), gavel())

    assert outcome.ends_us()["j0"] == 12 * TURN_US or outcome.ends_us()["j1"] == 12 * TURN_US
    assert min(outcome.ends_us().values()) >= 11 * TURN_US


def test_job_that_comes_within_a_turn_waits_for_its_end() -> None:
    late = job(1, 1, at=10_000_000)

    outcome = run(on_one_gpu(job(0, 3), late), gavel())

    assert starts_of(outcome, "j1")[0].at_us in (TURN_US, 2 * TURN_US)


def test_gpu_that_falls_free_within_a_turn_is_used_at_the_next_round() -> None:
    world = World(
        servers=(node_added(gpus=1),),
        jobs=(job(0, 1), job(1, 1)),
        round_us=TURN_US // 6,
    )
    policy = GavelPolicy(
        OBJECTIVES["fifo"](Chosen()), PLACEMENTS["consolidated"](), Timing(10 * TURN_US, 10**9)
    )

    outcome = run(world, policy)

    assert outcome.ends_us() == {"j0": TURN_US, "j1": 2 * TURN_US}


def test_nothing_is_planned_while_everybody_is_where_it_is_to_stay() -> None:
    outcome = run(on_one_gpu(job(0, 100)), gavel())

    assert len(outcome.of(facts.RoundPlanned)) <= 3


def aware_world(*jobs: TraceJob) -> World:
    nodes = (node_added("v", 1, gpu_type="v100"), node_added("k", 1, gpu_type="k80"))
    speeds = SpeedModel({node.node: node.configuration for node in nodes}, {}, TABLE)
    return World(servers=nodes, jobs=jobs, round_us=TURN_US, speeds=speeds)


def test_job_that_gains_most_from_the_fast_type_gets_it() -> None:
    jobs = job("keen", 60, model="keen"), job("calm", 60, model="calm")

    outcome = run(aware_world(*jobs), gavel("max_sum_throughput").knowing(TABLE))

    first = outcome.of(facts.TargetsSet)[0]
    shares = {(*target.jobs, target.gpu_type): target.fraction for target in first.targets}
    assert shares["keen", V100] > 0.9
    assert shares["calm", K80] > 0.9


def test_agnostic_shares_divide_every_type_alike() -> None:
    jobs = job("keen", 60, model="keen"), job("calm", 60, model="calm")

    outcome = run(aware_world(*jobs), gavel(aware=False).knowing(TABLE))

    assert {round(target.fraction, 6) for target in outcome.of(facts.TargetsSet)[0].targets} == {
        0.5
    }


def test_two_jobs_that_change_places_do_so_in_one_plan() -> None:
    jobs = job(0, 4, model="calm"), job(1, 4, model="calm")

    outcome = run(aware_world(*jobs), gavel("isolated").knowing(TABLE))

    assert outcome.of(facts.PlanRejected) == []
    nodes = {change.allocation.shares[0].node for change in starts_of(outcome, "j0")}
    assert nodes == {"v", "k"}


def test_quota_bounds_a_queue() -> None:
    world = World(
        servers=(node_added(gpus=2),),
        jobs=(job(0, 2, queue="a"), job(1, 2, queue="a"), job(2, 2)),
        queues=(quota("a", 1),),
        round_us=TURN_US,
    )

    outcome = run(world, gavel())

    assert outcome.of(facts.PlanRejected) == []
    assert max(outcome.ends_us()["j0"], outcome.ends_us()["j1"]) == 4 * TURN_US


def two_types_without_cpus_on_one(**fields: Any) -> World:
    """Return a world whose jobs are to go to the fast type, which has the GPUs and no CPUs."""
    nodes = (
        node_added("v", 2, gpu_type="v100", cpus_milli=1_000),
        node_added("k", 2, gpu_type="k80", cpus_milli=8_000),
    )
    speeds = SpeedModel({node.node: node.configuration for node in nodes}, {}, TABLE)
    return World(servers=nodes, round_us=TURN_US, speeds=speeds, **fields)


def test_job_without_a_place_on_the_type_it_is_owed_runs_on_another() -> None:
    world = two_types_without_cpus_on_one(jobs=(job(0, 1, model="keen", cpus_milli=4_000),))

    outcome = run(world, gavel("max_sum_throughput").knowing(TABLE))

    (start,) = starts_of(outcome, "j0")
    assert outcome.of(facts.TargetsSet)[0].targets[0].gpu_type == V100
    assert (start.at_us, start.allocation.shares[0].node) == (0, "k")
    assert start.because.rule == "spare_gpus"


def test_jobs_on_other_types_than_they_are_owed_are_bound_by_the_quota() -> None:
    jobs = tuple(job(n, 1, model="keen", cpus_milli=2_000, queue="a") for n in range(2))
    world = two_types_without_cpus_on_one(jobs=jobs, queues=(quota("a", 1),))

    outcome = run(world, gavel("max_sum_throughput").knowing(TABLE))

    assert outcome.of(facts.PlanRejected) == []
    first_us = [starts_of(outcome, name)[0].at_us for name in ("j0", "j1")]
    assert sorted(first_us) == [0, TURN_US]


def test_guarded_job_keeps_its_gpu_over_the_end_of_a_turn() -> None:
    world = on_one_gpu(job(0, 4), job(1, 4), guards=Guards(min_runtime_us=2 * TURN_US))

    outcome = run(world, gavel())

    assert outcome.of(facts.PlanRejected) == []
    left_us = [
        each.at_us for each in outcome.of(facts.AllocationChanged) if not each.allocation.shares
    ]
    assert left_us[0] == starts_of(outcome, "j1")[0].at_us == 2 * TURN_US
    assert all(later - sooner >= 2 * TURN_US for sooner, later in pairwise(left_us))


def test_job_without_gpus_runs_beside() -> None:
    world = World(
        servers=(node_added(gpus=1, cpus_milli=4_000),),
        jobs=(job(0, 2), job(1, 1, gpus=0, cpus_milli=1_000)),
        round_us=TURN_US,
    )

    assert run(world, gavel()).ends_us() == {"j0": 2 * TURN_US, "j1": TURN_US}


def test_job_without_gpus_waits_for_the_cpus_that_a_job_with_gpus_takes_in_the_same_plan() -> None:
    world = World(
        servers=(node_added(gpus=1, cpus_milli=4_000),),
        jobs=(job(0, 1, gpus=0, cpus_milli=2_000), job(1, 2, cpus_milli=3_000)),
        round_us=TURN_US,
    )

    outcome = run(world, gavel())

    assert outcome.of(facts.PlanRejected) == []
    assert outcome.ends_us() == {"j1": 2 * TURN_US, "j0": 3 * TURN_US}


def test_waiting_job_is_told_what_it_got_of_its_share() -> None:
    outcome = run(on_one_gpu(job(0, 3), job(1, 3)), gavel())

    told = outcome.of(facts.WaitReasonChanged)[0]
    assert told.job_id == "j1"
    assert told.wait.reason in {Reason.time_sliced, Reason.share_met}
    kind, gpu_type, target, received = told.wait.detail.split(":")
    assert (kind, gpu_type, float(target)) == ("share", "v100", 0.5)
    assert 0 <= float(received) <= 0.5


def test_preempted_job_is_told_its_share_and_who_gains() -> None:
    outcome = run(on_one_gpu(job(0, 3), job(1, 3)), gavel())

    left = next(each for each in outcome.of(facts.AllocationChanged) if not each.allocation.shares)
    assert left.because.rule in {"share_met", "time_sliced"}
    assert left.because.detail == "v100"
    assert left.because.scores[0] == 0.5
    assert left.because.beneficiaries == ("j1",)


def test_turn_begins_once_a_start_that_takes_longer_than_a_turn_is_over() -> None:
    """Before, whoever was started was sent away in its start-up, and nobody got anywhere."""
    costs = Costs(start_us=3 * TURN_US // 2, resume_us=3 * TURN_US // 2)
    world = on_one_gpu(
        job(0, 3), job(1, 3), costs=costs, guards=Guards(launches_first=True), until_us=60 * TURN_US
    )
    outcome = run(world, gavel())

    assert sorted(outcome.ends_us()) == ["j0", "j1"]
    began = {(one.job_id, one.attempt): one.at_us for one in outcome.of(facts.AttemptStarted)}
    assert outcome.of(facts.JobSuspended)
    for left in outcome.of(facts.JobSuspended):
        assert left.at_us - began[left.job_id, left.attempt] >= TURN_US


def test_job_that_would_begin_anew_stays_where_nobody_wants_its_place() -> None:
    """Its targets are halves of two types, between which others go to and fro."""
    nodes = (node_added(0, 1, gpu_type="k80"), node_added(1, 1, gpu_type="v100"))
    alone = trace_job(0, lasts=10 * TURN_US, suspend_mode=SuspendMode.restart)
    outcome = run(World(servers=nodes, jobs=(alone,), round_us=TURN_US), gavel())
    assert len(outcome.of(facts.AllocationChanged)) == 1
    assert outcome.ends_us() == {"j0": 10 * TURN_US}
