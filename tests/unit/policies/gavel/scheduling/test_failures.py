"""When there is no answer: the last targets hold, and the log says so."""

from dataclasses import dataclass

import pytest

from shunter.config import informed
from shunter.core import SubmitJob, View, run_rounds
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import ConfigError, PlanError
from shunter.events import GpuType, JobId, Reason, Wait, facts
from shunter.policies.gavel import (
    Demands,
    Fractions,
    Gavel,
    GavelPolicy,
    Isolated,
    MinCostPolicy,
    ThroughputSum,
    Timing,
)
from tests.factories import Tape, World, drive, job_spec, node_added, node_name, run, trace_job

TURN_US = 60_000_000
PLACEMENT = PLACEMENTS["consolidated"]()


@dataclass(frozen=True)
class FailsForTwo:
    """An objective that has no answer for more than one job."""

    def fractions(self, demands: Demands) -> Fractions:
        if len(demands.requests) > 1:
            raise PlanError("no target shares: the problem is infeasible")
        return Isolated().fractions(demands)


def world() -> World:
    jobs = (
        trace_job(0, lasts=4 * TURN_US),
        trace_job(1, at=TURN_US, lasts=2 * TURN_US),
    )
    return World(servers=(node_added(gpus=1),), jobs=jobs, round_us=TURN_US)


def test_last_targets_hold_and_the_problem_is_recorded() -> None:
    outcome = run(world(), GavelPolicy(FailsForTwo(), PLACEMENT, Timing(TURN_US, 10 * TURN_US)))

    before, failed, after = outcome.of(facts.TargetsSet)
    assert before.status == "ok"
    assert failed.status == "no target shares: the problem is infeasible"
    assert failed.targets == before.targets
    assert after.status == "ok"
    assert set(outcome.ends_us()) == {"j0", "j1"}


def test_state_remembers_the_problem_until_there_is_an_answer() -> None:
    told: list[str] = []

    def note(event: facts.TargetsSet, view: View) -> None:
        told.append(outcome_core[0].state.targets_status)

    by = GavelPolicy(FailsForTwo(), PLACEMENT, Timing(TURN_US, 10 * TURN_US))
    backend = world().backend()
    core, events = world().scheduler(by, instant=True, listeners=[{facts.TargetsSet: note}])
    outcome_core = [core]

    drive(run_rounds(core, backend, Tape(events)))

    assert told == ["", "no target shares: the problem is infeasible", ""]


def test_old_targets_on_a_type_that_is_lost_are_no_fault() -> None:
    """Goal: until targets are computed again, those of a lost type stop nobody elsewhere."""
    servers = (node_added(0, gpus=1, gpu_type="k80"), node_added(1, gpus=1, gpu_type="v100"))
    timing = Timing(TURN_US, 10 * TURN_US, least_us=100 * TURN_US)
    policy = GavelPolicy(Isolated(), PLACEMENT, timing)
    core, _ = World(servers=servers, jobs=(), round_us=TURN_US).scheduler(policy, instant=False)
    core.step(0, [SubmitJob(0, JobId(f"j{at}"), job_spec(), TURN_US) for at in range(4)])
    core.step(TURN_US, [facts.NodeLost(TURN_US, node_name(1), "no power")])

    events, _ = core.step(2 * TURN_US, [])

    moved = [event for event in events if isinstance(event, facts.AllocationChanged)]
    assert {share.node for event in moved for share in event.allocation.shares} == {node_name(0)}
    assert core.state.policy_fault == ""


def test_objective_of_costs_needs_prices() -> None:
    with pytest.raises(ConfigError, match=r"policy\.params\.min_cost\.prices"):
        MinCostPolicy.build(MinCostPolicy.Params(), PLACEMENT)


def test_every_gpu_type_needs_a_price_to_begin() -> None:
    params = Gavel.Params.model_validate({"objective": "min_cost", "prices": {"k80": 0.1}})

    with pytest.raises(ConfigError, match="no price of v100"):
        run(world(), Gavel.build(params, PLACEMENT))


def test_type_that_comes_later_without_a_price_is_no_end() -> None:
    demands = Demands((), {GpuType("v100"): 1}, ThroughputTable({}))

    with pytest.raises(PlanError, match="no price is known of v100"):
        ThroughputSum({GpuType("k80"): 0.1}).fractions(demands)


def test_policy_does_without_a_table() -> None:
    policy = GavelPolicy(Isolated(), PLACEMENT, Timing(TURN_US, 10 * TURN_US))

    assert informed(policy, None) is policy


@pytest.mark.parametrize(
    ("model", "waits"),
    [("heavy", [Wait(Reason.gpu_type_unavailable, 1, detail="throughput")]), ("light", [])],
)
def test_job_that_gets_on_nowhere_is_told_so_once(model: str, waits: list[Wait]) -> None:
    v100 = GpuType("v100")
    table = ThroughputTable({v100: {JobKind("light", 1): 1.0, JobKind("heavy", 1): 0.0}}, {}, v100)
    policy = GavelPolicy(Isolated(), PLACEMENT, Timing(TURN_US, 10 * TURN_US), table=table)
    core, _ = world().scheduler(policy, instant=False)
    submitted = SubmitJob(0, JobId("j7"), job_spec(model=model), TURN_US)

    events, _ = core.step(0, [submitted])
    again, _ = core.step(TURN_US, [])

    told = [event.wait for event in events if isinstance(event, facts.WaitReasonChanged)]
    assert told == waits
    assert not [event for event in again if isinstance(event, facts.WaitReasonChanged)]
