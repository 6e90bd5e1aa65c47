"""Gavel where job schedulers propose: what is proposed, and what everybody receives."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from shunter.config import completed
from shunter.core import Guards
from shunter.core.planning import PLACEMENTS, CanPropose, Decentralised
from shunter.events import JOB_ENDS, GpuType, JobId, decode_record, encode_record, facts
from shunter.policies.gavel import (
    GavelMemory,
    GavelPolicy,
    Isolated,
    MaxMinFairness,
    Timing,
    TwoLevelPolicy,
)
from shunter.workloads import TraceJob
from tests.factories import Outcome, World, node_added, run, scheme, trace_job
from tests.slices import searched

S = 1_000_000
MINUTE_US = 60 * S
TURN_US = 6 * MINUTE_US
V100 = GpuType("v100")
END_US = 180 * MINUTE_US


def gavel() -> GavelPolicy:
    where = PLACEMENTS["consolidated"]()
    return GavelPolicy(MaxMinFairness(), where, Timing(TURN_US, 10 * TURN_US))


def seconds_stale(seconds: int) -> Decentralised:
    return scheme(seconds * S, retry_us=S, retry_most_us=60 * S, reserve_after=8)


def proposed(world: World, how: Decentralised, by: CanPropose | None = None) -> Outcome:
    chosen = (gavel() if by is None else by).with_scheme(how)
    return run(replace(world, decentralised=how), chosen)


def received_us(outcome: Outcome, world: World) -> Counter[tuple[JobId, str]]:
    """Return how long each job had GPUs of each type."""
    types = {node.node: node.configuration.gpu_type for node in world.servers}
    since: dict[JobId, tuple[str, int]] = {}
    found: Counter[tuple[JobId, str]] = Counter()
    for event in outcome.of(facts.AllocationChanged, *JOB_ENDS):
        if event.job_id in since:
            gpu_type, from_us = since.pop(event.job_id)
            found[event.job_id, gpu_type] += event.at_us - from_us
        if isinstance(event, facts.AllocationChanged) and event.allocation.shares:
            since[event.job_id] = types[event.allocation.shares[0].node], event.at_us
    for name, (gpu_type, from_us) in since.items():
        found[name, gpu_type] += END_US - from_us
    return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Return gangs that want more GPUs than there are, of two types, for some hours."""
    nodes = [
        node_added(number, draw(st.sampled_from([2, 4, 8])), gpu_type=gpu_type)
        for number, gpu_type in enumerate(["v100", "k80", draw(st.sampled_from(["v100", "k80"]))])
    ]
    most = min(node.configuration.gpus for node in nodes)
    jobs: list[TraceJob] = [
        trace_job(number, min(most, gpus), at=at * S, lasts=lasts * MINUTE_US)
        for number, (at, gpus, lasts) in enumerate(
            sorted(draw(st.lists(ASKED, min_size=8, max_size=20)))
        )
    ]
    return World(
        servers=tuple(nodes),
        jobs=tuple(jobs),
        round_us=draw(st.sampled_from([0, MINUTE_US])),
        guards=Guards(draw(st.sampled_from([0, 0, 2 * TURN_US]))),
        until_us=END_US,
    )


ASKED = st.tuples(st.integers(0, 1800), st.sampled_from([1, 1, 2, 4]), st.integers(20, 200))


@searched(25)
@given(world=worlds())
def test_without_staleness_everybody_receives_what_the_central_plan_gives(world: World) -> None:
    """To the microsecond: each finds a place of the type that the plan chose, at once."""
    outcome = proposed(world, seconds_stale(0))
    assert received_us(outcome, world) == received_us(run(world, gavel()), world)
    assert outcome.of(facts.GangRejected) == []


@searched(25)
@given(
    gpus=st.integers(2, 8),
    more=st.integers(1, 8),
    stale_s=st.sampled_from([1, 5, 30, 60]),
    candidates=st.integers(1, 4),
)
def test_with_staleness_equal_jobs_receive_the_same_within_two_turns(
    gpus: int, more: int, stale_s: int, candidates: int
) -> None:
    """Who waits for its proposal is owed that time, and goes first in a later turn."""
    jobs = tuple([trace_job(number, lasts=END_US) for number in range(gpus + more)])
    world = World(servers=(node_added(gpus=gpus),), jobs=jobs, until_us=END_US)
    how = replace(seconds_stale(stale_s), candidates=candidates)
    had_us = received_us(proposed(world, how), world)
    assert len(had_us) == len(jobs)
    assert max(had_us.values()) - min(had_us.values()) <= 2 * TURN_US
    lost_us = gpus * END_US - sum(had_us.values())
    assert lost_us <= (stale_s * S + 60 * S) / TURN_US * gpus * END_US


def test_what_is_counted_is_what_was_received_not_what_was_proposed() -> None:
    world = World(
        servers=(node_added(gpus=4), node_added(1, gpus=4)),
        jobs=tuple([trace_job(number, 2, lasts=END_US) for number in range(9)]),
        until_us=END_US,
    )
    outcome = proposed(world, replace(seconds_stale(60), candidates=1))
    assert outcome.of(facts.GangRejected)
    memory: GavelMemory = outcome.core.memory
    memory.settle_all(END_US)
    had_us = received_us(outcome, world)
    window_us = 10 * TURN_US
    for gang, row in memory.ledger.received_s.items():
        counted_us = row[V100] * S - memory.ledger.target(gang, V100) * window_us
        assert abs(counted_us - had_us[gang[0], V100]) <= S


def test_gangs_that_change_places_are_moved_by_the_plan() -> None:
    """One each of two types, of which both are to have half: they change places at each turn."""
    nodes = (node_added("v", 1, gpu_type="v100"), node_added("k", 1, gpu_type="k80"))
    jobs = tuple([trace_job(number, lasts=END_US) for number in range(2)])
    world = World(servers=nodes, jobs=jobs, until_us=END_US)
    where = PLACEMENTS["consolidated"]()
    by = GavelPolicy(Isolated(), where, Timing(TURN_US, 10 * TURN_US))
    outcome = proposed(world, seconds_stale(5), by)
    assert len(outcome.of(facts.GangApproved)) == 2, "each is proposed when it comes"
    moved = [
        each for each in outcome.of(facts.AllocationChanged) if each.because.rule == "target_share"
    ]
    assert len(moved) > 20
    assert outcome.of(facts.PlanRejected) == []


def test_who_is_rejected_is_proposed_again_within_the_turn() -> None:
    jobs = tuple([trace_job(number, 2, at=1, lasts=END_US) for number in range(4)])
    world = World(servers=(node_added(gpus=4), node_added(1, gpus=4)), jobs=jobs, until_us=TURN_US)
    outcome = proposed(world, replace(seconds_stale(5), candidates=1))
    assert outcome.of(facts.GangRejected)
    assert len(outcome.of(facts.GangApproved)) == 4
    assert outcome.of(facts.GangApproved)[-1].at_us < TURN_US // 2
    assert [each.dismissed for each in outcome.of(facts.RoundPlanned) if each.dismissed] == []


def test_rejected_again_and_again_it_has_its_place_kept_within_the_turn() -> None:
    jobs = tuple([trace_job(number, 1, at=1, lasts=END_US) for number in range(16)])
    world = World(servers=(node_added(gpus=8), node_added(1, gpus=8)), jobs=jobs, until_us=TURN_US)
    how = replace(seconds_stale(300), candidates=1, reserve_after=2, retry_most_us=S)
    outcome = proposed(world, how)
    rejected = Counter(each.job_id for each in outcome.of(facts.GangRejected))
    assert max(rejected.values()) == 2
    assert len(outcome.of(facts.GangApproved)) == 16


def test_types_are_those_of_the_plan() -> None:
    """Who is to have a slow GPU is proposed for slow ones alone, whatever a view shows."""
    nodes = (node_added("v", 2, gpu_type="v100"), node_added("k", 4, gpu_type="k80"))
    jobs = tuple([trace_job(number, lasts=END_US) for number in range(6)])
    world = World(servers=nodes, jobs=jobs, until_us=END_US)
    outcome = proposed(world, seconds_stale(30))
    for event in outcome.of(facts.GangProposed):
        assert len({one.shares[0].node for one in event.candidates}) == 1


def test_under_two_level_nobody_leaves_because_somebody_proposes_again() -> None:
    jobs = tuple([trace_job(number, lasts=END_US, user=f"u{number % 3}") for number in range(14)])
    world = World(servers=(node_added(gpus=8),), jobs=jobs, until_us=END_US)
    where = PLACEMENTS["consolidated"]()
    by = completed(TwoLevelPolicy("fifo", {}, "user", {}, TURN_US, where), where)
    assert isinstance(by, CanPropose)
    outcome = proposed(world, replace(seconds_stale(30), candidates=1), by)
    assert outcome.of(facts.GangRejected)
    left_us = [
        each.at_us for each in outcome.of(facts.AllocationChanged) if not each.allocation.shares
    ]
    assert left_us
    assert {at_us % TURN_US for at_us in left_us} == {0}


def test_memory_is_written_and_read_again() -> None:
    jobs = tuple([trace_job(number, 2, lasts=END_US) for number in range(9)])
    world = World(servers=(node_added(gpus=4), node_added(1, gpus=4)), jobs=jobs, until_us=TURN_US)
    memory = proposed(world, seconds_stale(60)).core.memory
    assert memory.proposals.history.changes
    encoded = encode_record(memory)
    again = decode_record(GavelMemory, encoded)
    assert again.proposals == memory.proposals
    assert encode_record(again) == encoded
