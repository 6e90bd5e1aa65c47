"""What `why` says of turns, at instants of a log written by hand."""

import asyncio
from typing import Any

import pytest

from shunter.app.replaying.formatting import fact_in_words
from shunter.app.replaying.why.document import document
from shunter.core.planning.planner import RoundRules
from shunter.events import Event
from shunter.events.facts.decisions import AllocationChanged, JobReshaped
from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptStarted,
    GpusReleased,
    JobStopped,
    JobSuspended,
    TurnEnded,
    TurnStarted,
)
from shunter.events.facts.jobs import JobHeld
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.job_spec import SuspendMode
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


J1 = job_id(1)
STOPPED: tuple[Event, ...] = (
    *servers(1),
    job_submitted(0, suspend_mode=SuspendMode.stop),
    job_submitted(1),
    *(
        AllocationChanged(0, each, Allocation(HERE, Sharing.sliced), Because("test"))
        for each in (J0, J1)
    ),
    AttemptStarted(10 * S, J0, 1),
    AttemptStarted(10 * S, J1, 1),
    TurnStarted(10 * S, J0, 1, HERE),
    TurnEnded(30 * S, J0, 1),
    JobHeld(30 * S, J0, "somebody"),
    JobStopped(30 * S, J0, 1),
    TurnStarted(30 * S, J1, 1, HERE),
)


@pytest.mark.parametrize(
    ("job", "at_s", "now"),
    [
        ("j0", 5, "it is launching on n0, out of turns, alone; "),
        ("j0", 20, "it has its turn on n0 since T+00:00:10, beside j1; "),
        ("j1", 20, "it waits for its turn on n0 since T+00:00:00, beside j0; "),
        ("j0", 40, "it is stopped on n0, out of turns, beside j1; "),
        ("j1", 40, "it has its turn on n0 since T+00:00:30, alone; "),
    ],
)
def test_who_is_launched_or_stopped_waits_for_no_turn(job: str, at_s: int, now: str) -> None:
    recorded = Recorded(STOPPED, rebuilt(policy("fifo"), RoundRules(10)))
    said: Any = document(asyncio.run(asked(recorded, job, at_s * S)))["turns"]
    assert said["words"].startswith(now)


THERE = allocation(n0=2).shares
REHOMED: tuple[Event, ...] = (
    *servers(2),
    job_submitted(0),
    AllocationChanged(0, J0, Allocation(HERE, Sharing.sliced), Because("test")),
    AttemptStarted(0, J0, 1),
    TurnStarted(10 * S, J0, 1, HERE),
    TurnEnded(30 * S, J0, 1),
    JobReshaped(30 * S, J0, Allocation(THERE, Sharing.sliced), Because("lower_height")),
    TurnStarted(30 * S, J0, 1, THERE),
    AttemptEnded(50 * S, J0, 1, 0),
)


def test_gpus_of_ones_turns_are_told_once_they_are_others() -> None:
    before, after = _at(REHOMED, 20), _at(REHOMED, 40)
    assert not [line for line in before["details"] if "its turns are on" in line]
    assert "its turns are on n0[1] since T+00:00:30 (e7): lower_height" in after["details"]
    assert fact_in_words(REHOMED[-3]) == ("give j0 n0[1] for its turns, because lower_height")


def test_who_has_ended_ends_since_then_and_not_since_it_began() -> None:
    assert _at(REHOMED, 53)["headline"] == "j0 has been ending on n0[1] for 3s (attempt 1)"


def _at(log: tuple[Event, ...], at_s: int) -> Any:
    recorded = Recorded(log, rebuilt(policy("fifo"), RoundRules(10)))
    return document(asyncio.run(asked(recorded, "j0", at_s * S)))


def test_turns_that_were_seen_late_count_from_when_they_were() -> None:
    """Those of a server whose scheduler was away, as `began_us` and `ended_us` tell them."""
    seen_late = (
        *LOG[:4],
        TurnStarted(70 * S, J0, 1, HERE, began_us=10 * S),
        TurnEnded(70 * S, J0, 1, ended_us=40 * S),
        TurnStarted(70 * S, J0, 1, HERE, began_us=60 * S),
    )
    said = _said(70, seen_late)
    assert (said["turns"], said["on_s"], said["of_s"], said["is_on"]) == (2, 40, 70, True)
    assert "since T+00:01:00," in said["words"]


def _said(at_s: int, log: tuple[Event, ...] = LOG) -> Any:
    """Return what is said of turns at an instant."""
    recorded = Recorded(log, rebuilt(policy("fifo"), RoundRules(10)))
    return document(asyncio.run(asked(recorded, "j0", at_s * S)))["turns"]
