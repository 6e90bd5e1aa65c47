"""`retries`: what fails by itself is tried again so often, and what counts as a failure."""

from shunter.core import AttemptExited, CancelJob, JobPhase, Scheduler, SubmitJob
from shunter.events import BACKING_OFF, facts
from tests.factories import World, job_id, job_spec, policy, servers

J0, J1 = job_id(0), job_id(1)
S = 1_000_000


def running(retries: int = 2) -> Scheduler:
    """Return a core in which a job runs that may be retried."""
    core, _ = World(servers=servers(4), is_live=True).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(retries=retries))])
    core.step(0, [facts.AttemptStarted(0, J0, 1)])
    return core


def exited(core: Scheduler, at_us: int, code: int | None = 1) -> list[object]:
    attempt = core.state.jobs[J0].attempt
    return [*core.step(at_us, [AttemptExited(at_us, J0, attempt, code, released=True)])[0]]


def comes_back(core: Scheduler, now_us: int) -> int:
    """Let time pass until the job runs again; return when that is."""
    at_us = core.deadline_us(now_us)
    assert at_us is not None
    core.step(at_us, ())
    core.step(at_us, [facts.AttemptStarted(at_us, J0, core.state.jobs[J0].attempt)])
    assert core.state.jobs[J0].phase is JobPhase.running
    return at_us


def test_attempt_that_fails_is_followed_by_another_one_after_a_wait() -> None:
    core = running()
    events = exited(core, S)
    assert events[:4] == [
        facts.AttemptEnded(S, J0, 1, 1),
        facts.GpusReleased(S, J0, 1),
        facts.JobRetried(S, J0, 1),
        facts.JobHeld(S, J0, BACKING_OFF, 2 * S),
    ]
    assert core.state.cluster.pools
    assert sum(pool.gpus_free for pool in core.state.cluster.pools.values()) == 4
    assert comes_back(core, S) == 2 * S
    assert core.state.jobs[J0].attempt == 2


def test_waits_double_and_the_last_failure_fails_the_job() -> None:
    core, now_us, waits = running(), 0, []
    for _ in range(2):
        exited(core, now_us)
        back_us = comes_back(core, now_us)
        waits.append(back_us - now_us)
        now_us = back_us
    assert waits == [S, 2 * S]
    assert facts.JobFailed(now_us, J0, "exit", 7) in exited(core, now_us, 7)
    assert core.past.outcome(J0) is facts.Outcome.failed


def test_code_that_nobody_saw_counts_as_a_failure() -> None:
    core = running(retries=1)
    assert facts.JobRetried(S, J0, 1) in exited(core, S, None)


def test_lost_attempt_does_not_count() -> None:
    core = running(retries=1)
    for attempt in (1, 2, 3):
        at_us = attempt * S
        core.step(at_us, [facts.AttemptLost(at_us, J0, attempt, "host n0 lost")])
        while core.state.jobs[J0].phase is not JobPhase.launching:
            at_us = core.deadline_us(at_us) or 0
            core.step(at_us, ())
        core.step(at_us, [facts.AttemptStarted(at_us, J0, attempt + 1)])
    assert core.state.jobs[J0].failures == 0
    assert facts.JobRetried(90 * S, J0, 4) in exited(core, 90 * S)


def test_failure_while_it_has_to_leave_does_not_count() -> None:
    core = running(retries=1)
    core.step(S, [SubmitJob(S, J1, job_spec(gpus=4, priority=9))])
    job = core.state.jobs[J0]
    job.phase = JobPhase.suspending  # as a policy that preempts leaves it
    events = exited(core, 2 * S)
    assert facts.JobRetried(2 * S, J0, 1) in events
    assert job.failures == 0


def test_end_that_was_asked_for_is_none_to_retry() -> None:
    core = running()
    core.step(S, [CancelJob(S, J0, "ana")])
    exited(core, 2 * S, 143)
    assert core.past.outcome(J0) is facts.Outcome.cancelled


def test_job_without_retries_fails_at_once() -> None:
    core = running(retries=0)
    assert facts.JobFailed(S, J0, "exit", 1) in exited(core, S)


def test_job_whose_server_is_lost_after_it_failed_is_retried() -> None:
    core = running()
    core.step(S, [AttemptExited(S, J0, 1, 1, released=False)])
    events = core.step(2 * S, [facts.AttemptLost(2 * S, J0, 1, "host n0 lost")])[0]
    assert facts.JobRetried(2 * S, J0, 1) in events
    assert core.state.jobs[J0].failures == 1


def test_failure_that_a_trace_tells_is_the_end_of_its_job() -> None:
    core, _ = World(servers=servers(4)).scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(retries=2))])
    core.step(0, [facts.AttemptStarted(0, J0, 1)])
    assert exited(core, S)[-1] == facts.JobFailed(S, J0, "exit", 1)
