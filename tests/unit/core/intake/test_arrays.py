"""Arrays of which only so many tasks may run at once, and jobs that are lost again and again."""

from shunter.core import (
    LONG_US,
    AttemptExited,
    CancelJob,
    Losses,
    ReleaseJob,
    Scheduler,
    State,
    SubmitJob,
    SuspendJob,
    has_no_turn,
)
from shunter.core.fold import backoff_us
from shunter.events import ARRAY, BACKING_OFF, JobId, decode_record, encode_record, facts
from tests.factories import World, job_id, job_spec, policy, servers

WORLD = World(servers=servers(8), is_live=True)


def with_array(tasks: int, at_once: int | None) -> Scheduler:
    """Return a core to which an array was submitted, in one step."""
    core, _ = WORLD.scheduler(policy(), instant=False)
    spec = job_spec(array=job_id(0), at_once=at_once)
    core.step(0, [SubmitJob(0, job_id(number), spec) for number in range(tasks)])
    return core


def under_way(core: Scheduler) -> list[JobId]:
    return [job.job_id for job in core.state.jobs.values() if job.since_us is not None]


def ended(core: Scheduler, number: int, at_us: int) -> list[object]:
    """End a task; return the events of that step."""
    return [*core.step(at_us, [AttemptExited(at_us, job_id(number), 1, 0, released=True)])[0]]


def test_no_more_tasks_start_than_may() -> None:
    core = with_array(5, 2)
    assert under_way(core) == [job_id(0), job_id(1)]
    assert [has_no_turn(job) for job in core.state.jobs.values()] == [False] * 2 + [True] * 3


def test_array_without_a_bound_holds_nobody() -> None:
    assert len(under_way(with_array(5, None))) == 5


def test_whoever_ends_the_next_one_follows() -> None:
    core = with_array(5, 2)
    assert facts.JobReleased(10, job_id(2), ARRAY) in ended(core, 1, 10)
    assert facts.JobReleased(20, job_id(3), ARRAY) in ended(core, 2, 20)
    assert under_way(core) == [job_id(0), job_id(3)]


def test_task_cancelled_before_its_turn_makes_no_room() -> None:
    core = with_array(5, 2)
    core.step(10, [CancelJob(10, job_id(2))])
    assert under_way(core) == [job_id(0), job_id(1)]
    ended(core, 0, 20)
    assert under_way(core) == [job_id(1), job_id(3)]


def test_released_task_of_a_full_array_waits_for_its_turn_again() -> None:
    core = with_array(3, 1)
    core.step(10, [SuspendJob(10, job_id(1)), ReleaseJob(11, job_id(1))])
    assert under_way(core) == [job_id(0)]
    assert has_no_turn(core.state.jobs[job_id(1)])


def test_core_that_starts_anew_goes_on_with_the_turns() -> None:
    core = with_array(4, 1)
    state = decode_record(State, encode_record(core.state))
    again = Scheduler(policy(), WORLD.rules(instant=False), state)
    assert facts.JobReleased(10, job_id(1), ARRAY) in ended(again, 0, 10)


def test_job_lost_again_and_again_waits_longer_each_time() -> None:
    core, _ = WORLD.scheduler(policy(), instant=False)
    core.step(0, [SubmitJob(0, job_id(0), job_spec())])
    now_us, waits = 0, []
    for attempt in range(1, 5):
        core.step(now_us, [facts.AttemptStarted(now_us, job_id(0), attempt)])
        now_us += 1
        events, _ = core.step(now_us, [facts.AttemptLost(now_us, job_id(0), attempt, "gone")])
        held = [one for one in events if isinstance(one, facts.JobHeld) and one.by == BACKING_OFF]
        waits.append([(one.until_us or 0) - now_us for one in held])
        now_us = core.deadline_us(now_us) or now_us
        core.step(now_us, ())
        assert core.state.jobs[job_id(0)].attempt == attempt + 1
    assert waits == [[], [backoff_us(1)], [backoff_us(2)], [backoff_us(3)]]


def test_attempt_that_lived_long_was_well() -> None:
    losses, jobs = Losses(), with_array(1, None).state.jobs
    assert [losses.wait_us(job_id(0), 0, jobs) for _ in range(3)] == [
        *(0, backoff_us(1), backoff_us(2))
    ]
    assert losses.wait_us(job_id(0), LONG_US, jobs) == 0
    assert losses.wait_us(job_id(0), 0, jobs) == backoff_us(1)
