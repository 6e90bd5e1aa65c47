"""A job placed first is treated once as one of the highest priority, and nothing stays of it."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, reject

from shunter.ask import Term, fold_events
from shunter.ask.forks import ForkPoint, PlacedFirst, fork_point
from shunter.core import NO_GUARDS
from shunter.core.ranking import PRIORITY_MOST
from shunter.events import (
    AllocationChanged,
    Event,
    JobId,
    JobPriorityChanged,
    Trigger,
    encode_record,
)
from tests.property.forking.test_forks import MOMENTS, last_of_instants, played_by
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, reading
from tests.slices import searched

RANKED = ("fifo", "fifo_backfill", "fifo_easy", "las", "las, continuous", "sjf", "srtf")


def term_at(recorded: Recorded, point: ForkPoint) -> Term:
    """Return the policy of a moment with its memory, on a state of its own."""
    term = Term(point.started, recorded.rebuild, point.state())
    term.restore(point.encoded_memory)
    return term


def allocations(events: list[Event]) -> list[tuple[JobId, object]]:
    return [(each.job_id, each.allocation) for each in events if type(each) is AllocationChanged]


@pytest.mark.parametrize("name", RANKED)
@searched(40)
@given(scene=scenes(), share=MOMENTS)
def test_first_for_one_plan_is_the_highest_priority_for_one_plan(
    name: str, scene: Scene, share: float
) -> None:
    scene = replace(scene, world=replace(scene.world, guards=NO_GUARDS))
    _, recorded = played_by(scene, name)
    places = last_of_instants(recorded.events)
    seq = places[int(share * (len(places) - 1))]

    async def moment() -> ForkPoint:
        async with reading(recorded.events) as reader:
            return await fork_point(reader, seq, recorded.rebuild)

    point = asyncio.run(moment())
    jobs = [job for job in point.state().jobs.values() if job.priority != PRIORITY_MOST]
    if not jobs or not point.encoded_memory:
        reject()
    job_id, at_us = jobs[len(jobs) // 2].job_id, point.at_us + 1

    first, plain = term_at(recorded, point), term_at(recorded, point)
    before = encode_record(first.memory)
    first.planner.policy = PlacedFirst(first.asked, job_id, at_us)
    first.stand_before(at_us)
    stood = encode_record(first.memory)
    found = first.planner.decisions(at_us, Trigger.event)

    raised = JobPriorityChanged(point.at_us, job_id, PRIORITY_MOST, "test")
    plain.tell(raised, fold_events(plain.planner.state, (raised,)))
    plain.stand_before(at_us)
    expected = plain.planner.decisions(at_us, Trigger.event)

    assert allocations(found) == allocations(expected)
    assert encode_record(first.memory) == stood
    assert len(before) > 0
