"""Attempts that wait in a queue that is not ours: neither service nor time limit count until then.

Each test: an attempt launched at once, told as started, failed or displaced later.
"""

from typing import Any

import pytest

from shunter.ask import Verifier
from shunter.core import Input, JobPhase, Scheduler, SubmitJob
from shunter.errors import IllegalEventError
from shunter.events import AttemptStarted, Event, GpusTaken, LaunchFailed, TimeLimitReached
from tests.factories import World, job_id, job_spec, node_name, policy, servers
from tests.replay.recording import rebuilt

J0, J1 = job_id(0), job_id(1)
LIMIT_US = 100


def launched(*, waits: bool, **fields: Any) -> Scheduler:
    """Return a live core that has launched a job of two GPUs and a time limit."""
    world = World(servers=servers(4), is_live=True, launches_wait=waits)
    core, _ = world.scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, J0, job_spec(2, time_limit_us=LIMIT_US, **fields))])
    assert core.state.jobs[J0].phase is JobPhase.launching
    return core


def limits(events: list[Event]) -> list[int]:
    return [event.at_us for event in events if isinstance(event, TimeLimitReached)]


def test_the_time_limit_counts_from_the_start_that_was_observed() -> None:
    core = launched(waits=True)
    assert limits(core.step(500, [])[0]) == []
    deadline_us = core.deadline_us(500)
    assert deadline_us is None or deadline_us > 500
    core.step(1000, [AttemptStarted(1000, J0, 1)])
    assert limits(core.step(1000 + LIMIT_US - 1, [])[0]) == []
    assert limits(core.step(1000 + LIMIT_US, [])[0]) == [1000 + LIMIT_US]


def test_elsewhere_it_counts_from_the_launch() -> None:
    core = launched(waits=False)
    assert limits(core.step(LIMIT_US, [])[0]) == [LIMIT_US]


def test_what_it_waited_is_no_service() -> None:
    core = launched(waits=True)
    core.step(1000, [AttemptStarted(1000, J0, 1)])
    job = core.state.jobs[J0]
    assert (job.service_us(1010), job.occupied_us(1010)) == (20, 10)


def test_a_start_that_was_seen_late_counts_from_when_it_was() -> None:
    core = launched(waits=True)
    step = core.step(1000, [AttemptStarted(1000, J0, 1, started_us=990)])[0]
    job = core.state.jobs[J0]
    assert (job.service_us(1010), job.occupied_us(1010)) == (40, 20)
    assert limits(step) == []
    assert limits(core.step(990 + LIMIT_US - 1, [])[0]) == []
    assert limits(core.step(990 + LIMIT_US, [])[0]) == [990 + LIMIT_US]


def test_a_time_limit_that_was_over_when_the_start_was_seen_ends_the_job_then() -> None:
    core = launched(waits=True)
    assert limits(core.step(1000, [AttemptStarted(1000, J0, 1, started_us=500)])[0]) == [1000]


def test_no_start_counts_from_before_its_launch_whatever_its_clock_says() -> None:
    core = launched(waits=True)
    core.step(10, [AttemptStarted(10, J0, 1, started_us=0)])
    assert core.state.jobs[J0].service_us(10) == 20


def test_where_launches_do_not_wait_the_start_is_when_it_is_seen() -> None:
    core = launched(waits=False)
    events, _ = core.step(50, [AttemptStarted(50, J0, 1, started_us=20)])
    (started,) = [event for event in events if isinstance(event, AttemptStarted)]
    assert (started.started_us, core.state.jobs[J0].working_since_us) == (None, 50)


def test_a_start_after_it_was_seen_is_illegal() -> None:
    core = launched(waits=True)
    with pytest.raises(IllegalEventError, match="expected before"):
        core.step(1000, [AttemptStarted(1000, J0, 1, started_us=1001)])


def test_an_attempt_that_never_started_has_had_no_service() -> None:
    core = launched(waits=True)
    core.step(1000, [LaunchFailed(1000, J0, 1, "Slurm forgot it")])
    job = core.state.jobs[J0]
    assert (job.service_gpu_us, job.held_us) == (0, 0)


def test_one_that_was_displaced_before_it_started_has_had_none_either() -> None:
    core = launched(waits=True)
    core.step(1000, [GpusTaken(1000, node_name(0), 0b1111)])
    assert core.state.jobs[J0].phase is JobPhase.suspending
    assert core.state.jobs[J0].service_gpu_us == 0


def test_a_daemon_that_comes_back_goes_on_counting_from_the_start() -> None:
    core = launched(waits=True)
    core.step(1000, [AttemptStarted(1000, J0, 1)])
    again = Scheduler(policy(), core.rules, core.state)
    assert limits(again.step(1000 + LIMIT_US, [])[0]) == [1000 + LIMIT_US]
    waiting = launched(waits=True)
    again = Scheduler(policy(), waiting.rules, waiting.state)
    assert limits(again.step(500, [])[0]) == []


def test_log_with_starts_that_were_seen_late_verifies() -> None:
    """The one whose limit was over by then ends with the step in which that was seen."""
    world = World(servers=servers(4), is_live=True, launches_wait=True)
    chosen = policy()
    core, events = world.scheduler(chosen, instant=False)
    spec = job_spec(2, time_limit_us=LIMIT_US)
    steps: dict[int, list[Input]] = {
        0: [SubmitJob(0, J0, spec), SubmitJob(0, J1, spec)],
        1000: [
            AttemptStarted(1000, J0, 1, started_us=500),
            AttemptStarted(1000, J1, 1, started_us=950),
        ],
        1050: [],
    }
    for at_us, inputs in steps.items():
        events += core.step(at_us, inputs)[0]
    assert limits(events) == [1000, 1050]
    assert Verifier(rebuilt(chosen, core.rules)).take(events) is None
