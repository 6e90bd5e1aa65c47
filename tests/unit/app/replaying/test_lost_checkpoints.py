"""A start without two checkpoints, both of which were lost: each is discarded, in order."""

from itertools import permutations

import pytest

from shunter.ask import Verifier
from shunter.core import DrainNode, ReleaseJob, SuspendJob
from shunter.events import Event, facts
from tests.replay.eventful_run import Script
from tests.replay.recording import rebuilt


@pytest.fixture(scope="module")
def script() -> Script:
    """A job that has run on two servers, both of which are lost before it runs on the third."""
    script = Script()
    job_id = script.submit("mover", 4)
    left = []
    for attempt in (1, 2):
        script.start(job_id)
        (share,) = script.core.state.jobs[job_id].held.shares
        left.append(share.node)
        script.step(SuspendJob(0, job_id, "ana"))
        script.step(facts.JobSuspended(0, job_id, attempt), facts.GpusReleased(0, job_id, attempt))
        script.step(DrainNode(0, share.node, "ana"))
        if attempt == 2:
            for node in left:
                script.step(facts.NodeUnreachable(0, node), facts.NodeLost(0, node))
        script.step(ReleaseJob(0, job_id, "ana"))
    script.start(job_id)
    script.exit(job_id, 0)
    return script


def diverges(script: Script, events: list[Event]) -> bool:
    return Verifier(rebuilt(script.policy, script.core.rules)).take(events) is not None


def test_both_are_discarded_and_verify_expects_it(script: Script) -> None:
    lost = [event for event in script.events if isinstance(event, facts.CheckpointDiscarded)]
    assert [event.attempt for event in lost] == [2, 1]
    at = script.events.index(lost[0])
    assert [type(event) for event in script.events[at : at + 3]] == [
        facts.CheckpointDiscarded,
        facts.CheckpointDiscarded,
        facts.AttemptStarted,
    ]
    assert not diverges(script, script.events)


def test_no_other_order_and_no_part_of_it_is_right(script: Script) -> None:
    at = next(
        n for n, event in enumerate(script.events) if isinstance(event, facts.CheckpointDiscarded)
    )
    before, own, after = script.events[:at], script.events[at : at + 3], script.events[at + 3 :]
    others = [order for size in (1, 2, 3) for order in permutations(own, size)]
    others.remove(tuple(own))
    assert len(others) == 14
    kept = [order for order in others if not diverges(script, [*before, *order, *after])]
    assert kept == []
