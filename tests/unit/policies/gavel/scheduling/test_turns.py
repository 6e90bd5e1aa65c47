"""Turns that follow targets: small worlds whose outcome can be worked out by hand."""

from typing import Any

import pytest

from shunter.backends.simulated import Costs
from shunter.core import Guards
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import GpuType, Reason, facts
from shunter.policies.gavel import OBJECTIVES, Chosen, GavelPolicy, Timing
from shunter.workloads import TraceJob
from tests.factories import Outcome, World, configuration, node_added, node_name, run, trace_job
from tests.unit.policies.plays import Play, plays

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


ONE = "rounds of 1m; servers 1"
SPEEDS = SpeedModel(
    {node_name("v"): configuration(2), node_name("k"): configuration(2, gpu_type="k80")}, {}, TABLE
)
POLICIES = {
    "gavel": gavel(),
    "isolated": gavel("isolated").knowing(TABLE),
    "sum": gavel("max_sum_throughput").knowing(TABLE),
    "long turns": GavelPolicy(
        OBJECTIVES["fifo"](Chosen()), PLACEMENTS["consolidated"](), Timing(10 * TURN_US, 10**9)
    ),
}
CASES = plays(
    f"""
equal jobs take turns, and stay where neither is behind
    under gavel; {ONE}; j0: 1 GPU for 3m; j1: 1 GPU for 3m
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 ends, j1 gets 1;
       6: j1 ends
a job of twice the weight gets twice the turns
    under gavel; {ONE}; j0: 1 GPU for 8m, weight=2; j1: 1 GPU for 4m
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 2: j1 leaves, j0 gets 1; 4: j0 leaves, j1 gets 1;
       5: j1 leaves, j0 gets 1; 7: j0 leaves, j1 gets 1; 8: j1 leaves, j0 gets 1;
       10: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
one that comes within a turn waits for its end
    under gavel; {ONE}; j0: 1 GPU for 3m; j1: 1 GPU for 1m at 10s
    => 0: j0 gets 1; 2: j0 leaves, j1 gets 1; 3: j1 ends, j0 gets 1; 4: j0 ends
a GPU that falls free within a turn is used at the next round
    under long turns; rounds of 10s; servers 1; j0: 1 GPU for 1m; j1: 1 GPU for 1m
    => 0: j0 gets 1; 1: j0 ends, j1 gets 1; 2: j1 ends
a quota bounds a queue
    under gavel; rounds of 1m; servers 2; quota a 1; j0: 1 GPU for 2m, queue=a;
    j1: 1 GPU for 2m, queue=a; j2: 1 GPU for 2m
    => 0: j0 gets 1, j2 gets 1; 1: j0 leaves, j1 gets 1; 2: j2 ends; 3: j1 ends, j0 gets 1;
       4: j0 ends
one that is guarded keeps its GPU over the end of a turn
    under gavel; {ONE}; guard min_runtime_us=2m; j0: 1 GPU for 4m; j1: 1 GPU for 4m
    => 0: j0 gets 1; 2: j0 leaves, j1 gets 1; 5: j1 leaves, j0 gets 1; 7: j0 ends, j1 gets 1;
       8: j1 ends
one without GPUs runs beside
    under gavel; {ONE}, cpus_milli=4000; j0: 1 GPU for 2m; j1: 0 GPUs for 1m, cpus_milli=1000
    => 0: j0 gets 1, j1 gets 0; 1: j1 ends; 2: j0 ends
or waits for the CPUs that a job with GPUs takes in the same plan
    under gavel; {ONE}, cpus_milli=4000; j0: 0 GPUs for 1m, cpus_milli=2000;
    j1: 1 GPU for 2m, cpus_milli=3000
    => 0: j1 gets 1; 2: j1 ends, j0 gets 0; 3: j0 ends
one that would begin anew stays where nobody wants its place, though half of each type is its
    under gavel; rounds of 1m; server 0 1, gpu_type=k80; server 1 1;
    j0: 1 GPU for 10m, suspend_mode=restart
    => 0: j0 gets 1 on 0; 10: j0 ends
""",
    POLICIES,
    TURN_US,
)
AWARE = plays(
    """
two jobs that change places do so in one plan
    under isolated; rounds of 1m; server v 1; server k 1, gpu_type=k80;
    j0: 1 GPU for 4m, model=calm; j1: 1 GPU for 4m, model=calm
    => 0: j0 gets 1 on k, j1 gets 1 on v; 1: j0 leaves, j1 leaves, j0 gets 1 on v, j1 gets 1 on k;
       3: j0 leaves, j1 leaves, j0 gets 1 on k, j1 gets 1 on v; 4.333333333: j1 ends; 4.4: j0 ends
jobs on other types than they are owed are bound by the quota
    under sum; rounds of 1m; server v 2, cpus_milli=1000; quota a 1; until 2m;
    server k 2, gpu_type=k80, cpus_milli=8000;
    j0: 1 GPU for 1m, model=keen, cpus_milli=2000, queue=a;
    j1: 1 GPU for 1m, model=keen, cpus_milli=2000, queue=a
    => 0: j0 gets 1 on k; 1: j0 leaves, j1 gets 1 on k; 2: j1 leaves, j0 gets 1 on k
""",
    POLICIES,
    TURN_US,
    speeds=SPEEDS,
)


@pytest.mark.parametrize("case", [*CASES, *AWARE], ids=str)
def test_jobs_take_turns_as_the_row_says(case: Play) -> None:
    assert case.seen() == case.sees


def starts_of(outcome: Outcome, name: str) -> list[facts.AllocationChanged]:
    changes = outcome.of(facts.AllocationChanged)
    return [each for each in changes if each.job_id == name and each.allocation.shares]


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
