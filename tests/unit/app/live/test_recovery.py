"""What is decided against what is true: one order for each difference, and none for agreement."""

from typing import Any

import pytest

from shunter.core import Effect, Fence, Launch, Migrate, State, SuspendAttempt, Terminate
from shunter.core.fold import replay
from shunter.daemon import Adoption, holding, recovery_of
from shunter.events import Event, JobCancelRequested, MemoryPastJobs, NodeName
from tests.factories import (
    attempt_started,
    granted,
    job_id,
    job_submitted,
    node_added,
    node_name,
    revoked,
    scheduler_started,
)

J0 = job_id(0)
NONE_ENDED = MemoryPastJobs()
OPENING: tuple[Event, ...] = (scheduler_started(), node_added(0, 4), node_added(1, 4))
LAUNCHING = (job_submitted(0), granted(0, n0=0b1))
RUNNING = (*LAUNCHING, attempt_started(0))
SUSPENDING = (*RUNNING, revoked(0))
MOVING = (*RUNNING, granted(0, n1=0b1))
ENDING = (*RUNNING, JobCancelRequested(0, J0))
PHASES: dict[str, tuple[Event, ...]] = {
    "launching": LAUNCHING,
    "running": RUNNING,
    "suspending": SUSPENDING,
    "moving": MOVING,
    "ending": ENDING,
}


def told(phase: str) -> State:
    return replay([*OPENING, *PHASES[phase]])


def seen(state: str, attempt: int = 1, job: str = "j0") -> dict[str, Any]:
    return {"job": job, "attempt": attempt, "state": state}


def order_for(phase: str) -> list[Effect]:
    state = told(phase)
    orders: dict[str, list[Effect]] = {
        "launching": [],
        "running": [],
        "suspending": [SuspendAttempt(J0, 1)],
        "moving": [Migrate(J0, 1, state.jobs[J0].allocation)],
        "ending": [Terminate(J0, 1)],
    }
    return orders[phase]


@pytest.mark.parametrize("trace", ["starting", "running", "ended", "lost"])
@pytest.mark.parametrize("phase", PHASES)
def test_attempt_with_a_trace_is_watched_and_told_again(phase: str, trace: str) -> None:
    state = told(phase)
    recovery = recovery_of(state, NONE_ENDED, [seen(trace)])
    started = phase != "launching"
    noted = {NodeName(""): 0} if started else {}
    assert recovery.adoptions == [Adoption(J0, 1, started, noted, state.jobs[J0].held)]
    assert recovery.orders == order_for(phase)


def test_launch_without_a_trace_is_repeated() -> None:
    state = told("launching")
    recovery = recovery_of(state, NONE_ENDED, [])
    job = state.jobs[J0]
    assert recovery.orders == [Launch(J0, 1, job.held, job.spec)]
    assert recovery.adoptions == []


@pytest.mark.parametrize("found", [[], [seen("absent")]])
@pytest.mark.parametrize("phase", ["running", "suspending", "moving", "ending"])
def test_other_attempt_without_a_trace_is_fenced(phase: str, found: list[dict[str, Any]]) -> None:
    recovery = recovery_of(told(phase), NONE_ENDED, found)
    assert recovery.orders == [Fence(J0, 1)]
    assert [(one.attempt, one.started) for one in recovery.adoptions] == [(1, True)]


def test_attempt_that_was_told_to_leave_before_it_had_started_has_not_begun() -> None:
    state = replay([*OPENING, *LAUNCHING, revoked(0)])
    recovery = recovery_of(state, NONE_ENDED, [])
    assert recovery.orders == [Fence(J0, 1)]
    assert [(one.attempt, one.started) for one in recovery.adoptions] == [(1, False)]


@pytest.mark.parametrize("phase", PHASES)
def test_attempt_on_a_server_that_is_silent_is_taken_for_running(phase: str) -> None:
    recovery = recovery_of(told(phase), NONE_ENDED, [], {node_name(0)})
    assert recovery.orders == order_for(phase)
    assert len(recovery.adoptions) == 1


@pytest.mark.parametrize(
    ("stray", "fenced"), [("running", True), ("starting", True), ("ended", False), ("lost", False)]
)
def test_what_runs_and_holds_nothing_is_fenced(stray: str, fenced: bool) -> None:
    found = [seen("running"), seen(stray, 3, "j7")]
    recovery = recovery_of(told("running"), NONE_ENDED, found)
    assert recovery.orders == ([Fence(job_id(7), 3, is_alone=True)] if fenced else [])
    assert recovery.unknown == ([("j7", 3)] if fenced else [])


def test_stray_of_a_number_that_the_log_never_gave_bars_no_other() -> None:
    """Of a job that runs: its own attempt goes on, and so do those that it has yet to get."""
    found = [seen("running"), seen("running", 999)]
    recovery = recovery_of(told("running"), NONE_ENDED, found)
    assert [(one.job_id, one.attempt) for one in recovery.adoptions] == [(J0, 1)]
    assert recovery.orders == [Fence(J0, 999, is_alone=True)]
    assert recovery.unknown == [("j0", 999)]


def test_only_attempts_that_hold_gpus_are_asked_for() -> None:
    waiting = replay([*OPENING, *RUNNING, job_submitted(1)])
    assert holding(waiting) == [(J0, 1)]
