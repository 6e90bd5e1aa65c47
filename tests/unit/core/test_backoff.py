"""Launches that fail: the job waits, longer each time, and fails in the end."""

import pytest

from shunter.core import (
    LAUNCHES_MOST,
    HoldJob,
    JobPhase,
    ReleaseJob,
    Scheduler,
    State,
    SubmitJob,
    SuspendJob,
)
from shunter.core.fold import backoff_us
from shunter.events import BACKING_OFF, SuspendMode, decode_record, encode_record, facts
from tests.factories import World, job_id, job_spec, policy, servers

J0 = job_id(0)
SECOND_US = 1_000_000


def launched() -> Scheduler:
    """Return a core in which a job has just been launched."""
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec())])
    assert core.state.jobs[J0].phase is JobPhase.launching
    return core


def failed(core: Scheduler, at_us: int, *, retryable: bool = True) -> list[object]:
    attempt = core.state.jobs[J0].attempt
    return [*core.step(at_us, [facts.LaunchFailed(at_us, J0, attempt, "no", retryable)])[0]]


def test_failed_launch_is_tried_again_after_a_second() -> None:
    core = launched()
    failed(core, 10)
    assert core.state.jobs[J0].phase is JobPhase.waiting
    assert core.deadline_us(10) == 10 + SECOND_US
    events, effects = core.step(10 + SECOND_US, ())
    assert facts.JobReleased(10 + SECOND_US, J0, BACKING_OFF) in events
    assert len(effects) == 1
    assert core.state.jobs[J0].attempt == 2


def test_waits_double_and_end() -> None:
    assert [backoff_us(failed) // SECOND_US for failed in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert backoff_us(60) == 300 * SECOND_US


def test_job_fails_with_its_last_launch() -> None:
    core, now_us = launched(), 0
    for _ in range(LAUNCHES_MOST - 1):
        failed(core, now_us)
        now_us = core.deadline_us(now_us) or 0
        core.step(now_us, ())
    events = failed(core, now_us)
    assert facts.JobFailed(now_us, J0, "launch: no") in events
    assert core.past.outcome(J0) is facts.Outcome.failed


def test_launch_that_can_never_work_fails_the_job_at_once() -> None:
    core = launched()
    assert facts.JobFailed(5, J0, "launch: no") in failed(core, 5, retryable=False)


def test_start_forgets_earlier_failures() -> None:
    core = launched()
    failed(core, 0)
    core.step(SECOND_US, ())
    core.step(SECOND_US, [facts.AttemptStarted(SECOND_US, J0, 2)])
    assert core.state.jobs[J0].launches_failed == 0


def test_person_who_holds_a_job_that_backs_off_keeps_it() -> None:
    core = launched()
    failed(core, 0)
    core.step(1, [HoldJob(1, J0, "ann")])
    assert core.deadline_us(1) is None
    core.step(5 * SECOND_US, [ReleaseJob(5 * SECOND_US, J0, "ann")])
    assert core.state.jobs[J0].attempt == 2


def test_wait_goes_on_in_the_next_term() -> None:
    core = launched()
    failed(core, 0)
    state: State = decode_record(State, encode_record(core.state))
    again = Scheduler(policy(), core.rules, state)
    assert again.deadline_us(1) == SECOND_US


def test_job_that_leaves_by_itself_is_not_resumed_at_once() -> None:
    core = launched()
    core.step(5, [facts.AttemptStarted(5, J0, 1)])
    core.step(9, [facts.JobSuspended(9, J0, 1), facts.GpusReleased(9, J0, 1)])
    assert core.state.jobs[J0].attempt == 1
    assert core.deadline_us(9) == 9 + SECOND_US
    core.step(9 + SECOND_US, ())
    assert core.state.jobs[J0].attempt == 2


def test_job_that_was_asked_to_leave_is_resumed_at_once() -> None:
    core = launched()
    core.step(5, [facts.AttemptStarted(5, J0, 1)])
    core.step(6, [SuspendJob(6, J0, "ann")])
    core.step(7, [ReleaseJob(7, J0, "ann")])
    core.step(9, [facts.JobSuspended(9, J0, 1), facts.GpusReleased(9, J0, 1)])
    assert core.state.jobs[J0].attempt == 2


def test_suspension_of_a_launching_job_is_ordered_once_decided() -> None:
    core = launched()
    events, effects = core.step(3, [SuspendJob(3, J0, "ann")])
    assert facts.JobHeld(3, J0, "ann") in events
    assert [type(effect).__name__ for effect in effects] == ["SuspendAttempt"]
    assert core.state.jobs[J0].phase is JobPhase.suspending


def test_job_that_cannot_be_suspended_is_held_where_it_runs() -> None:
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(suspend_mode=SuspendMode.never))])
    events, effects = core.step(3, [SuspendJob(3, J0, "ann")])
    assert events == [facts.JobHeld(3, J0, "ann")]
    assert effects == []


@pytest.mark.parametrize("key", ["a", ""])
def test_second_submission_under_a_key_is_none(key: str) -> None:
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    orders = [SubmitJob(0, job_id(n), job_spec(user="ann"), key=key) for n in (1, 2)]
    events, _ = core.step(0, orders)
    submitted = [one.job_id for one in events if isinstance(one, facts.JobSubmitted)]
    assert submitted == [job_id(1)] + ([] if key else [job_id(2)])
