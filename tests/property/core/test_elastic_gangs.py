"""Whatever a policy and people do with sizes of gangs, each stays within its bounds, and replays.

The policy asks for any size of any job, within its bounds or not; people ask for sizes within.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from shunter.ask import Verifier, end_of_decision, wait_of
from shunter.ask.why import document, explain
from shunter.backends.simulated import Samples, Slicing
from shunter.core import (
    WAITING,
    AnyPolicy,
    Change,
    Command,
    Plan,
    Resize,
    ResizeJob,
    Rng,
    Start,
    State,
    View,
    state_digest,
)
from shunter.core.fold import apply, replay
from shunter.core.planning import PLACEMENTS, FirstFit, RoundRules, place
from shunter.core.ranking import RankedPolicy
from shunter.core.speeds import SpeedModel
from shunter.events import (
    BY_POLICY,
    GROWS,
    SHRINKS,
    STARTS_SMALLER,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Because,
    Event,
    JobFinished,
    JobId,
    JobResized,
    JobSpec,
    JobSubmitted,
    PlanRejected,
    Reason,
    SchedulerStarted,
    Share,
    SuspendMode,
    decode_record,
    encode_record,
)
from shunter.policies import RemainingService
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import Outcome, las_policy, policy, run
from tests.property.test_gavel import gavel, two_level
from tests.property.worlds import Scene, scenes
from tests.replay.recording import reading, rebuilt
from tests.slices import searched
from tests.stateless import Stateless

BECAUSE = Because("whim")


@dataclass
class Whimsical(Stateless):
    """Starts who waits where there is room, and asks for other sizes as it likes."""

    seed: int = 0
    name: str = "whimsical"
    version: str = "1"
    oracle: bool = False

    def settled(self, memory: None) -> bool:
        return True

    def wake_at(self, memory: None) -> int | None:
        return 0

    def plan(self, memory: None, view: View, rng: Rng) -> Plan:
        changes = list[Change]()
        nodes = [server for pool in view.pools.values() for server in pool.servers]
        pools = {name: pool.copied() for name, pool in view.pools.items()}
        for job in view.jobs.values():
            if rng.random() < 0.3 and nodes:
                server = nodes[int(rng.random() * len(nodes))]
                mask = int(rng.random() * (1 << min(4, server.configuration.gpus)))
                there = Allocation((Share(server.name, mask),))
                changes.append(Resize(job.job_id, there, BECAUSE))
            elif job.is_eligible:
                found = [place(FirstFit(), pool, job.demand) for pool in pools.values()]
                shares = next((one for one in found if not isinstance(one, Reason)), None)
                if shares is not None:
                    changes.append(Start(job.job_id, Allocation(shares), BECAUSE))
        return Plan(tuple(changes))


@st.composite
def elastic_scenes(draw: st.DrawFn) -> Scene:
    """Return a scene in which most jobs are elastic and people resize some of them."""
    scene = draw(scenes())
    world, commands = scene.world, list[Command](scene.commands)
    jobs = []
    for job in world.jobs:
        spec = draw(_elastic(job.spec))
        jobs.append(replace(job, spec=spec))
        if spec.is_elastic and draw(st.integers(0, 2)) == 0:
            fewest, most = spec.sizes
            at_us = job.submit_us + draw(st.integers(0, 60))
            commands.append(ResizeJob(at_us, job.job_id, draw(st.integers(fewest, most)), "ana"))
    nodes = {server.node: server.configuration for server in world.servers}
    speeds = world.speeds or SpeedModel(nodes)
    return replace(
        scene,
        world=replace(world, jobs=tuple(jobs), speeds=speeds),
        commands=tuple(sorted(commands, key=lambda command: command.at_us)),
    )


@st.composite
def _elastic(draw: st.DrawFn, spec: JobSpec) -> JobSpec:
    if not spec.gpus or spec.suspend_mode is not SuspendMode.cooperative or spec.shapes:
        return spec
    fewest = draw(st.one_of(st.none(), st.integers(1, spec.gpus)))
    most = draw(st.one_of(st.none(), st.integers(spec.gpus, spec.gpus + 6)))
    return replace(spec, gpus_min=fewest, gpus_max=most)


def played(scene: Scene, by: Any) -> tuple[Outcome, list[Event], RoundRules]:
    outcome = run(scene.world, by, wrapped=lambda backend: Commanded(backend, scene.commands))
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    rules = scene.world.rules(instant=scene.world.backend().instant)
    return outcome, [replace(start, simulated=True), *outcome.events[1:]], rules


def growing(after_us: int, **more: object) -> AnyPolicy:
    params = Gandiva.Params.model_validate({"grow_after": f"{after_us}us", **more})
    return Gandiva.build(params, PLACEMENTS["consolidated"]())


@searched(60)
@given(scene=elastic_scenes(), after_us=st.sampled_from([None, 1, 10, 40]))
def test_sizes_stay_within_bounds_and_every_run_is_decided_again(
    scene: Scene, after_us: int | None
) -> None:
    by: Any = Whimsical() if after_us is None else growing(after_us)
    if after_us is not None:
        scene = replace(scene, world=replace(scene.world, slicing=Slicing(7, 1, 30)))
    outcome, events, rules = played(scene, by)
    state = State()
    bounds = {event.job_id: event.spec.sizes for event in events if isinstance(event, JobSubmitted)}
    for event in events:
        if isinstance(event, JobResized):
            fewest, most = bounds[event.job_id]
            assert fewest <= event.gpus <= most
        assert not isinstance(event, PlanRejected) or event.detail
        apply(state, event)
        for job in state.jobs.values():
            fewest, most = bounds[job.job_id]
            assert fewest <= job.spec.gpus <= most
            assert not job.allocation.shares or fewest <= job.allocation.gpus <= most
            assert not job.held.shares or fewest <= job.held.gpus <= most
            assert job.submitted_spec.sizes == (fewest, most)
        used = dict.fromkeys(state.queues, 0)
        for job in state.jobs.values():
            used[job.spec.queue] += job.allocation.gpus
        assert used == {name: queue.gpus for name, queue in state.queues.items()}
    verifier = Verifier(rebuilt(by, rules))
    divergence = verifier.take(events)
    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state) == state_digest(state)
    if after_us is not None:
        assert not outcome.of(PlanRejected)
        assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


OTHERS: dict[str, Callable[[], Any]] = {
    "fifo_easy": lambda: policy("fifo_easy"),
    "las": las_policy,
    "srtf": lambda: policy("srtf"),
    "shortest_gpu": lambda: RankedPolicy(RemainingService(), PLACEMENTS["consolidated"]()),
    "gandiva": lambda: Gandiva.build(Gandiva.Params(), PLACEMENTS["consolidated"]()),
    "max_min_fairness": lambda: gavel("max_min_fairness"),
    "allox": lambda: gavel("allox"),
    "two_level": lambda: two_level("las", "consolidated"),
}


@pytest.mark.parametrize("name", OTHERS)
@searched(25)
@given(scene=elastic_scenes())
def test_people_resize_under_any_policy_and_nothing_is_refused(name: str, scene: Scene) -> None:
    if name == "gandiva":
        scene = replace(scene, world=replace(scene.world, slicing=Slicing(7, 1, 30)))
    by = OTHERS[name]()
    outcome, events, rules = played(scene, by)
    unresized = [one for one in scene.commands if not isinstance(one, ResizeJob)]
    if outcome.of(PlanRejected):  # some are refused for other reasons, as without any resize
        assert played(replace(scene, commands=tuple(unresized)), OTHERS[name]())[0].of(PlanRejected)
    verifier = Verifier(rebuilt(by, rules))
    divergence = verifier.take(events)
    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


TRIES: dict[str, object] = {
    "packing": {"probe": "7us"},
    "migration": {"probe": "7us", "cost": "0s", "goals": ["colocate", "lower_height", "apart"]},
}


@searched(40)
@given(scene=elastic_scenes())
def test_jobs_grow_and_shrink_while_packs_and_moves_are_tried(scene: Scene) -> None:
    jobs = tuple(replace(one, spec=replace(one.spec, total_steps=40)) for one in scene.world.jobs)
    world = replace(scene.world, slicing=Slicing(7, 1, 30), samples=Samples(2, 0.1), jobs=jobs)
    by = growing(5, **TRIES)
    outcome, events, rules = played(replace(scene, world=world), by)
    assert not [one for one in outcome.of(PlanRejected) if one.rule in (GROWS, SHRINKS)]
    verifier = Verifier(rebuilt(by, rules))
    divergence = verifier.take(events)
    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)


@searched(40)
@given(scene=elastic_scenes(), name=st.sampled_from(["growing", "whimsical", "fifo", "las"]))
def test_why_accounts_for_every_instant_of_jobs_that_are_resized(scene: Scene, name: str) -> None:
    """And its reason is the one that the state has, whatever sizes its class has gone through."""
    if name == "growing":
        scene = replace(scene, world=replace(scene.world, slicing=Slicing(7, 1, 30)))
    by: Any = (
        growing(10) if name == "growing" else Whimsical() if name == "whimsical" else policy(name)
    )
    _, events, rules = played(scene, by)
    resized = dict.fromkeys(event.job_id for event in events if isinstance(event, JobResized))

    async def ask() -> None:
        async with reading(events) as reader:
            for seq in sorted({len(events), len(events) // 2}):
                end = await end_of_decision(reader, seq)
                state = replay(events[:end])
                for job in [state.jobs[name] for name in resized if name in state.jobs][:4]:
                    asked = (reader, job.job_id, seq, state.now_us, rebuilt(by, rules))
                    found = await explain(*asked)
                    assert found.held_us == job.occupied_us(state.now_us)
                    assert found.held_us + found.waited_us == state.now_us - job.submitted_us
                    if job.phase is WAITING and found.waits_now is not None:
                        wait = wait_of(job, state)
                        assert wait is not None
                        assert found.waits_now.wait.reason is wait.reason
                    told = document(found)
                    assert told["headline"]
                    assert job.first_spec is None or told["size"]["gpus"] == job.spec.gpus

    asyncio.run(ask())


@searched(25)
@given(scene=elastic_scenes(), cut=st.floats(0, 1))
def test_state_with_sizes_is_read_as_it_was_written(scene: Scene, cut: float) -> None:
    events = played(scene, Whimsical())[1]
    at = int(cut * len(events))
    whole, before = replay(events), replay(events[:at])
    after: State = decode_record(State, encode_record(before))
    for event in events[at:]:
        apply(after, event)
    assert state_digest(after) == state_digest(whole)


@searched(40)
@given(scene=elastic_scenes())
def test_work_of_a_job_is_the_same_whatever_its_sizes(scene: Scene) -> None:
    """Goal: no size makes or loses work. Method: worlds in which neither costs nor failures do.

    A job that finished did its duration: gang by gang, the time at work times the speed of its
    size. Each start rounds by less than a microsecond of work for each GPU.
    """
    world = replace(
        scene.world,
        costs=type(scene.world.costs)(),
        failures=type(scene.world.failures)(),
        speeds=SpeedModel({one.node: one.configuration for one in scene.world.servers}),
        live_reactions=False,
    )
    outcome, events, _ = played(replace(scene, world=world), Whimsical())
    gangs = {event.job_id: event.spec for event in events if isinstance(event, JobSubmitted)}
    durations = {job.job_id: job.duration_us for job in world.jobs}
    service, starts = _services(events), Counter(one.job_id for one in outcome.of(AttemptStarted))
    for end in outcome.of(JobFinished):
        spec, job_id = gangs[end.job_id], end.job_id
        if spec.suspend_mode is SuspendMode.cooperative and spec.gpus:
            done = spec.gpus * durations[job_id]
            slack = (spec.sizes[1] + spec.gpus) * (starts[job_id] + 1)
            assert abs(service[job_id] - done) <= slack, (job_id, service[job_id], done)


def _services(events: list[Event]) -> dict[JobId, int]:
    """Return the GPU time that each job which finished was credited with."""
    state, found = State(), dict[JobId, int]()
    for event in events:
        if isinstance(event, JobFinished):
            found[event.job_id] = state.jobs[event.job_id].service_us(event.at_us)
        apply(state, event)
    return found


def test_the_policy_really_resizes() -> None:
    """Goal: the laws above are about something. Method: one scene that is known to resize."""
    counts, grown = list[bool](), list[str]()

    @settings(max_examples=60, deadline=None, database=None)
    @given(scene=elastic_scenes())
    def look(scene: Scene) -> None:
        outcome = played(scene, Whimsical())[0]
        counts.extend(event.by == BY_POLICY for event in outcome.of(JobResized))
        world = replace(scene.world, slicing=Slicing(7, 1, 30))
        found = played(replace(scene, world=world), growing(10))[0].of(AllocationChanged)
        grown.extend(event.because.rule for event in found)

    look()
    assert any(counts)
    assert not all(counts)
    assert {GROWS, SHRINKS, STARTS_SMALLER} <= set(grown)
