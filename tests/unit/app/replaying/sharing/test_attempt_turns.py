"""Turns of attempts as histories and `why` tell them, against the facts and the fold."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from shunter.ask import AttemptTurns, JobHistories
from shunter.backends.simulated import Slicing
from shunter.core import State
from shunter.core.fold import apply
from shunter.core.planning import PLACEMENTS
from shunter.events import (
    JOB_ENDS,
    AttemptStarted,
    Event,
    JobId,
    JobSuspended,
    Share,
    TurnEnded,
    TurnStarted,
)
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import job_id, node_name, run
from tests.property.worlds import Scene, scenes
from tests.slices import searched

J0 = job_id(0)
TWO = (Share(node_name(0), 0b11),)


def turned(*events: Event) -> AttemptTurns:
    turns = AttemptTurns()
    for event in events:
        turns.take(event)
    return turns


def test_turn_counts_from_when_it_was_and_not_from_when_it_was_seen() -> None:
    turns = turned(
        AttemptStarted(10, J0, 1),
        TurnStarted(100, J0, 1, TWO, began_us=20),
        TurnEnded(100, J0, 1, ended_us=50),
        TurnStarted(100, J0, 1, TWO, began_us=70),
    )
    assert (turns.count, turns.is_on, turns.changed_us) == (2, True, 70)
    assert turns.on_us(120) == 30 + 50
    assert turns.service_gpu_us(120) == 2 * (30 + 50)


def test_no_turn_begins_before_the_last_one_ended() -> None:
    turns = turned(
        TurnStarted(20, J0, 1, TWO),
        TurnEnded(50, J0, 1),
        TurnStarted(60, J0, 1, TWO, began_us=40),
        JobSuspended(70, J0, 1),
    )
    assert turns.on_us(900) == 30 + 20
    assert not turns.is_on


@searched(25)
@given(scene=scenes(), quantum_us=st.sampled_from([1, 5, 100]))
def test_service_of_a_job_that_ends_is_what_the_state_said_of_it(
    scene: Scene, quantum_us: int
) -> None:
    """Those of attempts without turns count from their start, so what came before is added."""
    world = replace(scene.world, slicing=Slicing(quantum_us, 1, None))
    by = Gandiva.build(Gandiva.Params(), PLACEMENTS[scene.placement]())
    state, histories = State(), JobHistories()
    launched: Counter[JobId] = Counter()
    for event in run(world, by, wrapped=lambda one: Commanded(one, scene.commands)).events:
        ended = state.jobs.get(event.job_id) if isinstance(event, JOB_ENDS) else None
        if isinstance(event, AttemptStarted):
            job = state.jobs[event.job_id]
            launched[event.job_id] += job.gpus * (event.at_us - (job.since_us or 0))
        service_us = None if ended is None else ended.service_us(event.at_us)
        apply(state, event)
        histories.take(event)
        if ended is not None and ended.first_start_us is not None:
            history = histories.of(ended.job_id)
            assert history is not None
            if history.service_gpu_us is not None and all(a.started_us for a in history.attempts):
                assert history.service_gpu_us + launched[ended.job_id] == service_us
