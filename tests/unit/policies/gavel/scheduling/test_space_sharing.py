"""Two jobs on the same GPUs: where it pays, beside whom, and what follows when one leaves."""

from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import because_in_words
from shunter.core import AttemptExited, SubmitJob
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType, Reason, Sharing, facts
from shunter.policies.gavel import Gavel, GavelPolicy
from tests.factories import (
    Outcome,
    World,
    configuration,
    job_id,
    job_spec,
    node_added,
    node_name,
    run,
    trace_job,
)
from tests.unit.policies.plays import Play, plays

TURN_US = 60_000_000
V100 = GpuType("v100")
LIGHT, HEAVY, OTHER = JobKind("light", 1), JobKind("heavy", 1), JobKind("other", 1)
GANG = JobKind("gang", 2)
TABLE_OF_PAIRS = ThroughputTable(
    {V100: {LIGHT: 1.0, HEAVY: 1.0, OTHER: 1.0, GANG: 1.0}},
    {
        V100: {
            (LIGHT, LIGHT): (0.75, 0.75),
            (LIGHT, HEAVY): (0.25, 0.25),
            (HEAVY, LIGHT): (0.25, 0.25),
            (GANG, GANG): (0.75, 0.75),
        }
    },
    V100,
)
J0, J1, J2 = (job_id(number) for number in range(3))


def gavel(**params: Any) -> GavelPolicy:
    options = {"turn": TURN_US, "space_sharing": True, **params}
    built = Gavel.build(Gavel.Params.model_construct(**options), PLACEMENTS["consolidated"]())
    return built.knowing(TABLE_OF_PAIRS)


def played(*jobs: Any, gpus: int = 1, policy: GavelPolicy | None = None, **fields: Any) -> Outcome:
    nodes = (node_added(gpus=gpus, **fields),)
    speeds = SpeedModel(
        {node.node: node.configuration for node in nodes}, throughput=TABLE_OF_PAIRS
    )
    world = World(servers=nodes, jobs=jobs, round_us=TURN_US, speeds=speeds)
    return run(world, policy or gavel())


def shared(outcome: Outcome) -> list[facts.AllocationChanged]:
    return [
        event
        for event in outcome.of(facts.AllocationChanged)
        if event.allocation.sharing is Sharing.packed
    ]


def light(number: int, at: int = 0, lasts: int = 6, **fields: Any) -> Any:
    return trace_job(number, at=at * TURN_US, lasts=lasts * TURN_US, model="light", **fields)


ONE = "rounds of 1m; servers 1"
SIX = "1 GPU for 6m, model=light"
POLICIES = {
    "gavel": gavel(),
    "alone": gavel(space_sharing=False),
    **{name: gavel(objective=name) for name in ("makespan", "water_filling", "max_sum_throughput")},
}
TABLE = plays(
    f"""
jobs that get less done together take turns
    under gavel; {ONE}; j0: {SIX}; j1: 1 GPU for 6m, model=heavy
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 leaves, j1 gets 1;
       7: j1 leaves, j0 gets 1; 9: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
and so do those of which nobody measured the pair
    under gavel; {ONE}; j0: {SIX}; j1: 1 GPU for 6m, model=other
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 leaves, j1 gets 1;
       7: j1 leaves, j0 gets 1; 9: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
nobody shares unless it is switched on
    under alone; {ONE}; j0: {SIX}; j1: {SIX}
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 leaves, j1 gets 1;
       7: j1 leaves, j0 gets 1; 9: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
one that is joined stays, and is opened to the other: 4 of 6 are left at three quarters
    under gavel; {ONE}; j0: {SIX}; j1: {SIX.replace("6m", "6m at 2m")}
    => 0: j0 gets 1; 2: j0 shares 1, j1 shares 1; 7.333333333: j0 ends; 9.333333333: j1 ends
one whose partner ends stays where it is, and is as fast as alone
    under gavel; {ONE}; j0: {SIX.replace("6m", "3m")}; j1: {SIX}
    => 0: j0 shares 1, j1 shares 1; 4: j0 ends; 7: j1 ends
gangs share all of their GPUs
    under gavel; rounds of 1m; servers 2; j0: 2 GPUs for 6m, model=gang;
    j1: 2 GPUs for 6m, model=gang
    => 0: j0 shares 2, j1 shares 2; 8: j0 ends, j1 ends
one that must be near together is left alone
    under gavel; {ONE}; j0: {SIX}, max_level=server; j1: {SIX}
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 leaves, j1 gets 1;
       7: j1 leaves, j0 gets 1; 9: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
and so is one whose partner would have no CPUs left
    under gavel; {ONE}, cpus_milli=8000; j0: {SIX}, cpus_milli=5000; j1: {SIX}, cpus_milli=5000
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 3: j1 leaves, j0 gets 1; 5: j0 leaves, j1 gets 1;
       7: j1 leaves, j0 gets 1; 9: j0 leaves, j1 gets 1; 11: j1 ends, j0 gets 1; 12: j0 ends
by makespan jobs share too
    under makespan; {ONE}; j0: {SIX}; j1: {SIX}
    => 0: j0 shares 1, j1 shares 1; 8: j0 ends, j1 ends
by water filling
    under water_filling; {ONE}; j0: {SIX}; j1: {SIX}
    => 0: j0 shares 1, j1 shares 1; 8: j0 ends, j1 ends
and by the sum of throughputs
    under max_sum_throughput; {ONE}; j0: {SIX}; j1: {SIX}
    => 0: j0 shares 1, j1 shares 1; 8: j0 ends, j1 ends
""",
    POLICIES,
    TURN_US,
    speeds=SpeedModel({node_name(): configuration(2)}, throughput=TABLE_OF_PAIRS),
)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_share_as_the_row_says(case: Play) -> None:
    assert case.seen() == case.sees


def test_jobs_that_get_more_done_together_share_their_gpu_to_the_end() -> None:
    outcome = played(light(0), light(1))

    assert outcome.ends_us() == {"j0": 8 * TURN_US, "j1": 8 * TURN_US}
    assert [event.job_id for event in outcome.of(facts.AllocationChanged)] == ["j0", "j1"]
    assert [target.jobs for target in outcome.of(facts.TargetsSet)[0].targets] == [(J0, J1)]


def test_allocation_says_beside_whom_and_by_which_share() -> None:
    outcome = played(light(0), light(1))

    words = [because_in_words(event.because) for event in shared(outcome)]
    assert words == [
        "target share beside j1, got a 1.00 share of v100 where it was to have 1.00",
        "target share beside j0, got a 1.00 share of v100 where it was to have 1.00",
    ]


def test_three_jobs_on_one_gpu_are_never_there_at_once() -> None:
    """Each is to have two thirds of the time beside one of the others."""
    outcome = played(light(0), light(1), light(2))

    first = outcome.of(facts.TargetsSet)[0].targets
    assert [(target.jobs, round(target.fraction, 6)) for target in first] == [
        ((J0, J1), 0.333333),
        ((J1, J2), 0.333333),
        ((J0, J2), 0.333333),
    ]
    assert max(outcome.ends_us().values()) <= 13 * TURN_US
    waits = outcome.of(facts.WaitReasonChanged)
    assert {each.wait.reason for each in waits} == {Reason.share_met}, "the pair has one GPU"


def test_each_partner_has_cpus_of_its_own() -> None:
    jobs = [light(number, cpus_milli=3000 + number) for number in range(2)]
    outcome = played(*jobs, cpus_milli=8000)

    given = [share.cpus_milli for event in shared(outcome) for share in event.allocation.shares]
    assert given == [3000, 3001]


def test_objective_that_gives_whole_gpus_cannot_share_them() -> None:
    with pytest.raises(ConfigError, match="objective allox gives each job whole GPUs"):
        gavel(objective="allox")


def test_sample_of_a_job_beside_another_says_nothing_of_it_alone() -> None:
    world = World(servers=(node_added(gpus=1),), round_us=TURN_US)
    core, _ = world.scheduler(gavel(), instant=False)
    core.step(0, [SubmitJob(0, name, job_spec(model="light"), TURN_US) for name in (J0, J1)])
    core.step(1, [facts.AttemptStarted(1, name, 1) for name in (J0, J1)])
    sample = facts.ProfileSampled(2, J0, 1, step=5, batch_s=4.0)

    core.step(2, [sample])
    assert core.memory.measured.rates == {}
    core.step(3, [AttemptExited(3, J1, 1, 0, released=True)])
    core.step(4, [replace(sample, at_us=4)])

    assert core.memory.measured.rates == {J0: {V100: 0.25}}


def test_sample_of_a_job_beside_another_says_what_its_kind_keeps_there() -> None:
    """The table says that both keep three quarters; what is measured parts them."""
    world = World(servers=(node_added(gpus=1),), round_us=TURN_US)
    core, _ = world.scheduler(gavel(), instant=False)
    core.step(0, [SubmitJob(0, name, job_spec(model="light"), TURN_US) for name in (J0, J1)])
    core.step(1, [facts.AttemptStarted(1, name, 1) for name in (J0, J1)])
    assert core.state.jobs[J0].allocation.sharing is Sharing.packed

    core.step(2, [facts.ProfileSampled(2, J0, 1, step=5, batch_s=1.25)])
    assert not core.memory.measured.kept_used  # four fifths are as good as three quarters
    core.step(3, [facts.ProfileSampled(3, J1, 1, step=5, batch_s=5.0)])
    core.step(TURN_US, [])

    assert core.memory.measured.kept_used == {("v100", "light", "light", "1"): pytest.approx(0.65)}
    assert core.state.targets


@pytest.mark.parametrize("batch_s", [4.0, 1.0])
def test_pairs_of_a_kind_follow_what_was_measured(batch_s: float) -> None:
    """Two jobs that keep a quarter do better in turns; two that keep everything stay."""
    world = World(servers=(node_added(gpus=1),), round_us=TURN_US)
    core, _ = world.scheduler(gavel(), instant=False)
    core.step(0, [SubmitJob(0, name, job_spec(model="light"), TURN_US) for name in (J0, J1)])
    core.step(1, [facts.AttemptStarted(1, name, 1) for name in (J0, J1)])

    for at_us in (2, 3):
        core.step(at_us, [facts.ProfileSampled(at_us, J0, 1, step=at_us, batch_s=batch_s)])
    core.step(TURN_US, [])

    together = [target for target in core.state.targets if len(target.jobs) == 2]
    assert bool(together) is (batch_s == 1.0)
