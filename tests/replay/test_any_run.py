"""Laws of replay, over any small world with people in it, under every policy."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given

from shunter.ask import Verifier, end_of_decision, fold_events
from shunter.ask.why import details, document, explain
from shunter.backends.simulated import Slicing
from shunter.core import AnyPolicy, State, state_digest
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import RankedPolicy
from shunter.events import SchedulerStarted, encode_record
from shunter.policies import AttainedService
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import Outcome, las_policy, policy, run
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, reading, rebuilt
from tests.slices import searched

POLICIES = (
    "fifo",
    "fifo_backfill",
    "fifo_easy",
    "gandiva",
    "las",
    "las, continuous",
    "sjf",
    "srtf",
)
TURNS = Slicing(7, 1, 30)


def chosen(name: str, placement: str) -> AnyPolicy:
    if name == "gandiva":
        return Gandiva.build(Gandiva.Params(height_most=3), PLACEMENTS[placement]())
    if name == "las":
        return las_policy(placement=placement)
    if name == "las, continuous":
        return RankedPolicy(AttainedService(()), PLACEMENTS[placement]())
    return policy(name, placement)


def played(scene: Scene, name: str) -> tuple[Outcome, Recorded]:
    by, world = chosen(name, scene.placement), scene.world
    if name == "gandiva":
        world = replace(world, slicing=TURNS)
    outcome = run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands))
    rules = world.rules(instant=world.backend().instant)
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    events = [replace(start, simulated=True), *outcome.events[1:]]
    return outcome, Recorded(events, rebuilt(by, rules))


@pytest.mark.parametrize("name", POLICIES)
@searched(40)
@given(scene=scenes())
def test_any_run_is_decided_again_to_the_same_state_and_memory(name: str, scene: Scene) -> None:
    outcome, recorded = played(scene, name)
    verifier = Verifier(recorded.rebuild)

    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


@pytest.mark.parametrize("name", POLICIES)
@searched(15)
@given(scene=scenes())
def test_why_accounts_for_every_instant_and_agrees_with_the_record(name: str, scene: Scene) -> None:
    _, recorded = played(scene, name)
    events = recorded.events

    async def ask_for_all() -> None:
        async with reading(events) as reader:
            for seq in sorted({len(events), len(events) // 2, len(events) // 3}):
                state = State()
                end = await end_of_decision(reader, seq)
                fold_events(state, events[:end])
                for job in list(state.jobs.values())[:6]:
                    found = await explain(reader, job.job_id, seq, state.now_us, recorded.rebuild)
                    assert found.story.seq == end
                    assert found.phase == job.phase
                    assert found.held_us == job.occupied_us(state.now_us)
                    assert found.held_us + found.waited_us == state.now_us - job.submitted_us
                    assert found.agreement.agrees
                    assert document(found)["headline"]
                    assert details(found) or found.phase not in ("waiting", "running")

    asyncio.run(ask_for_all())
