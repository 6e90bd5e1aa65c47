"""Every counterfactual that is stated is true: the run is made again with the change in it."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, strategies as st

from shunter.ask import fold_events
from shunter.ask.forks import (
    Counterfactual,
    Counterfactuals,
    ForkChange,
    ForkPoint,
    MakeWorld,
    counterfactuals,
    fork_point,
)
from shunter.backends.simulated import NO_FAILURES, NO_SAMPLES, Costs
from shunter.core import CancelJob, ChangePriority, Command, JobPhase, ResizeJob, State
from shunter.core.speeds import SpeedModel
from shunter.events import JobId
from tests.factories import World
from tests.property.forking.test_forks import MOMENTS, last_of_instants, played_by, world_of
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, reading
from tests.replay.test_any_run import POLICIES, played
from tests.slices import searched

CHECKED_MOST = 2


def orders_of(claim: Counterfactual, job_id: JobId, at_us: int) -> list[Command] | None:
    """Return what people would have to order; None: it is nothing that they could."""
    if claim.kind in ("end", "ends"):
        return [CancelJob(at_us, other) for other in claim.jobs]
    if claim.kind == "priority":
        return [ChangePriority(at_us, job_id, int(claim.words.rpartition(" ")[2]))]
    return None


def world_with(world: World, change: ForkChange) -> MakeWorld:
    """Return what makes the world; a gang of another size has a speed of its own."""
    if any(isinstance(order, ResizeJob) for order in change.orders):
        nodes = {each.node: each.configuration for each in world.servers}
        world = replace(world, speeds=SpeedModel({**nodes, **dict(change.added)}))
    return lambda jobs, resumed: world_of(world, jobs, resumed)


def has_gpus(recorded: Recorded, job_id: JobId, from_us: int, to_us: int) -> bool:
    """Say whether a job is given GPUs at any time between two instants, or has them all along."""
    state = State()
    for event in recorded.events:
        if event.at_us > to_us:
            break
        fold_events(state, [event])
        if event.at_us >= from_us and _is_given(state, job_id):
            return True
    return _is_given(state, job_id)


def _is_given(state: State, job_id: JobId) -> bool:
    return job_id in state.jobs and bool(state.jobs[job_id].allocation.shares)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "gandiva"])
@searched(20)
@given(scene=scenes(), share=MOMENTS)
def test_each_that_is_stated_starts_the_job(name: str, scene: Scene, share: float) -> None:
    plain = replace(
        scene.world, costs=Costs(), failures=NO_FAILURES, speeds=None, samples=NO_SAMPLES
    )
    scene = replace(scene, world=plain)
    world, recorded = played_by(scene, name)
    places = last_of_instants(recorded.events)
    seq = places[int(share * (len(places) - 1))]

    async def told() -> tuple[ForkPoint, dict[JobId, tuple[Counterfactual, ...]]]:
        async with reading(recorded.events) as reader:
            point = await fork_point(reader, seq, recorded.rebuild)
        waiting = [job for job in point.state().jobs.values() if job.phase is JobPhase.waiting]
        return point, {
            job.job_id: (
                await counterfactuals(
                    point,
                    partial(world_with, world),
                    job.job_id,
                    (),
                )
            ).found
            for job in waiting[:CHECKED_MOST]
        }

    point, found = asyncio.run(told())

    # What comes later might be ahead of the job, and is no part of what is claimed.
    there = tuple(job for job in world.jobs if job.submit_us <= point.at_us)
    before = [each for each in scene.commands if each.at_us <= point.at_us]
    scene = replace(scene, world=replace(scene.world, jobs=there))
    for job_id, claims in found.items():
        for claim in claims:
            orders = orders_of(claim, job_id, point.at_us)
            if orders is not None:
                commands = [*before, *orders]
                _, again = played(replace(scene, commands=tuple(commands)), name)
                assert has_gpus(again, job_id, point.at_us, claim.starts_us), claim


@pytest.mark.parametrize("name", POLICIES)
@searched(10)
@given(scene=scenes(), share=MOMENTS, later_us=st.integers(0, 2000))
def test_nothing_happens_between_the_moment_and_the_instant_it_is(
    name: str, scene: Scene, share: float, later_us: int
) -> None:
    """Method: launches are under way at many moments, which have not come to their ends later."""
    unbroken = replace(scene.world, failures=NO_FAILURES, speeds=None)
    world, recorded = played_by(replace(scene, world=unbroken), name)
    places = last_of_instants(recorded.events)
    seq = places[int(share * (len(places) - 1))]

    async def told() -> tuple[int, list[Counterfactuals]]:
        async with reading(recorded.events) as reader:
            point = await fork_point(reader, seq, recorded.rebuild)
        now_us, with_change = point.at_us + later_us, partial(world_with, world)
        waiting = [job for job in point.state().jobs.values() if job.phase is JobPhase.waiting]
        return now_us, [
            await counterfactuals(point, with_change, job.job_id, (), now_us)
            for job in waiting[:CHECKED_MOST]
        ]

    now_us, found = asyncio.run(told())
    starts = [claim.starts_us for each in found for claim in each.found]
    starts += [each.starts_us for each in found if each.starts_us is not None]
    assert all(starts_us >= now_us for starts_us in starts)
