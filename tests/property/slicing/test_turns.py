"""Whatever happens in a cluster that shares GPUs in turns, each turn is whole and nobody's else."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from shunter.backends.simulated import Slicing
from shunter.core import State
from shunter.core.fold import apply
from shunter.core.planning import PLACEMENTS
from shunter.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Event,
    JobCancelled,
    JobId,
    JobSubmitted,
    JobSuspended,
    NodeName,
    Share,
    Sharing,
    TurnEnded,
    TurnStarted,
)
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import run
from tests.property.worlds import Scene, scenes
from tests.slices import searched

_OVER = (AttemptEnded, AttemptLost, JobSuspended, JobCancelled)


def played(scene: Scene, slicing: Slicing) -> list[Event]:
    world = replace(scene.world, slicing=slicing)
    by = Gandiva.build(Gandiva.Params(), PLACEMENTS[scene.placement]())
    return run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands)).events


@searched(40)
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
    has: dict[JobId, dict[NodeName, Share]] = {}
    on: dict[JobId, int] = {}  # since when, of those that have all of their GPUs
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
                parts = has.setdefault(event.job_id, {})
                assert not parts.keys() & {share.node for share in event.shares}
                parts.update({share.node: share for share in event.shares})
                if sum(share.gpus for share in parts.values()) == gangs[event.job_id]:
                    on[event.job_id] = event.at_us
            case TurnEnded() | AttemptEnded() | AttemptLost() | JobSuspended() | JobCancelled():
                parts = has.pop(event.job_id, {})
                assert not isinstance(event, TurnEnded) or parts
                if event.job_id in on:
                    had_us[event.job_id] += event.at_us - on.pop(event.job_id)
                if isinstance(event, TurnEnded) and event.nodes:
                    assert parts.keys() >= set(event.nodes)
                    left = {node: parts[node] for node in parts if node not in event.nodes}
                    has |= {event.job_id: left} if left else {}
                if isinstance(event, _OVER):
                    started.discard(event.job_id)
            case _:
                pass
        apply(state, event)
        assert state.gang_turns.keys() == has.keys() - on.keys()
        for job in state.jobs.values():
            if job.held.sharing is Sharing.exclusive and job.held.gpus:
                alone.add(job.job_id)
            if job.job_id not in alone:
                now_us = had_us[job.job_id]
                now_us += event.at_us - on[job.job_id] if job.job_id in on else 0
                assert job.service_us(event.at_us) == now_us * gangs[job.job_id]
        taken = Counter(
            (share.node, gpu)
            for parts in has.values()
            for share in parts.values()
            for gpu in range(64)
            if share.gpu_mask >> gpu & 1
        )
        assert not taken or max(taken.values()) == 1
