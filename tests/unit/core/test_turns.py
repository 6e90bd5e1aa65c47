"""Turns in the state: who works, who waits for a turn, and what service that is."""

from dataclasses import replace
from typing import Any

import pytest

from shunter.api import TurnShares
from shunter.core import NO_GUARDS, RUNNING, Guards, Job, Plan, Rehome, State
from shunter.core.fold import apply
from shunter.core.planning import approve
from shunter.errors import IllegalEventError
from shunter.events import NOTHING, Allocation, Because, Event, Reason, Share, Sharing, facts
from tests.factories import attempt_started, job_id, job_submitted, node_added, node_name

N0, J0, J1 = node_name(0), job_id(0), job_id(1)
BECAUSE = Because("test")


def turning(mask: int, node: int = 0) -> Allocation:
    return Allocation((Share(node_name(node), mask),), Sharing.sliced)


def given(job: int, mask: int, at: int = 0) -> facts.AllocationChanged:
    return facts.AllocationChanged(at, job_id(job), turning(mask), BECAUSE)


def turn(job: int, mask: int, at: int, speed: float = 1.0) -> facts.TurnStarted:
    return facts.TurnStarted(at, job_id(job), 1, (Share(N0, mask),), speed)


START: list[Event] = [
    node_added(0, 2),
    node_added(1, 2),
    job_submitted(0, 1),
    job_submitted(1, 1),
    given(0, 1),
    given(1, 1),
    attempt_started(0, at=10),
    attempt_started(1, at=10),
]


def folded(*more: Event) -> State:
    state = State()
    for event in (*START, *more):
        apply(state, event)
    return state


def job(state: State, number: int = 0) -> Job:
    return state.jobs[job_id(number)]


def test_job_that_waits_for_its_turn_holds_no_gpu_and_does_no_work() -> None:
    state = folded()
    assert job(state).awaits_turn
    assert job(state).phase is RUNNING
    assert job(state).service_us(1_000) == job(state).done_us(1_000) == 0
    assert job(state).occupied_us(1_000) == 1_000


def test_only_turns_are_service_and_work() -> None:
    state = folded(turn(0, 1, 20), facts.TurnEnded(50, J0, 1), turn(1, 1, 50, 0.5))
    assert job(state).service_us(90) == job(state).done_us(90) == 30
    assert job(state, 1).service_us(90) == 40
    assert job(state, 1).done_us(90) == 20
    assert [each.awaits_turn for each in state.jobs.values()] == [True, False]
    assert job(state).occupied_us(90) == 90


def test_gpu_with_several_owners_counts_once() -> None:
    state = folded(turn(0, 1, 20))
    server = state.cluster.servers[N0]
    assert server.held.bit_count() == server.decided.bit_count() == 1
    assert state.overcommit_us(100) == 0


def test_turn_may_be_on_another_gpu_of_the_server() -> None:
    state = folded(turn(0, 2, 20))
    assert job(state).gpus == 1
    assert job(state).held == turning(1)


def test_other_gpus_of_its_own_do_not_interrupt_a_turn() -> None:
    state = folded(turn(1, 1, 20), facts.JobReshaped(30, J1, turning(2), BECAUSE))
    server = state.cluster.servers[N0]
    assert server.held == server.decided == 0b11
    assert job(state, 1).held == job(state, 1).allocation == turning(2)
    assert job(state, 1).done_us(60) == 40
    assert job(state, 1).migrations == 0


def test_who_leaves_frees_what_only_it_had() -> None:
    state = folded(
        turn(0, 1, 20),
        facts.AllocationChanged(30, J0, NOTHING, BECAUSE),
        facts.JobSuspended(30, J0, 1, None, 0),
        facts.GpusReleased(40, J0, 1),
    )
    server = state.cluster.servers[N0]
    assert server.held == server.decided == 1  # the other one's too
    assert job(state).service_us(99) == 10  # others have its turns while it saves


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (facts.TurnEnded(20, J0, 1), "TurnEnded of job j0, which waits for its turn"),
        (turn(0, 3, 20), "TurnStarted of job j0 on 2 GPUs"),
        (
            facts.TurnStarted(20, J0, 2, (Share(N0, 1),)),
            "attempt 2 of job j0, which is at attempt 1",
        ),
        (facts.JobReshaped(20, J0, turning(3), BECAUSE), "to other GPUs than it has"),
        (facts.JobReshaped(20, J0, turning(1, node=1), BECAUSE), "to other GPUs than it has"),
    ],
    ids=str,
)
def test_turn_that_does_not_fit_is_illegal(event: Event, words: str) -> None:
    with pytest.raises(IllegalEventError, match=words):
        folded(event)


def test_second_turn_at_once_is_illegal() -> None:
    with pytest.raises(IllegalEventError, match="TurnStarted of job j0 on 1 GPUs, it has 1"):
        folded(turn(0, 1, 20), turn(0, 1, 30))


def test_attempt_began_with_its_launch_whatever_turns_it_had() -> None:
    """So a guard that lets it run so long is over once, and not begun anew with each turn."""
    guards = Guards(min_runtime_us=100)
    state = folded(turn(0, 1, 20), facts.TurnEnded(50, J0, 1), turn(0, 1, 90))
    assert job(state).since_us == 90
    assert job(state).attempt_began_us == 0
    assert guards.pinned_by(job(state), 99) is Reason.guard_min_runtime
    assert guards.pinned_by(job(state), 100) is None
    gone = folded(turn(0, 1, 20), facts.AttemptLost(60, J0, 1, "gone"), given(0, 1, 70))
    assert job(gone).attempt_began_us == 70


def test_part_used_of_a_resized_job_is_of_the_gpus_that_it_had_each_time() -> None:
    """One GPU for 100, 25 of it on turn; then two for 100, 50 of it on turn: 125 of 300."""
    two = Allocation((Share(N0, 0b11),), Sharing.sliced)
    state = folded(
        *(turn(0, 1, 20), facts.TurnEnded(45, J0, 1)),
        facts.AllocationChanged(100, J0, NOTHING, BECAUSE),
        *(facts.JobSuspended(100, J0, 1, None, 0), facts.GpusReleased(100, J0, 1)),
        *(facts.JobResized(100, J0, 2), facts.AllocationChanged(100, J0, two, BECAUSE)),
        attempt_started(0, at=100, attempt=2),
        facts.TurnStarted(130, J0, 2, two.shares),
        facts.TurnEnded(180, J0, 2),
    )
    turns = TurnShares(state, 200).of(job(state))
    assert turns is not None
    assert turns["used"] == (25 + 2 * 50) / (100 + 2 * 100)
    assert turns["held_s"] == 200 / 1e6


def test_turns_that_were_seen_late_count_from_when_they_were() -> None:
    """Those of a server whose scheduler was away; none before the one before it."""
    shares = (Share(N0, 1),)
    state = folded(
        facts.TurnStarted(500, J0, 1, shares, began_us=20),
        facts.TurnEnded(500, J0, 1, ended_us=50),
        facts.TurnStarted(500, J0, 1, shares, began_us=40),
        facts.TurnEnded(500, J0, 1, ended_us=70),
    )
    assert job(state).service_us(900) == job(state).done_us(900) == 30 + 20
    assert job(state).occupied_us(900) == 900
    assert job(state).notes == 4


def test_turn_that_changed_after_it_was_seen_is_illegal() -> None:
    with pytest.raises(IllegalEventError, match="expected before"):
        folded(facts.TurnStarted(20, J0, 1, (Share(N0, 1),), began_us=21))


def test_job_can_move_once_a_turn_of_its_attempt_has_said_so() -> None:
    state = State()
    for event in START:
        apply(state, event)
    job, told = state.jobs[J0], list[bool]()
    for event in (
        turn(0, 1, 20),
        facts.TurnEnded(30, J0, 1),
        replace(turn(0, 1, 40), can_move=True),
    ):
        apply(state, event)
        told.append(job.can_move)
    assert told == [False, False, True]
    job.attempt += 1
    assert not job.can_move, "the next attempt has to say so itself"


def test_live_only_who_can_move_gets_other_gpus_of_its_server() -> None:
    state = State()
    for event in START:
        apply(state, event)
    plan = Plan((Rehome(J0, turning(2), BECAUSE),))
    how: dict[str, Any] = {"takes_turns": True, "homes_are_fixed": True}
    (refused,) = approve(plan, state, NO_GUARDS, 0, **how).refused
    assert "works on the GPUs that it was launched with" in refused.detail
    state.jobs[J0].moves = 1
    assert approve(plan, state, NO_GUARDS, 0, **how).refused == []
