"""A fork of a simulated run under the same policy does what the run did."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, reject, strategies as st

from shunter.ask.forks import (
    ForkChange,
    Standing,
    fork_at,
    fork_point,
    read_future,
    rerun_to,
    standing_at,
)
from shunter.backends.simulated import (
    NO_FAILURES,
    NO_SAMPLES,
    Costs,
    Resumed,
    SimulatedBackend,
    TotalWork,
)
from shunter.core import Command, DrainNode, Job, RestoreNode, State
from shunter.events import Event, FactClass, JobId, JobSpec, JobSubmitted, class_of
from shunter.workloads import TraceJob
from tests.factories import Tape, World
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, reading
from tests.replay.test_any_run import POLICIES, TURNS, played
from tests.slices import searched

MOMENTS = st.floats(0, 1)


def last_of_instants(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events after which time goes on."""
    return [
        seq
        for seq, event in enumerate(events, 1)
        if seq == len(events) or events[seq].at_us != event.at_us
    ]


def world_of(world: World, jobs: Sequence[TraceJob], resumed: Resumed | None) -> SimulatedBackend:
    backend = SimulatedBackend(
        jobs,
        costs=world.costs,
        lease=world.lease,
        failures=world.failures,
        speeds=world.speeds,
        samples=world.samples,
        retries=world.live_reactions,
        slicing=world.slicing,
    )
    if resumed is not None:
        backend.resume(resumed, world.costs, in_steps=False)
    return backend


def unknown(job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
    raise AssertionError(f"a trace knows all work, of {job_id} too")


def played_by(scene: Scene, name: str) -> tuple[World, Recorded]:
    """Return the world of a scene, and its run without the orders of which no log would tell.

    An order to a job that has gone becomes no fact, and yet it is a step in which to plan.
    """
    for _ in range(4):
        _, recorded = played(scene, name)
        told = [each for each in scene.commands if is_told(each, recorded.events)]
        if len(told) == len(scene.commands):
            turns = TURNS if name == "gandiva" else scene.world.slicing
            return replace(scene.world, slicing=turns), recorded
        scene = replace(scene, commands=tuple(told))
    reject()
    raise AssertionError("rejecting raises")


def is_told(command: Command, events: Sequence[Event]) -> bool:
    about = "node" if isinstance(command, (DrainNode, RestoreNode)) else "job_id"
    return any(
        event.at_us == command.at_us
        and getattr(event, about, None) == getattr(command, about)
        and class_of(event) is FactClass.commanded
        and not isinstance(event, JobSubmitted)
        for event in events
    )


def events_after(recorded: Recorded, seq: int) -> list[Event]:
    return list(recorded.events[seq:])


async def run_on(standing: Standing, world: World) -> list[Event]:
    fork, tape = fork_at(standing, ForkChange()), Tape()
    await fork.run(world.until_us, tape)
    return tape.events


@pytest.mark.parametrize("name", POLICIES)
@searched(25)
@given(scene=scenes(), share=MOMENTS)
def test_fork_of_a_run_made_again_does_what_happened(name: str, scene: Scene, share: float) -> None:
    """Whatever costs, fails, is measured or takes turns: the world is what it was."""
    world, recorded = played_by(scene, name)
    seq = 1 + int(share * (len(recorded.events) - 1))

    async def forked() -> tuple[int, list[Event]]:
        async with reading(recorded.events) as reader:
            whole = await read_future(reader, State(), is_simulated=True)
            standing = await rerun_to(
                reader,
                seq,
                recorded.rebuild,
                lambda jobs, resumed: world_of(world, jobs, resumed),
                whole,
                unknown,
                ForkChange(),
            )
            return standing.state.seq, await run_on(standing, world)

    began, events = asyncio.run(forked())

    assert events == events_after(recorded, began)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "gandiva"])
@searched(25)
@given(scene=scenes(), share=MOMENTS)
def test_fork_of_a_state_does_what_happened_where_nothing_takes_time(
    name: str, scene: Scene, share: float
) -> None:
    plain = replace(
        scene.world,
        costs=Costs(),
        failures=NO_FAILURES,
        speeds=None,
        samples=NO_SAMPLES,
        jobs=tuple(
            replace(job, spec=replace(job.spec, suspend_mode=JobSpec().suspend_mode))
            for job in scene.world.jobs
        ),
    )
    world, recorded = played_by(replace(scene, world=plain), name)
    places = last_of_instants(recorded.events)
    seq = places[int(share * (len(places) - 1))]

    async def forked() -> list[Event]:
        async with reading(recorded.events) as reader:
            point = await fork_point(reader, seq, recorded.rebuild)
            future = await read_future(reader, point.state(), is_simulated=True)
            standing = standing_at(
                point,
                lambda jobs, resumed: world_of(world, jobs, resumed),
                future,
                unknown,
                ForkChange(),
            )
            return await run_on(standing, world)

    assert asyncio.run(forked()) == events_after(recorded, seq)
