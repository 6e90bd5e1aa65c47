import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from shunter.api import history_in_log
from shunter.ask import ENDED_MOST, JobHistories, JobHistory, read_histories
from shunter.events import (
    NOTHING,
    Allocation,
    AllocationChanged,
    AllocationLearned,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Because,
    CheckpointDiscarded,
    CheckpointSaved,
    Event,
    GpusReleased,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobRejected,
    JobReshaped,
    JobSpec,
    JobSubmitted,
    JobSuspended,
    JobWarned,
    LaunchFailed,
    NodeName,
    Outcome,
    Reason,
    Share,
    Sharing,
    SuspendAcknowledged,
    SuspendEscalated,
    SuspendMode,
)
from shunter.events.log import LogReader
from tests.factories import (
    attempt_started,
    granted,
    job_finished,
    job_submitted,
    revoked,
    scheduler_started,
    servers,
)
from tests.replay.recording import reading

T = TypeVar("T")
JOB = JobId("j1")
RULE = Because("las")


def on(node: str) -> Allocation:
    return Allocation((Share(NodeName(node), 0b11),))


def life(*events: Event) -> JobHistory:
    found = JobHistory(JobSubmitted(0, JOB, JobSpec(gpus=2)))
    for event in events:
        found.take(event)
    return found


async def read(events: Sequence[Event], job_id: str, upto: int | None = None) -> JobHistory:
    """Return the history of a job, read from a log that has these events."""
    async with reading(events) as reader:
        return (await read_histories(reader, [JobId(job_id)], upto))[JobId(job_id)]


def places(history: JobHistory) -> list[tuple[int, str, int | None]]:
    return [(one.number, one.where, one.asked_us) for one in history.attempts]


def test_job_that_was_never_submitted_has_no_history() -> None:
    async def found() -> object:
        async with reading([scheduler_started()]) as reader:
            return await read_histories(reader, [JOB])

    assert asyncio.run(found()) == {}


OPENING: tuple[Event, ...] = (
    scheduler_started(),
    *servers(4, 4),
    job_submitted(0),
    job_submitted(1),
)
MOVED: tuple[Event, ...] = (
    *OPENING,
    granted(1, 1, n0=0b0001),
    granted(1, 2, n1=0b0001),
    attempt_started(1, 3),
    JobSuspended(4, JOB, 1),
    GpusReleased(5, JOB, 1),
    attempt_started(1, 6, attempt=2),
    granted(1, 7, n0=0b0010),
    job_finished(1, 8),
)
NEVER_LAUNCHED: tuple[Event, ...] = (
    *OPENING,
    granted(0, 1, n0=0b0001),
    attempt_started(0, 1),
    revoked(0, 1),
    granted(1, 1, n0=0b0001),
    granted(1, 2, n1=0b0001),
    attempt_started(1, 3),
    granted(1, 7, n0=0b0010),
    job_finished(1, 8),
)
"""The other job has not left when this one is given other GPUs."""


def test_attempt_that_was_moved_before_it_was_seen_to_start_is_told_where_it_was() -> None:
    """Its own events are those of a job whose first grant was never launched, up to its start."""
    moved, other = (asyncio.run(read(events, JOB)) for events in (MOVED, NEVER_LAUNCHED))
    assert places(moved) == [(1, "n0[0]", 2), (2, "n1[0]", 7)]
    assert places(other) == [(1, "n1[0]", 7)]
    started = MOVED.index(attempt_started(1, 3)) + 1
    assert places(asyncio.run(read(MOVED, JOB, started))) == [(1, "n0[0]", 2)]


def test_history_that_is_unclear_is_left_to_the_log() -> None:
    """A daemon has the job's own events alone."""
    lives = JobHistories()
    for number, event in enumerate(MOVED, 1):
        lives.take(event)
        assert (lives.of(JOB) is None) == (number < 5 or number > 6), number
    lives.adopt(JOB, asyncio.run(read(MOVED, JOB, 7)))
    for event in MOVED[7:]:
        lives.take(event)
    assert lives.of(JOB) == asyncio.run(read(MOVED, JOB))


class Log:
    """What a daemon reads its histories from; while it reads, more becomes durable."""

    def __init__(self, events: Sequence[Event], *durable: int) -> None:
        self.events, self.durable = events, list(durable)
        self.histories, self.last_seq = JobHistories(), self.durable.pop(0)
        self.stream = self.past = self.site = self

    async def read(self, work: Callable[[LogReader], Awaitable[T]]) -> T:
        async with reading(self.events) as reader:
            found = await work(reader)
        self.last_seq = self.durable.pop(0) if self.durable else self.last_seq
        return found

    async def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        for seq, event in enumerate(self.events[after:], after + 1):
            yield seq, event


@pytest.mark.parametrize(
    "durable", [(5, 6), (5, 7, 9), (6, 9), (9, 13)], ids=lambda seqs: "-".join(map(str, seqs))
)
def test_history_that_is_read_goes_on_with_what_becomes_durable_meanwhile(
    durable: tuple[int, ...],
) -> None:
    """It is read again where that is unclear: when the job is moved, by the seventh event."""
    services: Any = Log(MOVED, *durable)
    found = asyncio.run(history_in_log(services, JOB))
    assert found is services.histories.of(JOB)
    assert found == asyncio.run(read(MOVED, JOB, durable[-1]))


def test_grant_that_was_not_launched_is_no_attempt() -> None:
    found = life(AllocationChanged(1, JOB, on("a"), RULE), AllocationChanged(2, JOB, NOTHING, RULE))
    assert found.upto(0) == []


def test_suspended_attempt_tells_every_step_with_its_instant() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        AllocationChanged(10, JOB, NOTHING, RULE),
        SuspendAcknowledged(11, JOB, 1),
        SuspendEscalated(12, JOB, 1, SuspendMode.signal),
        CheckpointSaved(13, JOB, 1, "c", step=40),
        JobSuspended(14, JOB, 1),
        GpusReleased(15, JOB, 1),
        AllocationChanged(20, JOB, on("b"), RULE),
        AttemptStarted(21, JOB, 2, resumed_from="c"),
    )
    first, second = (one.document(str) for one in found.attempts)
    assert first == {
        "attempt": 1,
        "where": "a[0-1]",
        "granted_at": "1",
        "rule": "las",
        "started_at": "2",
        "resumed_from": "",
        "suspend_asked_at": "10",
        "acknowledged_at": "11",
        "escalated_to": ["signal"],
        "saved_at": "13",
        "step": 40,
        "ended_at": "14",
        "ended_by": "suspended",
        "exit_code": None,
        "memory_kills": 0,
        "released_at": "15",
        "lost_s": 0.0,
        "suspend_s": 5e-6,
        "discarded_at": None,
        "discarded_because": "",
        "messages_dropped": 0,
        "dropped_because": "",
        "set_aside_by": "",
    }
    assert (second["where"], second["resumed_from"], second["suspend_s"]) == ("b[0-1]", "c", None)


def test_warnings_are_told_once_each_as_they_were_said_last() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        JobWarned(3, JOB, 1, "one", 7),
        JobWarned(4, JOB, 1, "other"),
        JobSuspended(5, JOB, 1, exit_code=0),
        GpusReleased(6, JOB, 1),
        AttemptStarted(7, JOB, 2),
        JobWarned(8, JOB, 2, "one", 9),
    )
    assert found.warned(str) == [
        {"text": "other", "attempt": 1, "at": "4", "step": None},
        {"text": "one", "attempt": 2, "at": "8", "step": 9},
    ]
    first = found.attempts[0].document(str)
    assert (first["ended_by"], first["exit_code"]) == ("suspended", 0)
    many = life(*(JobWarned(each, JOB, 1, f"number {each}") for each in range(100)))
    assert [each["text"] for each in many.warned(str)] == [f"number {n}" for n in range(68, 100)]


def test_job_that_has_ended_tells_its_service_from_starts_to_releases() -> None:
    """Of the GPUs on which each attempt was found; one that never started had none."""
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        LaunchFailed(2, JOB, 1, "no room"),
        AllocationChanged(3, JOB, on("a"), RULE),
        AttemptStarted(10, JOB, 2, started_us=9),
        JobSuspended(18, JOB, 2),
        GpusReleased(19, JOB, 2),
        AllocationChanged(20, JOB, on("b"), RULE),
        AllocationLearned(21, JOB, 3, Allocation((Share(NodeName("b"), 0b111),))),
        AttemptStarted(21, JOB, 3),
        AttemptLost(25, JOB, 3, "its host"),
        AllocationChanged(30, JOB, on("b"), RULE),
        AttemptStarted(40, JOB, 4),
        JobFinished(50, JOB, ended_us=49),
    )
    assert found.service_gpu_us == 2 * (19 - 9) + 3 * (25 - 21) + 2 * (50 - 40)
    assert life(JobRejected(1, JOB, Reason.infeasible)).service_gpu_us is None


def test_time_after_the_end_of_processes_that_was_seen_late_is_no_service() -> None:
    """The scheduler was away from 4 to 100; nobody used the GPUs since 6."""
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        AttemptEnded(100, JOB, 1, 0, ended_us=6),
        GpusReleased(100, JOB, 1),
        JobFinished(100, JOB, ended_us=6),
    )
    assert found.service_gpu_us == 2 * (6 - 2)
    (one,) = [each.document(str) for each in found.attempts]
    assert (one["ended_at"], one["released_at"]) == ("6", "100")


def test_signal_is_told_of_a_job_that_failed_by_it_and_of_none_that_was_cancelled() -> None:
    def ended(*end: Event) -> JobHistory:
        return life(
            AllocationChanged(1, JOB, on("a"), RULE),
            AttemptStarted(2, JOB, 1),
            AttemptEnded(9, JOB, 1, 137, signal=9),
            GpusReleased(9, JOB, 1),
            *end,
        )

    failed, cancelled = ended(JobFailed(9, JOB, "exit", 137)), ended(JobCancelled(9, JOB))
    assert (failed.killed_by, cancelled.killed_by) == ("signal 9 (SIGKILL)", "")
    assert cancelled.attempts[0].killed_by == "signal 9 (SIGKILL)"


def test_attempt_tells_that_what_it_saved_was_discarded() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        GpusReleased(15, JOB, 1),
        CheckpointDiscarded(20, JOB, 1, (NodeName("a"),), None, "given_up", "ana"),
        AllocationChanged(20, JOB, on("b"), RULE),
        CheckpointDiscarded(21, JOB, 1, (NodeName("a"),), None, "lost"),
        AttemptStarted(21, JOB, 2),
    )
    told = [one.document(str) for one in found.attempts]
    assert [one["discarded_at"] for one in told] == ["21", None]
    assert told[0]["discarded_because"] == "a was lost"


def test_attempt_that_ended_though_it_was_asked_to_leave_was_not_suspended() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        AllocationChanged(5, JOB, NOTHING, RULE),
        AttemptEnded(26, JOB, 1, 0),
        GpusReleased(26, JOB, 1),
        JobFinished(26, JOB),
    )
    (one,) = [each.document(str) for each in found.attempts]
    assert (one["suspend_asked_at"], one["suspend_s"]) == ("5", None)


def test_moved_job_is_asked_to_leave_by_its_next_grant() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(2, JOB, 1),
        AllocationChanged(5, JOB, on("b"), RULE),
        JobSuspended(6, JOB, 1),
        GpusReleased(7, JOB, 1),
        AttemptStarted(8, JOB, 2),
    )
    assert [(one.where, one.asked_us) for one in found.attempts] == [
        ("a[0-1]", 5),
        ("b[0-1]", None),
    ]


def test_attempt_in_turns_that_was_given_other_gpus_tells_those() -> None:
    """It works on: its next turns are there."""
    moved = Allocation((Share(NodeName("a"), 0b1100),), Sharing.sliced)
    found = life(
        AllocationChanged(1, JOB, replace(on("a"), sharing=Sharing.sliced), RULE),
        AttemptStarted(2, JOB, 1),
        JobReshaped(5, JOB, moved, Because("lower_height")),
    )
    assert [one.where for one in found.attempts] == ["a[2-3]"]


def test_attempt_asked_to_leave_before_it_began_knows_when() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AllocationChanged(2, JOB, NOTHING, RULE),
        AttemptStarted(3, JOB, 1),
        JobSuspended(4, JOB, 1),
        GpusReleased(5, JOB, 1),
    )
    assert [one.asked_us for one in found.attempts] == [2]


def test_attempt_that_is_launched_and_not_yet_seen_is_told() -> None:
    found = life(AllocationChanged(1, JOB, on("a"), RULE))
    assert found.attempts == []
    assert [(one.number, one.where) for one in found.upto(1)] == [(1, "a[0-1]")]


def test_lost_and_failed_attempts_say_why() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        LaunchFailed(2, JOB, 1, "no such program"),
        AllocationChanged(3, JOB, on("a"), RULE),
        AttemptStarted(4, JOB, 2),
        AttemptLost(5, JOB, 2, "supervisor"),
    )
    assert [one.ended_by for one in found.attempts] == [
        "not launched: no such program",
        "lost: supervisor",
    ]


def test_end_says_outcome_code_and_time_run() -> None:
    found = life(
        AllocationChanged(1, JOB, on("a"), RULE),
        AttemptStarted(1_000_000, JOB, 1),
        AttemptEnded(3_500_000, JOB, 1, 7),
        GpusReleased(3_500_000, JOB, 1),
        JobFailed(3_500_000, JOB, "exit", 7),
    )
    row = found.row(str)
    assert (row["state"], row["exit_code"], row["run_s"], row["attempts"]) == ("failed", 7, 2.5, 1)


def test_each_way_to_end_has_its_outcome() -> None:
    assert life(JobFinished(1, JOB)).outcome is Outcome.finished
    assert life(JobFailed(1, JOB, "timeout")).outcome is Outcome.timeout
    rejected = life(JobRejected(1, JOB, Reason.infeasible, 9, 4, "too wide"))
    assert (rejected.outcome, rejected.cause) == (Outcome.rejected, "infeasible: too wide")


def test_lives_are_those_of_jobs_seen_from_their_submission() -> None:
    lives = JobHistories()
    lives.take(AttemptStarted(1, JobId("before"), 1))
    lives.take(JobSubmitted(2, JOB, JobSpec()))
    assert (lives.of(JobId("before")), lives.of(JOB)) == (
        None,
        JobHistory(JobSubmitted(2, JOB, JobSpec())),
    )
    lives.take(JobFinished(3, JOB))
    found = lives.of(JOB)
    assert found is not None
    assert found.outcome is Outcome.finished


def test_oldest_end_goes_when_there_are_too_many() -> None:
    lives = JobHistories()
    ids = [JobId(f"j{number}") for number in range(ENDED_MOST + 1)]
    for job_id in ids:
        lives.take(JobSubmitted(1, job_id, JobSpec()))
        lives.take(JobFinished(2, job_id))
    assert lives.of(ids[0]) is None
    assert all(lives.of(job_id) is not None for job_id in ids[1:])
