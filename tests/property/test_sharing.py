"""Any packing of simulated jobs: all work is done, once, and the scheduler knows how much.

A careless policy puts jobs beside each other, suspends and moves them at random; costs, failures
and people do the rest.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from shunter.backends.simulated import Costs, Failures, Lease, Progress, RoundEnds
from shunter.core import (
    Change,
    Job,
    JobPhase,
    Move,
    Pack,
    Plan,
    Rng,
    Scheduler,
    Start,
    State,
    Suspend,
    View,
)
from shunter.core.fold import apply, replay
from shunter.core.planning import RoundRules
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import (
    Allocation,
    Because,
    GpuType,
    JobFinished,
    PlanRejected,
    RoundPlanned,
    Share,
    Sharing,
    SpeedChanged,
    encode_record,
)
from tests.doubted import doubted
from tests.factories import (
    POLICY_NAMES,
    Outcome,
    World,
    las_policy,
    node_name,
    policy,
    run,
    servers,
    trace_job,
)
from tests.property.invariants import check_state
from tests.slices import searched
from tests.stateless import Stateless

BECAUSE = Because("careless")
V100 = GpuType("v100")
KINDS = [JobKind(model, gpus) for model in "ab" for gpus in (1, 2)]
TABLE = ThroughputTable(
    {V100: dict.fromkeys(KINDS, 1.0)},
    {
        V100: {
            (one, other): (0.75, 0.5) if one < other else (0.5, 0.75)
            for one in KINDS
            for other in KINDS
            if one.model != other.model
        }
    },
    V100,
)


@dataclass(frozen=True)
class Careless(Stateless):
    """Does something to every third job or so, and lets company in wherever it can."""

    name: str = "careless"
    version: str = "1"
    oracle: bool = False

    def plan(self, memory: None, view: View, rng: Rng) -> Plan:
        changes: list[Change] = []
        for job in view.jobs.values():
            if not job.allocation.shares:
                if job.is_eligible:
                    changes.append(Start(job.job_id, _somewhere(job, view, rng), BECAUSE))
            elif rng.below(3) == 0:
                changes.append(_shaken(job, view, rng))
        return Plan(tuple(changes))


def _somewhere(job: Job, view: View, rng: Rng) -> Allocation:
    nodes = list(view.cluster.servers.values())
    server = nodes[rng.below(len(nodes))]
    first = rng.below(max(1, server.configuration.gpus - job.spec.gpus + 1))
    mask = (1 << job.spec.gpus) - 1 << first
    return Allocation((Share(server.name, mask),), list(Sharing)[rng.below(2)])


def _shaken(job: Job, view: View, rng: Rng) -> Change:
    kind = rng.below(4)
    if kind == 0:
        return Suspend(job.job_id, BECAUSE)
    if kind == 1 and job.phase in (JobPhase.running, JobPhase.launching):
        return Move(job.job_id, _somewhere(job, view, rng), BECAUSE)
    return Pack(job.job_id, Allocation(job.allocation.shares, Sharing.packed), BECAUSE)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = servers(*draw(st.lists(st.integers(2, 4), min_size=1, max_size=2)))
    jobs = [
        trace_job(
            number,
            draw(st.integers(1, 2)),
            at=number,
            lasts=draw(st.integers(1, 60)),
            model=draw(st.sampled_from("abc")),
        )
        for number in range(draw(st.integers(2, 7)))
    ]
    cost = st.integers(0, 3)
    by_gangs = draw(st.integers(0, 3)) == 0
    failing = not by_gangs and draw(st.integers(0, 3)) == 0
    return World(
        servers=nodes,
        jobs=tuple(jobs),
        round_us=draw(st.integers(5, 12)),
        costs=draw(st.one_of(st.just(Costs()), st.builds(Costs, cost, cost, cost, cost))),
        failures=Failures({node_name(0): ""}, 5, 50, 10) if failing else Failures(),
        lease=Lease(Progress.continuous, round_ends=RoundEnds.last_gang, round_us=9)
        if by_gangs
        else Lease(),
        backend_rounds=by_gangs,
        speeds=SpeedModel({node.node: node.configuration for node in nodes}, throughput=TABLE),
        until_us=900,
    )


def played(world: World) -> Outcome:
    return run(world, Careless())


@searched(150)
@given(worlds())
def test_scheduler_knows_the_work_of_every_job_that_ends(world: World) -> None:
    """Each change of speed rounds down, by less than a microsecond.

    In rounds of gangs a job that is done may stay for its partner, and seem to do more.
    """
    state, changes = State(), dict[str, int]()
    lasts = {job.job_id: job.duration_us for job in world.jobs}
    outcome = played(world)
    for event in outcome.events:
        if isinstance(event, JobFinished):
            done_us = state.jobs[event.job_id].done_us(event.at_us)
            missed_us = lasts[event.job_id] - done_us
            assert world.backend_rounds or missed_us >= -1, event
            assert missed_us <= 1 + changes.get(event.job_id, 0), event
        if isinstance(event, RoundPlanned):
            check_state(state)
        apply(state, event)
        job_id = getattr(event, "job_id", None)
        if job_id is not None:
            changes[job_id] = changes.get(job_id, 0) + 1
    assert encode_record(state) == encode_record(outcome.state)


@pytest.mark.parametrize("busy", [SpeedChanged, JobFinished])
def test_worlds_have_what_the_laws_are_tried_on(busy: type) -> None:
    jobs = tuple(trace_job(number, 1, lasts=40, model="ab"[number % 2]) for number in range(6))
    nodes = servers(2)
    speeds = SpeedModel({node.node: node.configuration for node in nodes}, throughput=TABLE)
    outcome = played(World(servers=nodes, jobs=jobs, round_us=5, speeds=speeds, until_us=900))
    assert sum(isinstance(event, busy) for event in outcome.events) > 5


@searched(20)
@given(worlds(), st.sampled_from(POLICY_NAMES))
def test_index_policy_that_takes_over_plans_nothing_that_is_refused(
    world: World, name: str
) -> None:
    """GPUs of a victim with a partner that stays are not free."""
    events = played(world).events
    for cut, event in enumerate(events):
        if isinstance(event, RoundPlanned) and not world.backend_rounds:
            state = replay(events[:cut])
            chosen = las_policy() if name == "las" else policy(name)
            core = Scheduler(doubted(chosen), RoundRules(world.round_us), state)
            planned, _ = core.step((state.now_us // world.round_us + 1) * world.round_us, ())
            assert [each for each in planned if isinstance(each, PlanRejected)] == []
            check_state(core.state)
