"""What `why` says of turns, at instants of a log written by hand."""

import asyncio
from typing import Any

import pytest

from shunter.app.replaying.why.document import document
from shunter.core.planning.planner import RoundRules
from shunter.events import Event
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import (
    AttemptStarted,
    GpusReleased,
    JobSuspended,
    TurnEnded,
    TurnStarted,
)
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.reasons import Because
from tests.factories import allocation, job_id, job_submitted, policy, servers
from tests.replay.recording import Recorded, asked, rebuilt

J0 = job_id(0)
HERE = allocation(n0=1).shares
S = 1_000_000
LOG: tuple[Event, ...] = (
    *servers(1),
    job_submitted(0),
    AllocationChanged(0, J0, Allocation(HERE, Sharing.sliced), Because("test")),
    AttemptStarted(0, J0, 1),
    TurnStarted(10 * S, J0, 1, HERE),
    TurnEnded(30 * S, J0, 1),
    TurnStarted(50 * S, J0, 1, HERE),
    JobSuspended(60 * S, J0, 1),
    GpusReleased(90 * S, J0, 1),
)


@pytest.mark.parametrize(
    ("at_s", "turns", "on_s", "is_on"),
    [(5, 0, 0, False), (20, 1, 10, True), (40, 1, 20, False), (55, 2, 25, True)],
)
def test_turns_up_to_an_instant_are_counted(at_s: int, turns: int, on_s: int, is_on: bool) -> None:
    said = _said(at_s)
    assert (said["turns"], said["on_s"], said["of_s"]) == (turns, on_s, at_s)
    assert said["is_on"] is is_on


def test_turn_is_over_when_the_job_is_suspended_though_its_gpus_are_not_back() -> None:
    said = _said(80)
    assert (said["turns"], said["on_s"], said["is_on"]) == (2, 30, False)


def _said(at_s: int) -> Any:
    """Return what is said of turns at an instant."""
    recorded = Recorded(LOG, rebuilt(policy("fifo"), RoundRules(10)))
    return document(asyncio.run(asked(recorded, "j0", at_s * S)))["turns"]
