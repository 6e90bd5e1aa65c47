"""Laws of the fold: a state that was written down and read again goes on as if it never was.

The events are those of small simulated runs, with people, costs and failures in some of them.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from shunter.ask import JobHistory, read_histories
from shunter.backends.simulated import Costs, Failures
from shunter.core import Backend, Effect, Input, Scheduler, State, run_rounds
from shunter.core.fold import apply, replay
from shunter.events import (
    AllocationChanged,
    AttemptLost,
    Event,
    GpusReleased,
    JobId,
    JobSubmitted,
    NodeRemoved,
    decode_record,
    encode_payload,
    encode_record,
)
from tests.commanded import Commanded
from tests.factories import (
    POLICY_NAMES,
    Tape,
    World,
    drive,
    las_policy,
    node_added,
    node_name,
    policy,
    quota,
    run,
    servers,
    trace_job,
)
from tests.property.worlds import Scene, scenes
from tests.replay.recording import reading
from tests.slices import searched

CROWD = tuple(
    trace_job(n, gpus, at=n // 3 * 4, lasts=lasts, queue="ab"[n % 2], priority=int(n == 5))
    for n, (gpus, lasts) in enumerate(
        [(2, 60), (4, 9), (1, 30), (8, 20), (2, 5), (3, 40), (1, 1), (2, 25), (4, 7), (1, 12)]
    )
)
PLAIN = World(servers=servers(4, 4), jobs=CROWD, round_us=5)
COSTLY = World(servers=servers(4, 4), jobs=CROWD, costs=Costs(2, 3, 1, 4), queues=(quota("b", 5),))
FAILING = World(
    servers=servers(4, 4, 2),
    jobs=CROWD,
    costs=Costs(1, 1, 1, 1),
    failures=Failures({node_name(n): "" for n in range(3)}, 3, 40, 10),
    until_us=200,
)
WORLDS = {"plain": PLAIN, "costs and quota": COSTLY, "failures": FAILING}

every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
every_policy = pytest.mark.parametrize("name", POLICY_NAMES)


def chosen(name: str) -> Any:
    """Return a policy whose thresholds such short jobs reach."""
    return las_policy() if name == "las" else policy(name)


def again(state: State) -> State:
    """Return the state that is read where this one was written."""
    copy: State = decode_record(State, encode_record(state))
    return copy


def events_of(world: World, name: str) -> list[Event]:
    return run(world, chosen(name)).events


def test_worlds_have_what_the_laws_are_tried_on() -> None:
    events = [event for world in WORLDS.values() for event in events_of(world, "las")]
    kinds = {type(event) for event in events}
    assert {AllocationChanged, GpusReleased, AttemptLost} <= kinds


@every_world
@every_policy
def test_replay_of_a_log_is_the_replay_of_its_parts(name: str, world: World) -> None:
    """At every cut, straight on and through the bytes of the state at the cut."""
    events = events_of(world, name)
    whole = encode_record(replay(events))
    for cut in range(0, len(events), 3):
        state = replay(events[:cut])
        copy = again(state)
        assert encode_record(copy) == encode_record(state)
        assert encode_record(replay(events[cut:], state)) == whole
        assert encode_record(replay(events[cut:], copy)) == whole


@every_world
def test_decoded_state_has_the_same_derived_parts(world: World) -> None:
    events = events_of(world, "las")
    for cut in range(len(events)):
        state = replay(events[:cut])
        copy = again(state)
        assert copy.cluster == state.cluster
        assert copy.cluster.pools == state.cluster.pools
        assert list(copy.cluster.pools) == list(state.cluster.pools)
        assert copy.queues == state.queues


def test_decoded_cluster_keeps_the_order_of_its_pools() -> None:
    state = replay(
        [
            node_added(0, 4),
            node_added(1, 4),
            node_added(2, 4, gpu_type="k80"),
            NodeRemoved(0, node_name(0)),
            node_added(0, 8),
        ]
    )
    assert list(again(state).cluster.pools) == ["v100", "k80"]


@searched(60)
@given(scene=scenes(), name=st.sampled_from(POLICY_NAMES), part=st.floats(0, 1))
def test_state_read_again_goes_on_as_if_it_never_was_written(
    scene: Scene, name: str, part: float
) -> None:
    def peopled(backend: Any) -> Commanded:
        return Commanded(backend, scene.commands)

    events = run(scene.world, chosen(name), wrapped=peopled).events
    cut = int(part * len(events))
    resumed = replay(events[cut:], again(replay(events[:cut])))
    assert encode_record(resumed) == encode_record(replay(events))


class Forgetting:
    """Makes a core read its policy's memory from bytes before every few steps."""

    def __init__(self, backend: Backend, core: Scheduler, every: int) -> None:
        self.instant = backend.instant
        self.steps = 0
        self._backend, self._core, self._every = backend, core, every

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        await self._backend.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        self.steps += 1
        if self.steps % self._every == 0:
            remember(self._core)
        return await self._backend.observe(until_us, gather_us)


def remember(core: Scheduler) -> None:
    """Put a memory that was written and read in the place of the core's own."""
    memory = decode_record(type(core.memory), encode_record(core.memory))
    assert encode_record(memory) == encode_record(core.memory)
    core.memory = core.planner.memory = memory
    core._routes = core._routed()


def payload_of(scene: Scene, name: str, every: int) -> bytes:
    """Return the bytes of a run whose memory is read again before every few steps."""
    world = scene.world
    backend: Any = world.backend()
    peopled = Commanded(backend, scene.commands)
    core, events = world.scheduler(chosen(name), instant=peopled.instant)
    tape = Tape(events)
    forgetting = Forgetting(peopled, core, every)
    drive(run_rounds(core, forgetting, tape, until_us=world.until_us))
    return encode_payload(tape.events)


NEVER = 1 << 30


@pytest.mark.parametrize("every", [1, 2, 5])
@every_world
@every_policy
def test_memory_read_again_leads_to_the_same_events(name: str, world: World, every: int) -> None:
    scene = Scene(world, (), "consolidated")
    assert payload_of(scene, name, every) == payload_of(scene, name, NEVER)


@searched(60)
@given(scene=scenes(), name=st.sampled_from(POLICY_NAMES), every=st.integers(1, 4))
@example(scene=Scene(COSTLY, (), "consolidated"), name="las", every=1)
def test_memory_read_again_leads_to_the_same_events_in_any_world(
    scene: Scene, name: str, every: int
) -> None:
    assert payload_of(scene, name, every) == payload_of(scene, name, NEVER)


SLOW = World(servers=servers(4, 4), jobs=CROWD, costs=Costs(2, 3, 6, 4), round_us=2)


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("world", [COSTLY, FAILING, SLOW], ids=["costly", "failing", "slow"])
def test_history_of_a_job_has_its_attempts_where_the_fold_launched_them(
    world: World, name: str
) -> None:
    """In the slow world of `las`, jobs are given other GPUs before they were launched."""
    events, state, launched = events_of(world, name), State(), {}
    for event in events:
        for job in apply(state, event).launched:
            launched[job.job_id, job.attempt] = job.held

    async def histories() -> dict[JobId, JobHistory]:
        async with reading(events) as reader:
            ids = [event.job_id for event in events if isinstance(event, JobSubmitted)]
            return await read_histories(reader, ids)

    found = {
        (job_id, attempt.number): attempt.allocation
        for job_id, history in asyncio.run(histories()).items()
        for attempt in history.attempts
    }
    assert found == {key: launched[key] for key in found}
    under_way = {(job.job_id, job.attempt) for job in state.jobs.values()}
    assert launched.keys() - found.keys() <= under_way
