"""What holds of Tiresias' queues at every instant of any small world."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import Job, View
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import NO_POOL, RankedPolicy, Ranking
from shunter.events import KINDS, Event, JobId
from shunter.policies import FeedbackQueues
from tests.commanded import Commanded
from tests.factories import run
from tests.property.worlds import Scene, scenes
from tests.slices import searched

BOUNDS_GPU_US = (20, 60)
KNOBS = (0.5, 1.0, 3.0)


class Watched(RankedPolicy):
    """The policy, with its memory in view."""

    def start(self, view: View) -> Ranking:
        memory = super().start(view)
        object.__setattr__(self, "memory", memory)
        return memory


def watched(scene: Scene, knob: float, check: Any) -> None:
    """Run a scene and call `check(view, memory)` after every event."""
    rules = FeedbackQueues(BOUNDS_GPU_US, knob)
    policy = Watched(rules, PLACEMENTS[scene.placement]())

    def seen(event: Event, view: View) -> None:
        check(view, policy.memory)  # type: ignore[attr-defined]  # set when it starts

    run(
        scene.world,
        policy,
        wrapped=lambda backend: Commanded(backend, scene.commands),
        listeners=[dict.fromkeys(KINDS.values(), seen)],
    )


@searched(50)
@given(scene=scenes(), knob=st.sampled_from(KNOBS))
def test_attained_service_never_decreases(scene: Scene, knob: float) -> None:
    before: dict[JobId, tuple[int, int]] = {}

    def check(view: View, memory: Ranking) -> None:
        for job_id, job in view.jobs.items():
            now = (job.service_us(view.now_us), job.occupied_us(view.now_us))
            least = before.get(job_id, (0, 0))
            assert now[0] >= least[0]
            assert now[1] >= least[1]
            before[job_id] = now

    watched(scene, knob, check)


@searched(50)
@given(scene=scenes(), knob=st.sampled_from(KNOBS))
def test_job_is_in_exactly_one_queue(scene: Scene, knob: float) -> None:
    def check(view: View, memory: Ranking) -> None:
        standing = Counter(key for waiting in memory.classes for key in waiting.in_order)
        standing.update(key for pool in memory.pools.values() for key in pool.keys)
        assert standing == Counter(entry.key for entry in memory.entries.values())
        assert memory.entries.keys() <= view.jobs.keys()
        for entry in memory.entries.values():
            assert memory.notes.jobs[entry.job_id].queue in range(len(BOUNDS_GPU_US) + 1)
        assert memory.waiting == sum(e.pool == NO_POOL for e in memory.entries.values())

    watched(scene, knob, check)


def waited_us(job: Job, memory: Ranking, now_us: int) -> int:
    """Return how long a job has waited since its promotion, after it ran first."""
    note = memory.notes.jobs[job.job_id]
    since_us = note.waits_from_us
    return note.waited_us + (now_us - since_us if since_us is not None else 0)


@pytest.mark.parametrize("knob", KNOBS)
@searched(50)
@given(scene=scenes(by_event=True))
def test_promotion_bounds_what_a_job_waits_below_the_first_queue(knob: float, scene: Scene) -> None:
    def check(view: View, memory: Ranking) -> None:
        for job_id, entry in memory.entries.items():
            job, note = view.jobs[job_id], memory.notes.jobs[job_id]
            executed_us = job.occupied_us(view.now_us) - note.held_us
            if entry.pool == NO_POOL and note.queue and executed_us:
                # At the instant itself it is promoted right before the plan; one that had waited
                # for long enough before it fell, in the first microsecond of its wait.
                limit_us = -(-knob * executed_us // 1)
                just_fell = view.now_us - (note.waits_from_us or 0) <= 1
                assert just_fell or waited_us(job, memory, view.now_us) <= limit_us

    watched(scene, knob, check)
