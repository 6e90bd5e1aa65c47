"""What `why` and the history say of an attempt that somebody else than the scheduler ended."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import Verifier, read_histories, wait_of
from shunter.ask.why import details, document, headline, how_ended
from shunter.core import DEPARTURES_MOST, Input, ReleaseJob, State, SubmitJob, SuspendJob
from shunter.core.fold import replay
from shunter.core.planning import RoundRules
from shunter.events import (
    DISPLACED,
    HELD,
    NOTHING,
    AllocationChanged,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Because,
    Event,
    GpusReleased,
    JobCancelRequested,
    JobFailed,
    JobHeld,
    JobReleased,
    JobRetried,
    JobSuspended,
    JobWarned,
    LaunchFailed,
    Reason,
    SchedulerStarted,
    Wait,
    WaitReasonChanged,
    decode_record,
    encode_record,
)
from tests.factories import (
    World,
    allocation,
    attempt_started,
    granted,
    job_id,
    job_spec,
    job_submitted,
    policy,
    round_planned,
    servers,
)
from tests.replay.eventful_run import RECORD
from tests.replay.recording import Recorded, asked, reading, rebuilt

J0 = job_id(0)
CAUSE = "Slurm's time limit of 1 h ended it"


def test_attempt_that_slurm_ended_is_told_with_its_cause() -> None:
    chosen = policy()
    core, events = World(servers=servers(4), is_live=True, round_us=10).scheduler(
        chosen, instant=False
    )
    steps: list[list[Input]] = [
        [SubmitJob(0, J0, job_spec(4))],
        [AttemptStarted(0, J0, 1)],
        [JobSuspended(0, J0, 1, cause=CAUSE), GpusReleased(0, J0, 1)],
        [],
    ]
    for number, inputs in enumerate(steps):
        at_us = 10 * number
        events += core.step(at_us, [replace(one, at_us=at_us) for one in inputs])[0]
    recorded = Recorded(list(events), rebuilt(chosen, core.rules))
    found = asyncio.run(asked(recorded, J0, None))
    assert [how_ended(found, run) for run in found.runs] == [f"suspended: {CAUSE}"]
    assert asyncio.run(ended_by(events)) == [f"suspended: {CAUSE}"]


async def ended_by(events: list[Event]) -> list[object]:
    async with reading(events) as reader:
        history = (await read_histories(reader, [J0]))[J0]
    return [one.document(str)["ended_by"] for one in history.attempts]


def test_who_leaves_unasked_again_and_again_is_told_so_and_not_that_its_launch_failed() -> None:
    chosen = policy()
    world = World(servers=servers(4), is_live=True, bounds_departures=True)
    core, events = world.scheduler(chosen, instant=False)
    events += core.step(0, [SubmitJob(0, J0, job_spec(4))])[0]
    said, ended = [], [""]
    for attempt in range(1, DEPARTURES_MOST + 1):
        now_us = core.deadline_us(core.state.now_us) or 0 if attempt > 1 else 0
        events += core.step(now_us, ())[0]
        events += core.step(now_us, [AttemptStarted(now_us, J0, attempt)])[0]
        left: list[Input] = [JobSuspended(now_us, J0, attempt), GpusReleased(now_us, J0, attempt)]
        events += core.step(now_us, left)[0]
        found = asyncio.run(asked(Recorded(list(events), rebuilt(chosen, core.rules)), J0, None))
        said.append([headline(found), *details(found)])
        ended = [how_ended(found, run) for run in found.runs]
    once, again, *_, failed = [" ".join(lines) for lines in said]
    assert "left by itself at T+00:00:00, with exit code 75: the next one waits a while" in once
    assert "with exit code 75: again and again, without progress" in again
    assert "failed (left 8 times in a row by itself (exit code 75) without progress)" in failed
    assert ended[0] == "left by itself"
    assert "launch failed" not in f"{once} {again} {failed}"


def test_failure_of_who_ends_with_0_each_time_it_is_to_leave_is_decided_again_the_same() -> None:
    chosen = policy()
    world = World(servers=servers(4), is_live=True, bounds_departures=True)
    core, begun = world.scheduler(chosen, instant=False)
    events = [
        replace(event, config=RECORD) if isinstance(event, SchedulerStarted) else event
        for event in begun
    ]
    spec = replace(job_spec(4), retries=1)
    events += core.step(0, [SubmitJob(0, J0, spec)])[0]
    for attempt in (1, 2):
        at_us = 10 * attempt
        events += core.step(at_us, [AttemptStarted(at_us, J0, attempt)])[0]
        events += core.step(at_us, [JobWarned(at_us, J0, attempt, "of chance")])[0]
        events += core.step(at_us, [SuspendJob(at_us, J0, "ana")])[0]
        ended = JobSuspended(at_us, J0, attempt, exit_code=0)
        events += core.step(at_us, [ended, GpusReleased(at_us, J0, attempt)])[0]
        if attempt == 1:
            events += core.step(at_us, [ReleaseJob(at_us, J0, "ana")])[0]
    (failed,) = [event for event in events if isinstance(event, JobFailed)]
    events += core.step(99, [SubmitJob(99, job_id(1), job_spec(4))])[0]
    assert failed.cause.startswith("ended 2 times in a row with exit code 0 when asked to leave")
    assert Verifier(rebuilt(chosen, core.rules)).take(list(events)) is None
    other = [replace(failed, cause="another") if each is failed else each for each in events]
    assert Verifier(rebuilt(chosen, core.rules)).take(other) is not None


def test_last_warning_to_its_owner_is_told_in_one_line_and_others_are_counted() -> None:
    chosen = policy()
    core, events = World(servers=servers(4), is_live=True).scheduler(chosen, instant=False)
    for told in (
        [SubmitJob(0, J0, job_spec(4))],
        [AttemptStarted(0, J0, 1)],
        [JobWarned(0, J0, 1, "the order is drawn again", 7), JobWarned(0, J0, 1, "so is chance")],
    ):
        events += core.step(0, told)[0]
    found = asyncio.run(asked(Recorded(list(events), rebuilt(chosen, core.rules)), J0, None))
    warned = document(found)["warned"]
    assert (warned["text"], warned["attempt"], warned["others"]) == ("so is chance", 1, 1)
    assert warned["words"] == (
        "so is chance (attempt 1, at T+00:00:00); 1 other warning: `shunter show j0`"
    )
    before = asyncio.run(asked(Recorded(list(events[:-2]), rebuilt(chosen, core.rules)), J0, None))
    assert "warned" not in document(before)


ENDS = JobCancelRequested(3, J0)
EXITS = AttemptEnded(3, J0, 1, 0)


@pytest.mark.parametrize(
    "last",
    [
        (ENDS, LaunchFailed(5, J0, 1, "no room")),
        (ENDS, AttemptLost(5, J0, 1, "heartbeat")),
        (ENDS, GpusReleased(5, J0, 1)),
        (EXITS, AttemptLost(5, J0, 1, "heartbeat")),
    ],
)
def test_who_is_about_to_end_and_has_left_waits_for_nothing(last: tuple[Event, ...]) -> None:
    """No round will look at it; it ends with the next event."""
    log = (*servers(4), job_submitted(0), granted(0, 2, n0=0b1), *last)
    core = World(servers=servers(4)).scheduler(policy(), instant=False)[0]
    found = asyncio.run(asked(Recorded(log, rebuilt(policy(), core.rules)), J0, None))
    said = document(found)
    assert (said["phase"], said["reason"]) == ("ending", None)
    assert [part["what"] for part in said["timeline"]] == ["wait", "run"]
    assert "j0 has been ending on n0[0] for" in headline(found)


@pytest.mark.parametrize(("by", "words"), [("ana", "held by ana"), ("", "held")])
def test_who_is_suspended_by_somebody_is_told_by_whom_while_it_saves(by: str, words: str) -> None:
    """Since the order, and not since its attempt began."""
    log: tuple[Event, ...] = (
        *servers(1),
        job_submitted(0),
        AllocationChanged(0, J0, allocation(n0=1), Because("test")),
        AttemptStarted(0, J0, 1),
        JobHeld(20_000_000, J0, by),
        AllocationChanged(20_000_000, J0, NOTHING, HELD),
    )
    found = asyncio.run(asked(Recorded(log, rebuilt(policy(), RoundRules(10))), J0, 25_000_000))
    said: Any = document(found)
    assert said["headline"] == "j0 has been suspending on n0[0] for 5s (attempt 1)"
    assert f"it was told to leave at T+00:00:20 by e6: {words}" in said["details"]
    assert (said["leaves"]["seq"], said["leaves"]["rule"]) == (6, "held")


def test_who_is_cancelled_ends_since_then_and_not_since_it_began() -> None:
    log: tuple[Event, ...] = (
        *servers(1),
        job_submitted(0),
        AllocationChanged(0, J0, allocation(n0=1), Because("test")),
        AttemptStarted(0, J0, 1),
        JobCancelRequested(20_000_000, J0, "ana"),
    )
    found = asyncio.run(asked(Recorded(log, rebuilt(policy(), RoundRules(10))), J0, 25_000_000))
    assert headline(found) == "j0 has been ending on n0[0] for 5s (attempt 1)"


QUOTA = Wait(Reason.quota, 1)
WAITS_AGAIN: tuple[Event, ...] = (
    *servers(4),
    job_submitted(0),
    round_planned(0, 1),
    WaitReasonChanged(1, J0, QUOTA),
    granted(0, 2, n0=0b1),
    attempt_started(0, 3),
)
BY_ITSELF = (JobSuspended(5, J0, 1), GpusReleased(6, J0, 1))
WAYS_TO_LEAVE: dict[str, tuple[str, tuple[Event, ...]]] = {
    "by itself": ("waiting_for_round", BY_ITSELF),
    "by an order": (
        "waiting_for_round",
        (AllocationChanged(4, J0, NOTHING, HELD), *BY_ITSELF),
    ),
    "by a failure": (
        "waiting_for_round",
        (AttemptEnded(5, J0, 1, 1), GpusReleased(6, J0, 1), JobRetried(6, J0, 1)),
    ),
    "by a launch that failed": ("waiting_for_round", (LaunchFailed(6, J0, 1, "no room"),)),
    "with its server": ("node_lost", (AttemptLost(6, J0, 1, "node lost"),)),
    "for others": ("displaced", (AllocationChanged(4, J0, NOTHING, DISPLACED), *BY_ITSELF)),
    "for others before it starts": (
        "displaced",
        (
            *(*BY_ITSELF, job_submitted(1, at=6), granted(1, 6, n0=0b1)),
            *(attempt_started(1, 6), AllocationChanged(6, job_id(1), NOTHING, HELD)),
            *(round_planned(0, 6), granted(0, 6, n0=0b1)),
            AllocationChanged(6, J0, NOTHING, DISPLACED),
        ),
    ),
}


@pytest.mark.parametrize(("first", "left"), WAYS_TO_LEAVE.values(), ids=WAYS_TO_LEAVE)
def test_reason_of_an_earlier_wait_is_told_again_once_a_round_has_looked(
    first: str, left: tuple[Event, ...]
) -> None:
    """The round records nothing that is recorded already; one whose policy failed looks at none."""
    core = World(servers=servers(4)).scheduler(policy(), instant=False)[0]

    def said(*later: Event) -> tuple[str, int | None]:
        recorded = Recorded((*WAITS_AGAIN, *left, *later), rebuilt(policy(), core.rules))
        state = replay(recorded.events)
        wait, found = wait_of(state.jobs[J0], state), asyncio.run(asked(recorded, J0, None))
        assert found.waits_now is not None
        assert found.waits_now.wait == wait
        told = None if found.told is None else found.told.number
        return found.waits_now.wait.reason.value, told

    assert said() == (first, None)
    assert said(replace(round_planned(1, 7), fault="x")) == (first, None)
    held, released = JobHeld(7, J0, "ana"), JobReleased(8, J0, "ana")
    assert said(held, round_planned(1, 7), released) == (first, None)
    assert said(round_planned(1, 7)) == ("quota", 1)
    assert said(round_planned(1, 7), round_planned(2, 8)) == ("quota", 1)
    again = WaitReasonChanged(8, J0, Wait(Reason.outranked))
    assert said(round_planned(1, 7), round_planned(2, 8), again) == ("outranked", 2)


def test_state_that_is_written_down_knows_that_a_reason_is_of_an_earlier_wait() -> None:
    state: State = decode_record(
        State, encode_record(replay((*WAITS_AGAIN, *WAYS_TO_LEAVE["by itself"][1])))
    )
    assert wait_of(state.jobs[J0], state) == Wait(Reason.waiting_for_round)
    assert wait_of(state.jobs[J0], replay((round_planned(1, 7),), state)) == QUOTA
