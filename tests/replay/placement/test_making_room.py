"""Logs of runs in which jobs are moved for waiting gangs: decided again, and asked why."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, strategies as st

from shunter.ask.why import details
from shunter.backends.simulated import Costs
from shunter.config import completed
from shunter.core import MAKE_ROOM, ROOM_MADE, AnyPolicy
from shunter.core.planning import CanMakeRoom, CanPropose, Mode, Topology
from shunter.events import (
    AllocationChanged,
    Level,
    LevelGroups,
    PlanRejected,
    decode_record,
    encode_record,
)
from shunter.policies import MakingRoom, Tiresias
from shunter.policies.gavel import Gavel, TwoLevel
from tests.commanded import Commanded
from tests.factories import Outcome, World, las_policy, policy, run, scheme, servers, trace_job
from tests.property.invariants import check_state
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, asked, rebuilt
from tests.replay.test_skew import verdict_of
from tests.slices import searched

NAMES = ("fifo", "fifo_backfill", "fifo_easy", "las", "srtf", "tiresias", "gavel", "two_level")
ADAPTIVE = Topology()
SWITCHES = LevelGroups(Level.switch, (0b0011, 0b1100))
ROOM = MakingRoom(cost_us=1, moves_most=4, every_us=7)


def chosen(name: str) -> AnyPolicy:
    """Return a policy that makes room; turns are of 20 us where it has some."""
    found: Any
    if name == "gavel":
        found = Gavel.build(Gavel.Params.model_validate({"turn": 2e-5}), ADAPTIVE)
    elif name == "two_level":
        found = TwoLevel.build(TwoLevel.Params.model_validate({"turn": 2e-5}), ADAPTIVE)
        found = completed(found, ADAPTIVE)
    elif name == "tiresias":
        found = Tiresias.build(Tiresias.Params(), ADAPTIVE)
    else:
        found = replace(las_policy() if name == "las" else policy(name), placement=ADAPTIVE)
    assert isinstance(found, CanMakeRoom)
    return found.with_room(ROOM)


def check_decided_again(world: World, by: AnyPolicy, outcome: Outcome) -> None:
    """Check that a log leads to the same decisions, and its memory survives a snapshot."""
    log = Recorded(outcome.events, rebuilt(by, world.rules(instant=world.backend().instant)))
    verdict = verdict_of(log)
    assert verdict.divergence is None, "\n".join(verdict.divergence.lines())
    memory = outcome.core.memory
    encoded = encode_record(memory)
    assert encode_record(decode_record(type(memory), encoded)) == encoded


def moves_of(outcome: Outcome) -> list[AllocationChanged]:
    return [each for each in outcome.of(AllocationChanged) if each.because.rule == MAKE_ROOM]


@st.composite
def cramped(draw: st.DrawFn) -> World:
    """Return small jobs on a few servers, and gangs that want a whole one."""
    jobs = []
    for number, at in enumerate(
        sorted(draw(st.lists(st.integers(0, 60), min_size=4, max_size=12)))
    ):
        gpus = draw(st.sampled_from([1, 1, 1, 2, 4]))
        near = draw(st.sampled_from([Level.server, Level.switch if gpus == 2 else Level.server]))
        asks: dict[str, Any] = {"max_level": near} if gpus > 1 else {}
        if draw(st.integers(0, 3)) == 0:
            asks["time_limit_us"] = 90
        jobs.append(trace_job(number, gpus, at=at, lasts=draw(st.integers(5, 80)), **asks))
    return World(
        servers=servers(*draw(st.sampled_from([(4, 4), (4, 4, 4)])), levels=(SWITCHES,)),
        jobs=tuple(jobs),
        round_us=draw(st.sampled_from([0, 0, 5])),
        costs=draw(st.sampled_from([Costs(), Costs(1, 1, 1, 2)])),
        until_us=400,
    )


@pytest.mark.parametrize("name", NAMES)
@searched(40)
@given(world=cramped())
def test_run_with_such_moves_is_decided_again(name: str, world: World) -> None:
    by = chosen(name)

    outcome = run(world, by)

    check_state(outcome.core.state)
    assert not outcome.of(PlanRejected)
    event(f"{min(3, len(moves_of(outcome)))} moves")
    check_decided_again(world, by, outcome)


@pytest.mark.parametrize("name", NAMES)
@searched(20)
@given(world=cramped(), staleness_us=st.sampled_from([0, 5, 40]))
def test_so_is_one_in_which_job_schedulers_propose(
    name: str, world: World, staleness_us: int
) -> None:
    """Moves and the start for which they were made are the plan's, all other starts proposed."""
    how = scheme(staleness_us)
    base = chosen(name)
    assert isinstance(base, CanPropose)
    by, world = base.with_scheme(how), replace(world, decentralised=how)

    outcome = run(world, by)

    check_state(outcome.core.state)
    assert not outcome.of(PlanRejected)
    event(f"{min(3, len(moves_of(outcome)))} moves")
    check_decided_again(world, by, outcome)


@pytest.mark.parametrize("name", NAMES)
@searched(20)
@given(scene=scenes())
def test_run_of_any_scene_is_decided_again(name: str, scene: Scene) -> None:
    by = chosen(name)
    outcome = run(scene.world, by, wrapped=lambda backend: Commanded(backend, list(scene.commands)))
    check_state(outcome.core.state)
    check_decided_again(scene.world, by, outcome)


# Jobs of one GPU are left on both servers, and outrank the gang that wants a whole one.
FRAGMENTS = World(
    servers=servers(4, 4, levels=(SWITCHES,)),
    jobs=(
        trace_job(0, lasts=500, priority=1),
        trace_job(1, lasts=500, priority=1),
        trace_job(2, 2, lasts=30),
        trace_job(3, 2, lasts=30),
        trace_job(4, 4, at=40, lasts=50, max_level=Level.server),
    ),
    until_us=1_000,
)


@pytest.mark.parametrize("name", NAMES)
def test_each_order_moves_the_job_in_the_way_and_says_for_whom(name: str) -> None:
    by = chosen(name)
    outcome = run(FRAGMENTS, by)

    move, *others = moves_of(outcome)
    assert not others
    assert move.because.beneficiaries == ("j4",)
    gain, cost = move.because.scores
    assert gain > cost
    (start,) = [each for each in outcome.of(AllocationChanged) if each.because.rule == ROOM_MADE]
    assert (start.job_id, start.at_us) == ("j4", move.at_us)
    assert start.because.scores == move.because.scores
    assert outcome.ends_us()["j4"] < 150, "without the move it would wait until 500"


# Nine GPUs are free, three on each server; j5 could have a server too, if it went before j4.
IN_LINE = World(
    servers=servers(4, 4, 4),
    jobs=(
        *(trace_job(number, lasts=500, priority=1) for number in range(3)),
        trace_job(3, 4, at=40, lasts=400, max_level=Level.server),
        trace_job(4, 3, at=40, lasts=50, max_level=Level.server),
        trace_job(5, 4, at=40, lasts=50, max_level=Level.server),
    ),
    until_us=1_000,
)


@pytest.mark.parametrize("name", ["fifo", "fifo_easy"])
def test_room_is_made_in_order_where_nobody_overtakes(name: str) -> None:
    by = policy(name, placement="topology")
    by = replace(by, placement=Topology(Mode.spread)).with_room(ROOM)
    outcome = run(IN_LINE, by)

    starts = {
        each.job_id: each.at_us for each in outcome.of(AllocationChanged) if each.allocation.shares
    }
    assert len({each.allocation.shares[0].node for each in outcome.of(AllocationChanged)[:3]}) == 3
    assert starts["j3"] == 40
    assert starts["j4"] <= 41, "at once, or when the gang in front of it has started"
    assert starts["j5"] > starts["j4"]
    check_decided_again(IN_LINE, by, outcome)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_looked_at_again_though_nothing_happens(name: str) -> None:
    """The jobs in the way may be moved after 10 us; it is looked at 7 us after each plan."""
    young = World(
        servers=servers(4, 4),
        jobs=(
            *(trace_job(number, lasts=500, priority=1) for number in range(2)),
            trace_job(2, 4, at=3, lasts=50, max_level=Level.server),
        ),
        until_us=1_000,
    )
    by = chosen(name)
    outcome = run(young, by)

    (move,) = moves_of(outcome)
    assert move.at_us == 10
    check_decided_again(young, by, outcome)


def test_why_of_the_moved_job_and_of_the_gang_say_it() -> None:
    by = chosen("fifo")
    outcome = run(FRAGMENTS, by)
    (move,) = moves_of(outcome)
    log = Recorded(outcome.events, rebuilt(by, FRAGMENTS.rules(instant=True)))

    moved = details(asyncio.run(asked(log, move.job_id, move.at_us)))
    gang = details(asyncio.run(asked(log, "j4", move.at_us)))

    # j0 and j1 are taken to run for as long again as they did, 40 us: 160 GPU-us for the gang.
    numbers = "which saves 0.00016 GPU-seconds of waiting as far as can be told, and costs 1e-06"
    assert f"moved to make room for j4, {numbers}" in moved[0]
    assert moved[1] == "attempt 1 on n0[0] was moved to n1[1] for j4"
    assert f"others were moved to make room, {numbers}" in gang[0]
    assert gang[1] == "j0 had to move for it"
