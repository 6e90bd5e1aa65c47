"""Room for a gang where jobs are sized: what counts of CPUs is what each is guaranteed.

So jobs are moved exactly if they would be in a cluster without sizes, in which everybody asks for
what he is guaranteed and has no more.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import event, given, strategies as st

from shunter.backends.simulated import Costs
from shunter.core import AT_WORK, MAKE_ROOM, Move, Observers, Reshape, Start, View
from shunter.core.planning import approve
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import (
    Allocation,
    AllocationChanged,
    AttemptStarted,
    JobReshaped,
    JobSpec,
    Level,
    PlanRejected,
    Resources,
    RoundPlanned,
    Share,
)
from shunter.policies import HighsSolver, MakingRoom
from shunter.workloads import JobEnd, TraceJob
from tests.factories import World, job_id, needs_highs, node_name, policy, run, servers
from tests.property.invariants import check_resources
from tests.property.test_making_room import (
    CPUS,
    GUARDS,
    NOW_US,
    Brute,
    Moment,
    Running,
    moves_if_it_pays,
    planned,
)
from tests.replay.recording import decided_again
from tests.slices import searched
from tests.unit.core.placement.test_complete import WIRINGS

FAIR = 1000
"""The CPUs of one GPU's part of a server of four."""

TABLE = SensitivityTable(
    {
        "hungry": {1: Sensitivity((500, 1000, 3000), (0,), ((0.5,), (1,), (2,)))},
        "modest": {1: Sensitivity((500, 1000), (0,), ((1.0,), (1.0,)))},
    },
    Resources(0, FAIR, 0),
)


@dataclass(frozen=True)
class Sized:
    """A moment in which jobs may have more or less CPUs than they are guaranteed, and its twin."""

    moment: Moment
    twin: Moment


@st.composite
def sized_moments(draw: st.DrawFn, *, grown: bool) -> Sized:
    """Return clusters whose servers have what all jobs there are guaranteed.

    Where jobs may have `grown`, some have what is left of their server as well.
    """
    count = draw(st.sampled_from([2, 2, 3]))
    free, left = [15] * count, [CPUS * 1000] * count
    with_sizes: list[Running] = []
    without: list[Running] = []
    for _ in range(draw(st.integers(count, 2 * count))):
        node = draw(st.integers(0, count - 1))
        mask = free[node] & draw(st.sampled_from([1, 2, 4, 8, 1, 2, 4, 8, 3, 6, 12, 7]))
        gpus = mask.bit_count()
        asked = draw(st.sampled_from([0, 0, 0, 1500, 2000])) if mask else 0
        kept = gpus * max(FAIR, -(-asked // gpus)) if mask else 0
        if not mask or kept > left[node]:
            continue
        free[node] &= ~mask
        left[node] -= kept
        where, since_us = node_name(node), draw(st.sampled_from([0, 500, 900, 940, 960]))
        said = draw(st.sampled_from([None] * 4 + [0, 1, 3, 8]))
        limit = () if said is None else (("time_limit_us", NOW_US - since_us + said),)
        model = draw(st.sampled_from(["hungry", "modest", ""]))
        own = (("cpus_milli", asked), ("model", model))
        with_sizes.append(Running((Share(where, mask, kept),), since_us, limit + own))
        without.append(Running((Share(where, mask, kept),), since_us, limit))
    for number, job in enumerate(with_sizes if grown else ()):
        (share,) = job.shares
        node = int(share.node[1:])
        if dict(job.fields)["model"] == "hungry" and draw(st.booleans()):
            more = left[node] // share.gpus * share.gpus
            left[node] -= more
            has = replace_cpus(share, share.cpus_milli + more)
            with_sizes[number] = replace(job, shares=(has,))
    gpus = draw(st.sampled_from([2, 3, 4, 4, 4]))
    level = draw(st.sampled_from([Level.switch, Level.socket, *[Level.server] * 3]))
    asked = draw(st.sampled_from([0, 0, 0, 3000]))
    gang = JobSpec(gpus, max_level=level, cpus_milli=asked, model="hungry")
    kept = gpus * max(FAIR, -(-asked // gpus))
    wirings = tuple(draw(st.sampled_from(WIRINGS)) for _ in range(count))
    twin = Moment(wirings, tuple(without), JobSpec(gpus, max_level=level, cpus_milli=kept))
    return Sized(Moment(wirings, tuple(with_sizes), gang), twin)


def replace_cpus(share: Share, cpus_milli: int) -> Share:
    return Share(share.node, share.gpu_mask, cpus_milli, share.memory_mb)


@pytest.mark.parametrize("mechanism", [Mechanism.proportional, Mechanism.tune])
@searched(200, thorough=750)
@given(data=st.data())
def test_jobs_are_moved_as_if_all_had_what_they_are_guaranteed(
    mechanism: Mechanism, data: st.DataObject
) -> None:
    drawn = data.draw(sized_moments(grown=mechanism is Mechanism.tune))
    state = drawn.moment.state()
    plan = planned(state, sizing=Sizing(mechanism, TABLE))
    moves_if_it_pays(plan, Brute(drawn.twin.state()))
    assert not approve(plan, state, GUARDS, NOW_US).refused, "what is planned can be carried out"
    for change in plan.changes:
        if isinstance(change, Start | Move):
            assert has_its_least(mechanism, state.jobs[change.job_id].spec, change.allocation)
    if any(isinstance(change, Move) for change in plan.changes):
        event("moves with changed sizes" if _reshapes(plan.changes) else "moves alone")


def has_its_least(mechanism: Mechanism, spec: JobSpec, what: Allocation) -> bool:
    """Say whether a job is as fast as with its part of the server, and has what it asks for."""
    each = sum(share.cpus_milli for share in what.shares) // spec.gpus
    least = 500 if mechanism is not Mechanism.proportional and spec.model == "modest" else FAIR
    return each >= least and each * spec.gpus >= spec.cpus_milli


def _reshapes(changes: object) -> bool:
    assert isinstance(changes, tuple)
    return any(isinstance(change, Reshape) for change in changes)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Return servers on which small jobs leave gaps, and gangs that need a server's GPUs."""
    names = range(draw(st.sampled_from([2, 3])))
    there = tuple(
        replace(server, node=node_name(number))
        for number in names
        for server in servers(4, cpus_milli=CPUS * 1000)
    )
    small = [
        (draw(st.integers(0, 4)), 1, draw(st.integers(20, 200)))
        for _ in range(draw(st.integers(4, 9)))
    ]
    large = [
        (draw(st.integers(15, 60)), draw(st.sampled_from([3, 4])), draw(st.integers(20, 60)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    jobs = tuple(
        TraceJob(job_id(number), at_us, spec_of(draw(MODELS), gpus), lasts_us, JobEnd.finished)
        for number, (at_us, gpus, lasts_us) in enumerate([*small, *large])
    )
    speeds = SpeedModel({one.node: one.configuration for one in there}, sensitivity=TABLE)
    return World(
        servers=there,
        jobs=tuple(sorted(jobs, key=lambda job: job.submit_us)),
        round_us=draw(st.sampled_from([0, 5])),
        costs=Costs(suspend_us=draw(st.sampled_from([0, 4])), resume_us=2),
        speeds=speeds,
    )


MODELS = st.sampled_from([("hungry", 0), ("hungry", 0), ("modest", 0), ("", 0), ("hungry", 1500)])


def spec_of(model: tuple[str, int], gpus: int) -> JobSpec:
    name, cpus_milli = model
    return JobSpec(gpus, model=name, cpus_milli=cpus_milli, max_level=Level.server)


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism.proportional,
        Mechanism.greedy,
        Mechanism.tune,
        pytest.param(Mechanism.opt, marks=needs_highs),
    ],
)
@searched(40, thorough=150)
@given(world=worlds())
def test_moves_keep_what_sizes_promise_and_are_decided_again(
    mechanism: Mechanism, world: World
) -> None:
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    by = replace(
        policy("fifo_backfill", "spread"),
        sizing=Sizing(mechanism, TABLE, solver),
    ).with_room(MakingRoom(1, 3, 5))
    outcome = run(world, by, listeners=(checked(mechanism),))
    assert not outcome.of(PlanRejected)
    decided_again(outcome, by, world)
    moves = [one for one in outcome.of(AllocationChanged) if one.because.rule == MAKE_ROOM]
    event("moves" if moves else "nobody is moved")


def checked(mechanism: Mechanism) -> Observers:
    """Return a listener: servers have what was given of them, and jobs what they are promised."""

    def looked_at(happened: Any, view: View) -> None:
        check_resources(view._state)
        for job in view.jobs.values():
            if job.phase in AT_WORK and mechanism is not Mechanism.greedy:
                assert has_its_least(mechanism, job.spec, job.allocation)

    return {RoundPlanned: looked_at, AttemptStarted: looked_at}


def test_nobody_grows_into_what_a_mover_has_yet_to_leave() -> None:
    """A hungry job of one GPU stays; the one beside it is moved for a gang of the other three."""
    cpus, speeds = (500, 1000, 1500, 2500, 3000), ((0.5,), (1,), (1.2,), (1.8,), (2,))
    table = replace(TABLE, models={**TABLE.models, "hungry": {1: Sensitivity(cpus, (0,), speeds)}})
    models = [("", 1, 0), ("hungry", 1, 0), ("", 3, 0), ("modest", 3, 20)]
    jobs = tuple(
        TraceJob(job_id(number), at_us, spec_of((model, 0), gpus), 200, JobEnd.finished)
        for number, (model, gpus, at_us) in enumerate(models)
    )
    there = servers(4, 4, cpus_milli=CPUS * 1000)
    world = World(
        servers=there,
        jobs=jobs,
        costs=Costs(suspend_us=4),
        speeds=SpeedModel({one.node: one.configuration for one in there}, sensitivity=table),
        until_us=40,
    )
    by = replace(
        policy("fifo_backfill", "first_fit"),
        sizing=Sizing(Mechanism.tune, table),
    ).with_room(MakingRoom(1, 3, 5))
    told = [
        (one.at_us, one.job_id, sum(share.cpus_milli for share in one.allocation.shares))
        for one in run(world, by).of(AllocationChanged, JobReshaped)
    ]
    assert told == [
        (0, "j0", 1000),
        (0, "j1", 3000),
        (0, "j2", 3000),
        (20, "j1", 1500),  # 1,500 are the gang's, and 1,000 are yet to be left
        (20, "j0", 1000),
        (20, "j3", 1500),
        (24, "j1", 2500),
    ]
