"""Peer policies outside their setting: rounds, costs, failures, guards, people; and replay.

There they need not make sense, but every plan must hold, and every decision come out again.
"""

from dataclasses import replace

import pytest
from hypothesis import given

from shunter.ask import Verifier
from shunter.core import state_digest
from shunter.events import SchedulerStarted, encode_record
from tests.commanded import Commanded
from tests.factories import run
from tests.peers.played import tiresias_policy
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, rebuilt
from tests.slices import searched

SCHEDULES = ("dlas-gpu-1", "dlas-gpu-gittins", "shortest-gpu")


@pytest.mark.parametrize("schedule", SCHEDULES)
@searched(40)
@given(scene=scenes())
def test_any_run_is_decided_again_to_the_same_state_and_memory(schedule: str, scene: Scene) -> None:
    by = tiresias_policy(schedule)
    outcome = run(scene.world, by, wrapped=lambda backend: Commanded(backend, scene.commands))
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    rules = scene.world.rules(instant=scene.world.backend().instant)
    recorded = Recorded([replace(start, simulated=True), *outcome.events[1:]], rebuilt(by, rules))

    verifier = Verifier(recorded.rebuild)
    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)
