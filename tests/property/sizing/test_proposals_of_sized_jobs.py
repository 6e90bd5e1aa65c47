"""Job schedulers that propose where jobs are sized, and running jobs are moved for gangs.

A gang is granted where its GPUs are free; what it must have beside them others give up. What holds
of sizes, of proposals and of moves alone holds of all together.
"""

from dataclasses import replace

import pytest
from hypothesis import event, example, given, strategies as st

from shunter.core import MAKE_ROOM, SHRUNK, State
from shunter.core.fold import apply
from shunter.core.planning import Decentralised, FirstFit
from shunter.core.ranking import RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import SpeedModel
from shunter.events import (
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobId,
    JobReshaped,
    Reason,
    RoundPlanned,
)
from shunter.policies import HighsSolver, MakingRoom
from tests.commanded import Commanded
from tests.factories import (
    Outcome,
    World,
    needs_highs,
    node_added,
    policy,
    run,
    scheme,
    servers,
    trace_job,
)
from tests.property.core.test_proposals import contended, rejected_in_a_row, taken_of
from tests.property.invariants import check_state
from tests.property.sizing.test_room_of_sized_jobs import FAIR, TABLE, worlds
from tests.property.sizing.test_sizing import INDEXES, Case, cases, checking, sized, wrongly_refused
from tests.replay.recording import decided_again
from tests.slices import searched

MECHANISMS = [
    Mechanism.proportional,
    Mechanism.greedy,
    Mechanism.tune,
    pytest.param(Mechanism.opt, marks=needs_highs),
]
SCHEMES = st.builds(
    scheme,
    st.sampled_from([0, 0, 3, 12]),
    candidates=st.integers(1, 3),
    retry_us=st.integers(1, 6),
    reserve_after=st.integers(1, 3),
)


def played(case: Case, by: RankedPolicy, how: Decentralised, mechanism: Mechanism) -> Outcome:
    """Run a case, decide it again, and look at each approval."""
    scene = case.scene
    world = replace(scene.world, decentralised=how)
    outcome = run(
        world,
        by,
        wrapped=lambda backend: Commanded(backend, scene.commands),
        listeners=(checking(mechanism),),
    )
    assert not wrongly_refused(outcome)
    decided_again(outcome, by, world)
    granted_whole(outcome)
    backs_off(outcome, how)
    return outcome


def backs_off(outcome: Outcome, how: Decentralised) -> None:
    """Who was rejected waits as long as that says, unless GPUs are to be kept for it.

    They may be kept in the very plan that proposes it, which is then approved.
    """
    state, retry_us, early = State(), dict[JobId, int](), set[JobId]()
    for happened in outcome.events:
        if isinstance(happened, GangProposed):
            job_id, book = happened.job_id, state.proposals
            rejected = book.rejected_in_a_row(job_id)
            early.clear()
            if rejected not in (0, how.reserve_after) and job_id not in book.reserved:
                if rejected > how.reserve_after:
                    event("rejected more often than GPUs are kept after")
                if happened.at_us < retry_us[job_id]:
                    assert rejected > how.reserve_after
                    early.add(job_id)
        elif isinstance(happened, GangRejected):
            assert happened.job_id not in early
            assert happened.retry_us is not None
            retry_us[happened.job_id] = happened.retry_us
        apply(state, happened)


def granted_whole(outcome: Outcome) -> None:
    """Each approved gang gets the very candidate, after others gave up what it says they did."""
    state, proposed = State(), None
    for number, happened in enumerate(outcome.events):
        if isinstance(happened, GangProposed):
            proposed = happened
        elif isinstance(happened, GangApproved):
            assert proposed is not None
            target, then = proposed.candidates[happened.choice], outcome.events[number + 1]
            assert isinstance(then, AllocationChanged)
            assert (then.job_id, then.allocation) == (happened.job_id, target)
            assert not taken_of(target, happened.job_id, state)
            gave = _given_up_before(outcome.events, number)
            nodes = {share.node for share in target.shares}
            for each in gave:
                assert each.because.beneficiaries == (happened.job_id,)
                assert nodes & {share.node for share in each.allocation.shares}
            if gave:
                event("others gave up CPUs")
        apply(state, happened)
        if isinstance(happened, AllocationChanged):
            check_state(state)


def _given_up_before(events: list[Event], number: int) -> list[JobReshaped]:
    """Return the changes of shares between a proposal and its approval."""
    found: list[JobReshaped] = []
    while isinstance(events[number - 1], JobReshaped):
        number -= 1
        each = events[number]
        assert isinstance(each, JobReshaped)
        assert each.because.rule == SHRUNK
        found.append(each)
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["fifo_backfill", "las"])
@searched(30)
@given(case=cases(), how=SCHEMES)
def test_sized_jobs_are_proposed(
    name: str, mechanism: Mechanism, case: Case, how: Decentralised
) -> None:
    played(case, sized(name, mechanism, case).with_scheme(how), how, mechanism)


@pytest.mark.parametrize("mechanism", [None, *MECHANISMS])
@searched(30)
@given(world=worlds(), how=SCHEMES)
def test_room_is_made_for_gangs_beside_proposals(
    mechanism: Mechanism | None, world: World, how: Decentralised
) -> None:
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    sizing = None if mechanism is None else Sizing(mechanism, TABLE, solver)
    room = MakingRoom(1, 3, 5)
    by = replace(policy("fifo_backfill", "spread"), sizing=sizing)
    by = by.with_room(room).with_scheme(how)
    world = replace(world, decentralised=how)
    outcome = run(world, by)
    assert not wrongly_refused(outcome)
    decided_again(outcome, by, world)
    granted_whole(outcome)
    backs_off(outcome, how)
    assert len(outcome.ended) == len(world.jobs), "everybody runs in the end"
    moves = [one for one in outcome.of(AllocationChanged) if one.because.rule == MAKE_ROOM]
    event("moves" if moves else "nobody is moved")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@searched(40)
@given(case=cases(asked=False), candidates=st.integers(1, 3))
def test_nobody_is_rejected_for_want_of_what_others_can_give(
    mechanism: Mechanism, case: Case, candidates: int
) -> None:
    """With views that are up to date, who is proposed has a place with all it must have."""
    how = scheme(0, candidates=candidates)
    by = sized("las", mechanism, case).with_scheme(how)
    world = replace(case.scene.world, decentralised=how)
    outcome = run(world, by, wrapped=lambda backend: Commanded(backend, case.scene.commands))
    for rejected in outcome.of(GangRejected):
        assert rejected.reason is not Reason.cpu_or_memory_short


@pytest.mark.parametrize("mechanism", MECHANISMS)
@searched(60)
@example(jobs=[(0, 1, 1), (0, 4, 1), (0, 4, 1), (1, 1, 3), (1, 4, 1), (2, 2, 1)], reserve_after=1)
@given(jobs=contended, reserve_after=st.integers(1, 3))
def test_sized_jobs_are_approved_next_who_were_rejected_often_enough(
    mechanism: Mechanism, jobs: list[tuple[int, int, int]], reserve_after: int
) -> None:
    """A place is kept for who needs it, though others have grown into the CPUs there."""
    how = scheme(40, candidates=1, reserve_after=reserve_after)
    trace = tuple(
        trace_job(number, gpus, at=at, lasts=lasts, model=("hungry", "modest", "")[number % 3])
        for number, (at, gpus, lasts) in enumerate(sorted(jobs))
    )
    where = servers(4, 4, cpus_milli=4 * FAIR)
    speeds = SpeedModel({each.node: each.configuration for each in where}, sensitivity=TABLE)
    world = World(servers=where, jobs=trace, speeds=speeds, decentralised=how)
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    sizing = Sizing(mechanism, TABLE, solver)
    outcome = run(world, replace(policy("fifo"), sizing=sizing).with_scheme(how))
    verdicts = outcome.of(GangApproved, GangRejected, RoundPlanned)
    assert max(rejected_in_a_row(verdicts), default=0) <= reserve_after


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_is_moved_leaves_what_a_proposed_job_must_have(mechanism: Mechanism) -> None:
    """Both come to one server in one plan; what is left there the mover has by the next."""
    where = (
        node_added(0, 1, gpu_type="v100", cpus_milli=FAIR),
        node_added(1, 2, gpu_type="k80", cpus_milli=2 * FAIR),
    )
    jobs = (
        trace_job(0, lasts=90, model="hungry"),
        trace_job(1, at=21, lasts=50, gpu_types=["v100"]),
        trace_job(2, at=21, lasts=50, model="modest"),
    )
    speeds = SpeedModel({each.node: each.configuration for each in where}, sensitivity=TABLE)
    how = scheme()
    world = World(servers=where, jobs=jobs, round_us=10, speeds=speeds, decentralised=how)
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    sizing = Sizing(mechanism, TABLE, solver)
    outcome = run(world, RankedPolicy(INDEXES["las"], FirstFit(), sizing=sizing).with_scheme(how))
    granted = [(one.at_us, one.job_id) for one in outcome.of(GangApproved)]
    assert granted[:3] == [(0, "j0"), (30, "j1"), (30, "j2")]
    assert not outcome.of(GangRejected)
    grown = [(one.at_us, one.job_id) for one in outcome.of(JobReshaped)]
    assert grown == [(40, "j0")] * (mechanism in (Mechanism.tune, Mechanism.opt))
