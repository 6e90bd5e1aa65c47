"""Job schedulers with stale views and their approver, over any small world with people in it.

What holds: no GPU is granted twice, a gang is granted whole or not at all, who is rejected wanted
something that it could not have, who may start does in the end, and all is decided again alike.
"""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, strategies as st

from shunter.ask import Verifier
from shunter.backends.simulated import Costs
from shunter.config import completed
from shunter.core import AnyPolicy, State, run_rounds, state_digest
from shunter.core.fold import apply
from shunter.core.planning import PLACEMENTS, CanPropose, Decentralised
from shunter.events import (
    Allocation,
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobId,
    RoundPlanned,
    SchedulerStarted,
    encode_payload,
    encode_record,
)
from shunter.policies.gavel import FastestFirst, GavelPolicy, MaxMinFairness, Timing, TwoLevelPolicy
from shunter.workloads import TraceJob
from tests.commanded import Commanded
from tests.factories import (
    Outcome,
    Tape,
    World,
    drive,
    las_policy,
    policy,
    run,
    scheme,
    servers,
    trace_job,
)
from tests.property.invariants import check_state
from tests.property.test_fold_laws import Forgetting
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, rebuilt
from tests.slices import searched

schemes = st.builds(
    scheme,
    st.sampled_from([0, 3, 12, 40]),
    candidates=st.integers(1, 3),
    retry_us=st.integers(1, 6),
    reserve_after=st.integers(1, 4),
)
WHY_TAKEN = ("no_capacity", "outranked", "cpu_or_memory_short", "node_lost", "node_drained")
RANKED = ("fifo", "fifo_backfill", "fifo_easy", "las", "srtf")
NAMES = (*RANKED, "gavel", "gavel", "gavel_agnostic_fifo", "two_level")


def chosen(name: str, how: Decentralised, placement: str = "consolidated") -> AnyPolicy:
    """Return a policy whose jobs have schedulers; turns are of 20 us where it has some."""
    where = PLACEMENTS[placement]()
    base: AnyPolicy
    if name.startswith("gavel"):
        is_fair = name == "gavel"
        objective = MaxMinFairness() if is_fair else FastestFirst(agnostic=True)
        base = GavelPolicy(objective, where, Timing(20, 200))
    elif name == "two_level":
        base = completed(TwoLevelPolicy("las", {}, "user", {}, 20, where), where)
    else:
        base = las_policy(placement=placement) if name == "las" else policy(name, placement)
    assert isinstance(base, CanPropose)
    return base.with_scheme(how)


def played(scene: Scene, name: str, how: Decentralised) -> tuple[Outcome, Recorded]:
    by, world = chosen(name, how, scene.placement), replace(scene.world, decentralised=how)
    outcome = run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands))
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    events = [replace(start, simulated=True), *outcome.events[1:]]
    return outcome, Recorded(events, rebuilt(by, world.rules(instant=world.backend().instant)))


in_turns = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from([1, 1, 2, 2, 4]), st.integers(1, 90)),
    min_size=4,
    max_size=16,
)


@searched(120)
@given(scene=scenes(), name=st.sampled_from(NAMES), how=schemes)
def test_any_run_of_proposals_is_decided_again(scene: Scene, name: str, how: Decentralised) -> None:
    outcome, recorded = played(scene, name, how)
    verifier = Verifier(recorded.rebuild)

    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


@searched(80)
@given(scene=scenes(), name=st.sampled_from(NAMES), how=schemes)
def test_gangs_are_granted_whole_and_once(scene: Scene, name: str, how: Decentralised) -> None:
    outcome, _ = played(scene, name, how)
    state, proposed = State(), None
    for number, event in enumerate(outcome.events):
        if isinstance(event, GangProposed):
            proposed = event
        elif isinstance(event, GangApproved):
            assert proposed is not None
            check_granted(proposed, event, outcome.events[number + 1], state)
        elif isinstance(event, GangRejected):
            assert proposed is not None
            check_rejected(proposed, event, state)
        apply(state, event)
        if isinstance(event, AllocationChanged):
            check_state(state)


@searched(40)
@given(scene=scenes(), name=st.sampled_from(NAMES), how=schemes, every=st.integers(1, 4))
def test_memory_read_again_leads_to_the_same_events(
    scene: Scene, name: str, how: Decentralised, every: int
) -> None:
    outcome, _ = played(scene, name, how)
    world = replace(scene.world, decentralised=how)
    people = Commanded(world.backend(), scene.commands)
    core, events = world.scheduler(chosen(name, how, scene.placement), instant=people.instant)
    tape = Tape(events)
    drive(run_rounds(core, Forgetting(people, core, every), tape, until_us=world.until_us))
    assert encode_payload(tape.events) == encode_payload(outcome.events)


def check_granted(
    proposed: GangProposed, approved: GangApproved, then: Event, state: State
) -> None:
    """The fact after an approval gives the job the very candidate, which is free and whole."""
    target = proposed.candidates[approved.choice]
    assert isinstance(then, AllocationChanged)
    assert (proposed.job_id, then.job_id) == (approved.job_id, approved.job_id)
    assert then.allocation == target
    assert target.gpus == state.jobs[approved.job_id].spec.gpus
    assert not taken_of(target, approved.job_id, state)


def check_rejected(proposed: GangProposed, rejected: GangRejected, state: State) -> None:
    """Each candidate wants GPUs that are taken or kept, or more CPUs, memory or quota."""
    assert proposed.job_id == rejected.job_id
    taken = [taken_of(one, rejected.job_id, state) for one in proposed.candidates]
    assert dict(rejected.conflicts).items() >= taken[0].items()
    if rejected.conflicts:
        assert rejected.reason in WHY_TAKEN
    else:
        assert rejected.reason in ("cpu_or_memory_short", "quota", "node_lost", "node_drained")
    free = [one for one, mask in zip(proposed.candidates, taken, strict=True) if not mask]
    assert rejected.reason != "no_capacity" or len(free) < len(taken)


def taken_of(target: Allocation, job_id: JobId, state: State) -> dict[str, int]:
    """Return, by brute force, the GPUs of an allocation that jobs have or that are kept."""
    found: dict[str, int] = {}
    theirs = [share for job in state.jobs.values() for share in job.allocation.shares]
    kept = [
        share
        for other, shares in state.proposals.reserved.items()
        if other != job_id
        for share in shares
    ]
    for share in target.shares:
        for other in (*theirs, *kept):
            if other.node == share.node and (mask := other.gpu_mask & share.gpu_mask):
                found[share.node] = found.get(share.node, 0) | mask
    return found


contended = st.lists(
    st.tuples(st.integers(0, 10), st.sampled_from([1, 1, 2, 2, 4, 4, 8]), st.integers(1, 6)),
    min_size=4,
    max_size=24,
)


@searched(60)
@given(jobs=contended, how=schemes, name=st.sampled_from(NAMES), round_us=st.sampled_from([0, 3]))
def test_all_contenders_run_in_the_end(
    jobs: list[tuple[int, int, int]], how: Decentralised, name: str, round_us: int
) -> None:
    trace: list[TraceJob] = [
        trace_job(number, gpus, at=at, lasts=lasts)
        for number, (at, gpus, lasts) in enumerate(sorted(jobs))
    ]
    world = World(
        servers=servers(4, 4),
        jobs=tuple(trace),
        round_us=round_us,
        decentralised=how,
        costs=Costs(),
    )
    outcome = run(world, chosen(name, how))

    assert len(outcome.ended) == len(trace)
    assert not outcome.state.proposals.reserved
    assert outcome.state.proposals.is_empty


@searched(60)
@given(jobs=contended, reserve_after=st.integers(1, 3))
def test_who_was_rejected_often_enough_is_approved_next(
    jobs: list[tuple[int, int, int]], reserve_after: int
) -> None:
    """The place that the order found is kept for it, unless it is kept for another one already."""
    how = scheme(40, candidates=1, reserve_after=reserve_after)
    trace = [
        trace_job(number, gpus, at=at, lasts=lasts)
        for number, (at, gpus, lasts) in enumerate(sorted(jobs))
    ]
    world = World(servers=servers(4, 4), jobs=tuple(trace), decentralised=how)
    outcome = run(world, chosen("fifo", how))
    most = max(rejected_in_a_row(outcome.of(GangApproved, GangRejected)), default=0)
    assert most <= reserve_after


@searched(60)
@given(
    jobs=in_turns,
    name=st.sampled_from(["gavel", "gavel_agnostic_fifo", "two_level"]),
    reserve_after=st.integers(1, 3),
    round_us=st.sampled_from([0, 3]),
)
def test_jobs_in_turns_of_policies_are_approved_as_soon_and_run_to_their_ends(
    jobs: list[tuple[int, int, int]], name: str, reserve_after: int, round_us: int
) -> None:
    """Views are older than a turn is long, and each turn has others start."""
    how = scheme(40, candidates=1, reserve_after=reserve_after)
    trace = [
        trace_job(number, gpus, at=at, lasts=lasts)
        for number, (at, gpus, lasts) in enumerate(sorted(jobs))
    ]
    world = World(servers=servers(4, 4), jobs=tuple(trace), round_us=round_us, decentralised=how)
    outcome = run(world, chosen(name, how))
    assert len(outcome.ended) == len(trace)
    verdicts = outcome.of(GangApproved, GangRejected, RoundPlanned)
    assert max(rejected_in_a_row(verdicts), default=0) <= reserve_after


def rejected_in_a_row(
    verdicts: list[GangApproved | GangRejected | RoundPlanned],
) -> Iterator[int]:
    """Yield how often a job was rejected in a row while it might be proposed."""
    counts: dict[JobId, int] = {}
    for event in verdicts:
        if isinstance(event, RoundPlanned):
            for job_id in event.dismissed:
                counts.pop(job_id, None)
            continue
        rejected = isinstance(event, GangRejected)
        counts[event.job_id] = counts.get(event.job_id, 0) + 1 if rejected else 0
        yield counts[event.job_id]


def test_without_staleness_nothing_collides() -> None:
    jobs = [trace_job(number, 1 + number % 4, at=number // 3, lasts=5) for number in range(60)]
    how = scheme(0)
    world = World(servers=servers(4, 4, 4), jobs=tuple(jobs), decentralised=how)
    outcome = run(world, chosen("fifo", how))
    assert outcome.state.proposals.approved == 60
    assert outcome.state.proposals.rejected == 0


def test_the_staler_views_are_the_more_collides() -> None:
    jobs = [trace_job(number, 1 + number % 4, at=number // 2, lasts=20) for number in range(300)]
    rates = []
    for staleness_us in (0, 2, 40):
        how = scheme(staleness_us, candidates=1, reserve_after=50)
        world = World(servers=servers(*[8] * 12), jobs=tuple(jobs), decentralised=how)
        rates.append(run(world, chosen("fifo", how)).state.proposals.conflict_rate)
    assert rates[0] == 0
    assert rates[0] < rates[1] < rates[2]
