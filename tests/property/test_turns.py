"""Whatever happens in a cluster that shares GPUs in turns, each turn is whole and nobody's else."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.backends.simulated.turns import Slicing
from shunter.core.fold import apply
from shunter.core.placement import PLACEMENTS
from shunter.core.state import State
from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    JobSuspended,
    TurnEnded,
    TurnStarted,
)
from shunter.events.facts.jobs import JobCancelled, JobSubmitted
from shunter.events.kinds import Event
from shunter.events.values.allocation import Share, Sharing
from shunter.events.values.ids import JobId
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import run
from tests.property.worlds import Scene, scenes

_OVER = (AttemptEnded, AttemptLost, JobSuspended, JobCancelled)


def played(scene: Scene, slicing: Slicing) -> list[Event]:
    world = replace(scene.world, slicing=slicing)
    by = Gandiva.build(Gandiva.Params(), PLACEMENTS[scene.placement]())
    return run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands)).events


@settings(max_examples=40)
@given(
    scene=scenes(),
    quantum_us=st.sampled_from([1, 5, 12, 100]),
    switch_us=st.sampled_from([0, 0, 1, 4]),
    wait_most_us=st.sampled_from([None, 20]),
)
def test_turns_of_a_gpu_follow_each_other_and_are_all_that_jobs_are_credited_with(
    scene: Scene, quantum_us: int, switch_us: int, wait_most_us: int | None
) -> None:
    events = played(scene, Slicing(quantum_us, switch_us, wait_most_us))
    gangs = {event.job_id: event.spec.gpus for event in events if isinstance(event, JobSubmitted)}
    has: dict[JobId, tuple[Share, ...]] = {}
    since_us: dict[JobId, int] = {}
    started = set[JobId]()
    had_us: Counter[JobId] = Counter()
    alone = set[JobId]()  # on GPUs of their own, of several servers
    state = State()
    for event in events:
        match event:
            case AttemptStarted():
                started.add(event.job_id)
            case TurnStarted():
                assert event.job_id in started
                assert event.job_id not in has
                assert [share.gpus for share in event.shares] == [gangs[event.job_id]]
                has[event.job_id], since_us[event.job_id] = event.shares, event.at_us
            case TurnEnded() | AttemptEnded() | AttemptLost() | JobSuspended() | JobCancelled():
                assert not isinstance(event, TurnEnded) or event.job_id in has
                if has.pop(event.job_id, None) is not None:
                    had_us[event.job_id] += event.at_us - since_us[event.job_id]
                if isinstance(event, _OVER):
                    started.discard(event.job_id)
            case _:
                pass
        apply(state, event)
        for job in state.jobs.values():
            if job.held.sharing is Sharing.exclusive and job.held.gpus:
                alone.add(job.job_id)
            if job.job_id not in alone:
                now_us = had_us[job.job_id]
                now_us += event.at_us - since_us[job.job_id] if job.job_id in has else 0
                assert job.service_us(event.at_us) == now_us * gangs[job.job_id]
        taken = Counter(
            (share.node, gpu)
            for shares in has.values()
            for share in shares
            for gpu in range(64)
            if share.gpu_mask >> gpu & 1
        )
        assert not taken or max(taken.values()) == 1
