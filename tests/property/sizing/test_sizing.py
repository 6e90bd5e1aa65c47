"""What holds of sized jobs in every small world, whatever happens in it."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import Job, JobPhase, Observers, Plan, Rng, Start, State, Suspend, View
from shunter.core.planning import Consolidated, FirstFit, Placement, Spread
from shunter.core.ranking import Misfit, RankedPolicy, Ranking
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    JobId,
    JobReshaped,
    PlanRejected,
    Reason,
    Resources,
    RoundPlanned,
    SizesSet,
    SpeedChanged,
)
from shunter.policies import HighsSolver, fairness, fifo, las, shortest
from tests.commanded import Commanded
from tests.factories import Outcome, World, needs_highs, node_added, run, trace_job
from tests.property.invariants import check_resources
from tests.property.worlds import Scene, scenes, shown
from tests.replay.recording import decided_again
from tests.slices import searched

TABLE = SensitivityTable(
    {
        "hungry": {
            1: Sensitivity(
                (1000, 3000, 6000), (5, 10, 20), ((0.1, 0.3, 0.3), (0.2, 1, 1), (0.2, 2, 3))
            ),
            2: Sensitivity((1000, 3000, 6000), (10, 20), ((0.3, 0.3), (1, 1), (1.5, 1.5))),
        },
        "modest": {1: Sensitivity((500, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))},
    },
    Resources(0, 3000, 10),
)
INDEXES: dict[str, Any] = {
    "fifo": fifo.SubmissionOrder("fifo", Misfit.stops),
    "fifo_easy": fifo.SubmissionOrder("fifo_easy", Misfit.reserved),
    "fifo_backfill": fifo.SubmissionOrder("fifo_backfill", Misfit.skipped),
    "las": las.AttainedService((20, 60)),
    "srtf": shortest.RemainingTime(),
    "drf": fairness.DominantShare().knowing(TABLE),
    "tetris": shortest.RemainingVolume().knowing(TABLE),
}
_PINNED = (Reason.guard_min_runtime, Reason.guard_preemption_limit, Reason.quota)
_PLACED = (JobPhase.granted, JobPhase.launching, JobPhase.running)
PLACEMENTS: st.SearchStrategy[Placement] = st.sampled_from([Consolidated(), Spread(), FirstFit()])


@dataclass(frozen=True)
class Case:
    """A scene whose servers have CPUs and memory, and whose jobs have models."""

    scene: Scene
    placement: Placement
    asked: bool

    def __repr__(self) -> str:
        return f"{shown(self.scene)}, {type(self.placement).__name__}"

    def played(self, chosen: Any, listeners: tuple[Observers, ...] = ()) -> Outcome:
        scene = self.scene
        return run(
            scene.world,
            chosen,
            wrapped=lambda backend: Commanded(backend, scene.commands),
            listeners=listeners,
        )


@st.composite
def cases(draw: st.DrawFn, *, asked: bool | None = None) -> Case:
    """Return any case; `asked` says whether jobs may ask for CPUs and memory themselves."""
    scene = draw(scenes())
    if asked is None:
        asked = draw(st.booleans())
    servers = []
    for server in scene.world.servers:
        each = draw(st.sampled_from([(3000, 10), (3000, 10), (2000, 12), (4500, 7)]))
        gpus = max(1, server.configuration.gpus)
        where = replace(server.configuration, cpus_milli=each[0] * gpus, memory_mb=each[1] * gpus)
        servers.append(replace(server, configuration=where))
    jobs = []
    for job in scene.world.jobs:
        model = draw(st.sampled_from(["", "hungry", "hungry", "modest", "unknown"]))
        asks = asked and (not job.spec.gpus or draw(st.integers(0, 2)) == 0)
        cpus = draw(st.integers(0 if job.spec.gpus else 1, 14)) * 500 if asks else 0
        memory = draw(st.integers(0, 25)) if asks else 0
        gpus = job.spec.gpus if asks else max(1, job.spec.gpus)
        spec = replace(job.spec, gpus=gpus, model=model, cpus_milli=cpus, memory_mb=memory)
        jobs.append(replace(job, spec=spec))
    speeds = SpeedModel(
        {server.node: server.configuration for server in servers}, sensitivity=TABLE
    )
    world = replace(scene.world, servers=tuple(servers), jobs=tuple(jobs), speeds=speeds)
    return Case(replace(scene, world=world), draw(PLACEMENTS), asked)


def sized(name: str, mechanism: Mechanism, case: Case, kind: Any = RankedPolicy) -> Any:
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    return kind(INDEXES[name], case.placement, sizing=Sizing(mechanism, TABLE, solver))


def checking(mechanism: Mechanism) -> Observers:
    """Return a listener that checks CPUs and memory after every round and change."""

    def shares(event: Any, view: View) -> None:
        for job in view.jobs.values():
            if job.phase in _PLACED and job.allocation.gpus:
                check_job(job, view._state, mechanism)

    return {**resources_checked(), AttemptStarted: shares}


def resources_checked() -> Observers:
    """Return a listener that checks after every round what servers have and jobs hold."""

    def resources(event: Any, view: View) -> None:
        check_resources(view._state)

    return {RoundPlanned: resources}


def wrongly_refused(outcome: Outcome) -> list[PlanRejected]:
    """Return what was refused, but for pinned jobs that a falling quota asks to leave."""
    return [event for event in outcome.of(PlanRejected) if event.reason not in _PINNED]


def check_job(job: Job, state: State, mechanism: Mechanism) -> None:
    """Each job has what it asks for itself, and the speed of its proportional share."""
    shares = job.allocation.shares
    beside = sum([share.beside for share in shares], Resources())
    assert Resources(0, job.spec.cpus_milli, job.spec.memory_mb).fit_beside(beside)
    each = {(share.cpus_milli // share.gpus, share.memory_mb // share.gpus) for share in shares}
    assert len(each) == 1, "a gang is as fast as its slowest part, and has the same everywhere"
    pool = state.cluster.pools[state.cluster.servers[shares[0].node].configuration.gpu_type]
    there = [server.configuration for server in pool.servers if server.configuration.gpus]
    fair_cpus = min(where.cpus_milli // where.gpus for where in there)
    fair_memory = min(where.memory_mb // where.gpus for where in there)
    cpus_milli, memory_mb = each.pop()
    matrix = TABLE.of(job.spec)
    if matrix is None:
        assert cpus_milli >= fair_cpus
        assert memory_mb >= fair_memory
    elif mechanism is not Mechanism.greedy:
        proportional = matrix.speed(fair_cpus, fair_memory)
        assert matrix.speed(cpus_milli, memory_mb) >= proportional - 1e-9


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        *product(["fifo_backfill", "las"], [*Mechanism][:-1]),
        ("fifo_easy", Mechanism.greedy),
    ],
)
@searched(50)
@given(case=cases())
def test_no_server_is_oversubscribed_and_nobody_is_below_its_share(
    name: str, mechanism: Mechanism, case: Case
) -> None:
    outcome = case.played(sized(name, mechanism, case), (checking(mechanism),))
    assert not wrongly_refused(outcome)
    check_resources(outcome.core.state)


@dataclass(frozen=True)
class Compared(RankedPolicy):
    """A policy that looks what it had planned with proportional shares, and `opt` with `tune`."""

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        planned = super().plan(memory, view, rng)
        assert who(planned) == who(self._beside(Mechanism.proportional, view, rng))
        if memory.sizes is not None and memory.sizes.answer is not None:
            tuned = self._beside(Mechanism.tune, view, rng)
            assert together(planned, view) >= together(tuned, view) - 1e-9
        return planned

    def _beside(self, mechanism: Mechanism, view: View, rng: Rng) -> Plan:
        other = RankedPolicy(self.index, self.placement, sizing=Sizing(mechanism, TABLE))
        return other.plan(other.start(view), view, rng)


def who(plan: Plan) -> tuple[list[JobId], list[JobId]]:
    """Return who starts, and who leaves."""
    starts = [change.job_id for change in plan.changes if isinstance(change, Start)]
    return starts, [change.job_id for change in plan.changes if isinstance(change, Suspend)]


def together(plan: Plan, view: View) -> float:
    """Return the sum of the speeds of all jobs with GPUs after a plan."""
    has = {job_id: job.allocation for job_id, job in view.jobs.items()}
    has |= {change.job_id: change.allocation for change in plan.changes}
    return sum(
        TABLE.speed(view.jobs[job_id].spec, what) for job_id, what in has.items() if what.gpus
    )


@pytest.mark.parametrize("name", INDEXES)
@searched(50)
@given(case=cases())
def test_tune_runs_whom_proportional_runs_from_equal_state(name: str, case: Case) -> None:
    outcome = case.played(sized(name, Mechanism.tune, case, Compared))
    # It is code of others to the core, so every change was checked once more, on a fresh draft.
    assert not wrongly_refused(outcome)


@needs_highs
@pytest.mark.parametrize("name", ["fifo_backfill", "las"])
@searched(15)
@given(case=cases())
def test_opt_does_the_same_and_is_no_slower_than_tune(name: str, case: Case) -> None:
    """From equal state, in each round; and no sum of speeds is above its bound."""
    policy = sized(name, Mechanism.opt, case, Compared)
    outcome = case.played(policy, (checking(Mechanism.opt),))
    assert not wrongly_refused(outcome)
    for solved in outcome.of(SizesSet):
        assert (solved.status, solved.gap) == ("ok", 0)
        assert solved.speed <= solved.bound + 1e-6
    check_resources(outcome.core.state)


@needs_highs
@searched(15)
@given(case=cases())
def test_a_run_with_opt_is_decided_again_without_solving(case: Case) -> None:
    by, world = sized("las", Mechanism.opt, case), case.scene.world
    outcome = case.played(by)
    again = replace(by, sizing=replace(by.sizing, solver=None))
    decided_again(outcome, again, world)


def test_who_leaves_and_finds_no_cpus_elsewhere_waits() -> None:
    """With `greedy`, GPUs of the other type are free, but not the CPUs that it asks for there."""
    where = (
        node_added(0, 1, gpu_type="v100", cpus_milli=3000, memory_mb=10),
        node_added(1, 2, gpu_type="k80", cpus_milli=6000, memory_mb=20),
    )
    jobs = (
        trace_job(0, lasts=40, model="hungry"),
        trace_job(1, at=21, gpu_types=["v100"]),
        trace_job(2, at=21),
    )
    speeds = SpeedModel({each.node: each.configuration for each in where}, sensitivity=TABLE)
    world = World(servers=where, jobs=jobs, round_us=10, speeds=speeds)
    sizing = Sizing(Mechanism.greedy, TABLE)
    outcome = run(world, RankedPolicy(INDEXES["las"], FirstFit(), sizing=sizing))
    places = [
        (event.at_us, event.job_id, [share.node for share in event.allocation.shares])
        for event in outcome.of(AllocationChanged)
    ]
    assert places[1:] == [
        (30, "j0", []),
        (30, "j1", ["n0"]),
        (30, "j2", ["n1"]),
        (40, "j0", ["n0"]),
    ]


@pytest.mark.parametrize("name", ["las"])
@searched(50)
@given(case=cases(asked=False))
def test_nobody_loses_gpus_because_cpus_are_short(name: str, case: Case) -> None:
    """Who asks for nothing himself never waits for CPUs or memory."""
    tuned = case.played(sized(name, Mechanism.tune, case))
    waits = [entry.wait for event in tuned.of(RoundPlanned) for entry in event.waits]
    assert not [wait for wait in waits if wait and wait.reason is Reason.cpu_or_memory_short]


@searched(50)
@given(case=cases(asked=False))
def test_a_change_of_shares_tells_the_speeds_and_leads_to_one(case: Case) -> None:
    """What a change says of speeds is what the table says, and the job then works so fast."""
    outcome = case.played(sized("las", Mechanism.tune, case))
    specs = {job.job_id: job.spec for job in case.scene.world.jobs}
    told = dict.fromkeys(specs, 1.0)
    for event in outcome.events:
        if isinstance(event, AttemptStarted | SpeedChanged):
            told[event.job_id] = event.speed
        elif isinstance(event, JobReshaped):
            _, after = event.because.scores
            assert after == pytest.approx(TABLE.speed(specs[event.job_id], event.allocation))
    for job_id, job in outcome.core.state.jobs.items():
        if job.phase is JobPhase.running and job.working_since_us is not None and job.speed:
            assert told[job_id] == job.speed
            assert job.speed == pytest.approx(TABLE.speed(job.spec, job.allocation))
