"""Attempts that leave with exit code 75 though nobody asked: longer waits, and a bound."""

import pytest

from shunter.core import (
    DEPARTURES_MOST,
    LONG_US,
    CancelJob,
    HoldJob,
    Input,
    JobPhase,
    Scheduler,
    SubmitJob,
)
from shunter.events import Event, facts
from tests.factories import World, job_id, job_spec, policy, servers

J0 = job_id(0)
S = 1_000_000


class Leaver:
    """A core with one job, each of whose attempts runs for a while and leaves by itself."""

    def __init__(self, retries: int = 0, *, bounds_departures: bool = True) -> None:
        world = World(servers=servers(4), is_live=True, bounds_departures=bounds_departures)
        self.core: Scheduler = world.scheduler(policy(), instant=False)[0]
        self.now_us = 0
        self.core.step(0, [SubmitJob(0, J0, job_spec(retries=retries))])

    def leaves(self, step: int | None = None, *, after_us: int = S, cause: str = "") -> list[Event]:
        """Let an attempt run, save at a step if it does, and leave; return what was recorded."""
        attempt = self.core.state.jobs[J0].attempt
        self.core.step(self.now_us, [facts.AttemptStarted(self.now_us, J0, attempt)])
        self.now_us += after_us
        at_us = self.now_us
        saved: list[Input] = (
            [] if step is None else [facts.CheckpointSaved(at_us, J0, attempt, "", step)]
        )
        left: list[Input] = [
            facts.JobSuspended(at_us, J0, attempt, cause=cause),
            facts.GpusReleased(at_us, J0, attempt),
        ]
        return self.core.step(at_us, [*saved, *left])[0]

    def waits_s(self) -> float:
        """Let time pass until the next attempt; return how long that is."""
        before_us = self.now_us
        at_us = self.core.deadline_us(before_us)
        assert at_us is not None
        self.now_us = at_us
        self.core.step(at_us, ())
        assert self.core.state.jobs[J0].phase is JobPhase.launching
        return (at_us - before_us) / S


def test_waits_grow_without_progress_and_the_job_fails_with_a_reason_in_the_end() -> None:
    job, waits = Leaver(), []
    for _ in range(DEPARTURES_MOST - 1):
        assert not [event for event in job.leaves() if isinstance(event, facts.JobFailed)]
        waits.append(job.waits_s())
    assert waits == [1, 2, 4, 8, 16, 32, 64]
    events = job.leaves()
    cause = f"left {DEPARTURES_MOST} times in a row by itself (exit code 75) without progress"
    assert facts.JobFailed(job.now_us, J0, cause) in events
    assert job.core.past.outcome(J0) is facts.Outcome.failed
    assert sum(pool.gpus_free for pool in job.core.state.cluster.pools.values()) == 4


def test_job_with_retries_has_as_many_further_attempts() -> None:
    job = Leaver(retries=2)
    for _ in range(2):
        job.leaves()
        job.waits_s()
    assert [event for event in job.leaves() if isinstance(event, facts.JobFailed)]


def test_job_whose_saved_steps_grow_never_fails_and_never_waits_longer() -> None:
    job = Leaver()
    for step in range(3 * DEPARTURES_MOST):
        job.leaves(step)
        assert job.waits_s() == 1


def test_job_that_saves_the_same_step_each_time_fails() -> None:
    job = Leaver()
    job.leaves(7)
    for _ in range(DEPARTURES_MOST - 1):
        job.waits_s()
        job.leaves(7, after_us=2 * LONG_US)
    job.waits_s()
    assert [event for event in job.leaves(7) if isinstance(event, facts.JobFailed)]


def test_progress_after_some_departures_without_begins_the_count_anew() -> None:
    job = Leaver()
    waits = []
    for step in (1, 1, 1, 1, 2, 2, 2):
        job.leaves(step)
        waits.append(job.waits_s())
    assert waits == [1, 1, 2, 4, 1, 1, 2]


def test_attempt_that_lived_for_long_and_tells_no_step_made_progress() -> None:
    job = Leaver()
    for _ in range(2 * DEPARTURES_MOST):
        job.leaves(after_us=LONG_US)
        assert job.waits_s() == 1


def test_attempt_that_slurm_ended_is_not_counted() -> None:
    job = Leaver()
    for _ in range(2 * DEPARTURES_MOST):
        job.leaves(cause="Slurm's time limit of 1 h ended it")
        assert job.waits_s() == 1


def test_logs_of_before_are_decided_as_they_were() -> None:
    job = Leaver(bounds_departures=False)
    for _ in range(2 * DEPARTURES_MOST):
        job.leaves()
        assert job.waits_s() == 1


@pytest.mark.parametrize("holds", [True, False])
def test_who_is_held_or_cancelled_while_it_leaves_ends_as_it_was_told(*, holds: bool) -> None:
    job = Leaver()
    for _ in range(DEPARTURES_MOST - 1):
        job.leaves()
        job.waits_s()
    attempt = job.core.state.jobs[J0].attempt
    job.core.step(job.now_us, [facts.AttemptStarted(job.now_us, J0, attempt)])
    job.core.step(job.now_us, [facts.JobSuspended(job.now_us, J0, attempt)])
    order = HoldJob(job.now_us, J0, "ann") if holds else CancelJob(job.now_us, J0, "ann")
    job.core.step(job.now_us, [order])
    job.core.step(job.now_us, [facts.GpusReleased(job.now_us, J0, attempt)])
    expected = facts.Outcome.failed if holds else facts.Outcome.cancelled
    assert job.core.past.outcome(J0) is expected
