"""What `why` says of turns, at instants of a log written by hand."""

import asyncio
from typing import Any

import pytest

from shunter.ask import fact_in_words
from shunter.ask.why import document
from shunter.core.planning import RoundRules
from shunter.events import (
    Allocation,
    AllocationChanged,
    AttemptEnded,
    AttemptStarted,
    Because,
    Event,
    GpusReleased,
    JobFinished,
    JobHeld,
    JobReshaped,
    JobRetried,
    JobStopped,
    JobSuspended,
    Sharing,
    SuspendMode,
    TurnEnded,
    TurnStarted,
)
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
        ("j0", 20, "it has its turn on n0[0] since T+00:00:10; j1 has turns on n0 too; "),
        ("j1", 20, "it waits for its turn on n0 since T+00:00:10; j0 has turns on n0 too; "),
        ("j0", 40, "it is stopped on n0, out of turns; j1 has turns on n0 too; "),
        ("j1", 40, "it has its turn on n0[0] since T+00:00:30, alone; "),
    ],
)
def test_who_is_launched_or_stopped_waits_for_no_turn(job: str, at_s: int, now: str) -> None:
    recorded = Recorded(STOPPED, rebuilt(policy("fifo"), RoundRules(10)))
    said: Any = document(asyncio.run(asked(recorded, job, at_s * S)))["turns"]
    assert said["words"].startswith(now)


def test_others_are_named_on_those_servers_only_on_which_they_have_turns() -> None:
    wide, beside = allocation(n0=1, n1=1).shares, allocation(n1=1).shares
    log: tuple[Event, ...] = (
        *servers(1, 1),
        job_submitted(0, 2),
        job_submitted(1),
        AllocationChanged(0, J0, Allocation(wide, Sharing.sliced), Because("test")),
        AllocationChanged(0, J1, Allocation(beside, Sharing.sliced), Because("test")),
        AttemptStarted(10 * S, J0, 1),
        AttemptStarted(10 * S, J1, 1),
    )
    recorded = Recorded(log, rebuilt(policy("fifo"), RoundRules(10)))
    said: Any = document(asyncio.run(asked(recorded, "j0", 20 * S)))["turns"]
    assert "on n0 and n1 since T+00:00:10; j1 has turns on n1 too; " in said["words"]


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


SEEN_LATE: tuple[Event, ...] = (
    *LOG[:5],
    TurnEnded(30 * S, J0, 1),
    TurnStarted(40 * S, J0, 1, HERE),
    TurnEnded(90 * S, J0, 1, ended_us=55 * S),
    TurnStarted(90 * S, J0, 1, HERE, began_us=70 * S),
    AttemptEnded(90 * S, J0, 1, 0, ended_us=85 * S),
    GpusReleased(90 * S, J0, 1),
)
"""The scheduler was away from 40 to 90 s."""


@pytest.mark.parametrize("at_s", [5, 20, 35, 45, 54, 56, 69, 71, 84, 86, 89])
def test_turns_of_a_time_at_which_nobody_looked_are_told_as_the_log_has_them_since(
    at_s: int,
) -> None:
    said = _said(at_s, SEEN_LATE)
    parts = [(10, 30), (40, 55), (70, 85)]
    assert said["on_s"] == sum(max(0, min(to_s, at_s) - from_s) for from_s, to_s in parts)
    assert said["turns"] == sum(at_s >= from_s for from_s, _ in parts)
    assert said["is_on"] is any(from_s <= at_s < to_s for from_s, to_s in parts)
    assert said["words"].endswith("; as was seen at T+00:01:30") is (at_s >= 55)
    gone = "its processes on n0 were gone since T+00:01:25, alone; "
    assert said["words"].startswith(gone) is (at_s >= 85)


def test_run_is_over_once_its_processes_are_gone_though_that_was_seen_later() -> None:
    """Nobody used its GPUs from 85 to 90 s; it waits from then on, or has ended, or is about to."""
    ended = _at((*SEEN_LATE, JobFinished(90 * S, J0, ended_us=85 * S)), 95)
    waits = _at((*SEEN_LATE, JobRetried(90 * S, J0, 1)), 95)
    ends = _at(SEEN_LATE, 95)
    told = (ended, waits, ends)
    runs = [[one for one in said["timeline"] if one["what"] == "run"] for said in told]
    assert [run["to_us"] for (run,) in runs] == [85 * S] * 3
    assert {said["totals"]["held_s"] for said in told} == {85 - runs[0][0]["from_us"] / S}
    assert ended["turns"]["on_s"] == 50
    assert [said["timeline"][-1]["what"] for said in told] == ["run", "wait", "run"]
    assert waits["timeline"][-1]["from_us"] == 85 * S
    assert [said["totals"]["wait_s"] for said in told] == [0, 10, 0]


TWICE: tuple[Event, ...] = (
    *LOG,
    AllocationChanged(100 * S, J0, Allocation(HERE, Sharing.sliced), Because("test")),
    AttemptStarted(110 * S, J0, 2),
    TurnStarted(115 * S, J0, 2, HERE),
)


def test_turns_of_one_attempt_are_told_as_its_own_and_those_of_all_beside_them() -> None:
    said = _said(120, TWICE)
    assert (said["attempt"], said["turns"], said["on_s"], said["of_s"]) == (2, 1, 5, 20)
    assert said["all"] == {"attempts": 2, "turns": 3, "on_s": 35, "of_s": 110}
    assert said["words"].endswith(
        "; 1 turn, 5s of 20s (25 %) in attempt 2; 3 turns, 35s of 1m 50s (32 %) in all its 2 "
        "attempts with turns"
    )


PACK: tuple[Event, ...] = (
    *servers(2),
    *(job_submitted(number) for number in range(3)),
    *(
        AllocationChanged(0, job_id(number), Allocation(where, Sharing.sliced), Because("test"))
        for number, where in enumerate((HERE, THERE, THERE))
    ),
    *(AttemptStarted(0, job_id(number), 1) for number in range(3)),
    TurnStarted(10 * S, J0, 1, HERE),
    TurnStarted(10 * S, J1, 1, HERE),
    TurnStarted(10 * S, job_id(2), 1, THERE),
)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("j0", "on n0[0] since T+00:00:10, together with j1; j2 has turns on n0 too; "),
        ("j1", "on n0[0] since T+00:00:10, together with j0; j2 has turns on n0 too; "),
        ("j2", "on n0[1] since T+00:00:10; j0, j1 have turns on n0 too; "),
    ],
)
def test_a_turn_is_told_on_the_gpus_that_it_is_on_with_who_has_them_too(
    job: str, words: str
) -> None:
    """Of j1, whose own GPU is another one."""
    recorded = Recorded(PACK, rebuilt(policy("fifo"), RoundRules(10)))
    said: Any = document(asyncio.run(asked(recorded, job, 20 * S)))
    assert said["turns"]["words"].startswith(f"it has its turn {words}")
    assert said["headline"] == f"{job} has been running on n0, in turns, for 20s (attempt 1)"


def _said(at_s: int, log: tuple[Event, ...] = LOG) -> Any:
    """Return what is said of turns at an instant."""
    recorded = Recorded(log, rebuilt(policy("fifo"), RoundRules(10)))
    return document(asyncio.run(asked(recorded, "j0", at_s * S)))["turns"]
