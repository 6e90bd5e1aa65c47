"""Guards: which jobs keep their GPUs, which go to the head of the line, and until when."""

from typing import Any

import pytest

from shunter.core import HOUR_US, NO_GUARDS, Band, Guards, Job
from shunter.core.fold import replay
from shunter.events import Allocation, Because, Event, Reason, Share, Sharing, SuspendMode, facts
from tests.factories import granted, job_id, job_submitted, node_added, node_name, revoked, servers

MIN_RUNTIME = Guards(min_runtime_us=10)
ONCE = Guards(preemptions_per_hour=1)
STARVATION = Guards(starvation_us=20)


def waiting(**fields: Any) -> Job:
    """Return a job that waits since 5."""
    return replay([node_added(), job_submitted(0, at=5, **fields)]).jobs[job_id(0)]


def running(*preempted_us: int, since_us: int = 100, **fields: Any) -> Job:
    """Return a job that runs since an instant, and was preempted at others before."""
    state = replay([node_added(), job_submitted(0, **fields)])
    for at_us in preempted_us:
        for change in (granted(0, at_us, n0=1, instant=True), revoked(0, at_us, instant=True)):
            replay([change], state)
    return replay([granted(0, since_us, n0=1, instant=True)], state).jobs[job_id(0)]


@pytest.mark.parametrize(
    ("guards", "off"), [(NO_GUARDS, True), (MIN_RUNTIME, False), (ONCE, False), (STARVATION, False)]
)
def test_guards_are_off_when_none_is_configured(guards: Guards, off: bool) -> None:
    assert guards.are_off == off


@pytest.mark.parametrize(
    ("guards", "job", "now_us", "reason"),
    [
        (NO_GUARDS, running(), 100, None),
        (MIN_RUNTIME, running(), 109, Reason.guard_min_runtime),
        (MIN_RUNTIME, running(), 110, None),
        (MIN_RUNTIME, waiting(), 5, None),
        (ONCE, running(), 100, None),
        (ONCE, running(50), HOUR_US + 49, Reason.guard_preemption_limit),
        (ONCE, running(50), HOUR_US + 50, None),
        (Guards(preemptions_per_hour=2), running(50), 100, None),
        (Guards(preemptions_per_hour=2), running(40, 50), 100, Reason.guard_preemption_limit),
        (Guards(preemptions_per_hour=2), running(40, 50), HOUR_US + 40, None),
        (NO_GUARDS, running(suspend_mode=SuspendMode.never), 999, Reason.guard_preemption_limit),
        (NO_GUARDS, waiting(suspend_mode=SuspendMode.never), 999, None),
    ],
)
def test_job_is_pinned_by_the_first_guard_that_holds(
    guards: Guards, job: Job, now_us: int, reason: Reason | None
) -> None:
    assert guards.pinned_by(job, now_us) is reason


@pytest.mark.parametrize(
    ("guards", "job", "now_us", "band", "changes_at"),
    [
        (NO_GUARDS, running(), 100, Band.normal, None),
        (MIN_RUNTIME, running(), 100, Band.pinned, 110),
        (MIN_RUNTIME, running(), 110, Band.normal, None),
        (ONCE, running(50), 100, Band.pinned, HOUR_US + 50),
        (Guards(10, 1), running(50), 100, Band.pinned, HOUR_US + 50),
        (Guards(HOUR_US, 1), running(50), 100, Band.pinned, HOUR_US + 100),
        (STARVATION, waiting(), 24, Band.normal, 25),
        (STARVATION, waiting(), 25, Band.starved, None),
        (STARVATION, running(), 999, Band.normal, None),
        (MIN_RUNTIME, waiting(), 5, Band.normal, None),
        (MIN_RUNTIME, running(suspend_mode=SuspendMode.never), 100, Band.pinned, None),
    ],
)
def test_band_holds_until_it_changes(
    guards: Guards, job: Job, now_us: int, band: Band, changes_at: int | None
) -> None:
    assert guards.band(job, now_us) is band
    assert guards.changes_at(job, now_us) == changes_at


@pytest.mark.parametrize(
    ("guards", "job", "now_us"),
    [(MIN_RUNTIME, running(), 103), (ONCE, running(50), 100), (STARVATION, waiting(), 7)],
)
def test_band_is_another_one_at_the_instant_it_was_said_to_change(
    guards: Guards, job: Job, now_us: int
) -> None:
    changes_at = guards.changes_at(job, now_us)
    assert changes_at is not None
    assert guards.band(job, changes_at - 1) is guards.band(job, now_us)
    assert guards.band(job, changes_at) is not guards.band(job, now_us)


FIRST = Guards(min_runtime_us=10, launches_first=True)
MINUTE_US = 60_000_000


def launched(*more: Event, at_us: int = 100) -> Job:
    """Return a job that was given GPUs at an instant, with what happened to it then."""
    opening: list[Event] = [node_added(), job_submitted(0), granted(0, at_us, n0=1)]
    return replay([*opening, *more]).jobs[job_id(0)]


def started(at_us: int, *, may_tell: bool = False, attempt: int = 1) -> facts.AttemptStarted:
    return facts.AttemptStarted(at_us, job_id(0), attempt, may_tell_training=may_tell)


@pytest.mark.parametrize("guards", [FIRST, Guards(launches_first=True)])
def test_job_that_is_still_to_be_launched_keeps_its_gpus(guards: Guards) -> None:
    job = launched()
    assert guards.pinned_by(job, 5_000) is Reason.guard_min_runtime
    assert guards.band(job, 5_000) is Band.pinned
    assert guards.changes_at(job, 5_000) is None
    assert NO_GUARDS.pinned_by(job, 5_000) is None


def test_guard_counts_from_the_end_of_a_launch_that_took_time() -> None:
    job = launched(started(150))
    assert FIRST.pinned_by(job, 159) is Reason.guard_min_runtime
    assert FIRST.changes_at(job, 150) == 160
    assert FIRST.pinned_by(job, 160) is None
    assert MIN_RUNTIME.pinned_by(job, 110) is None


def test_guard_counts_from_the_first_mini_batch_where_that_is_told() -> None:
    waits = launched(started(150, may_tell=True))
    assert FIRST.changes_at(waits, 150) == 150 + MINUTE_US + 10
    trains = launched(started(150, may_tell=True), facts.TrainingStarted(900, job_id(0), 1))
    assert FIRST.pinned_by(trains, 909) is Reason.guard_min_runtime
    assert FIRST.pinned_by(trains, 910) is None


def test_guard_of_a_job_in_turns_counts_from_its_first_one() -> None:
    there = (Share(node_name(0), 1),)
    target = Allocation(there, Sharing.sliced)
    opening: list[Event] = [node_added(), job_submitted(0)]
    opening += [facts.AllocationChanged(100, job_id(0), target, Because("test")), started(100)]
    turns: list[Event] = [
        facts.TurnStarted(100, job_id(0), 1, there),
        facts.TurnEnded(104, job_id(0), 1),
    ]
    turns += [facts.TurnStarted(108, job_id(0), 1, there)]
    job = replay([*opening, *turns]).jobs[job_id(0)]
    assert MIN_RUNTIME.pinned_by(job, 109) is Reason.guard_min_runtime
    assert MIN_RUNTIME.changes_at(job, 109) == 110
    assert MIN_RUNTIME.pinned_by(job, 110) is None


def test_job_that_never_tells_a_mini_batch_is_waited_for_a_few_times_only() -> None:
    waited = []
    events: list[Event] = [node_added(), job_submitted(0)]
    for attempt in range(1, 7):
        events += [granted(0, attempt, n0=1), started(attempt, may_tell=True, attempt=attempt)]
        job = replay(events).jobs[job_id(0)]
        waited.append(Guards(0, launches_first=True).runs_from_us(job) - attempt)
        events += [facts.AttemptLost(attempt, job_id(0), attempt, "gone")]
    assert waited == [MINUTE_US, 2 * MINUTE_US, 4 * MINUTE_US, 8 * MINUTE_US, 0, 0]


def test_job_that_has_told_one_is_waited_for_longer() -> None:
    events: list[Event] = [
        *(node_added(), job_submitted(0), granted(0, 1, n0=1), started(1, may_tell=True)),
        *(facts.TrainingStarted(2, job_id(0), 1), facts.AttemptLost(3, job_id(0), 1, "gone")),
        *(granted(0, 4, n0=1), started(4, may_tell=True, attempt=2)),
    ]
    assert FIRST.runs_from_us(replay(events).jobs[job_id(0)]) == 4 + 10 * MINUTE_US


def test_a_job_that_prepares_is_kept_by_no_guard_that_is_off() -> None:
    """Two_level and who makes room ask of single jobs whether a guard keeps them."""
    begun = facts.AttemptStarted(0, job_id(0), 1, may_tell_training=True)
    job = replay([*servers(4), job_submitted(0), granted(0, n0=1), begun]).jobs[job_id(0)]
    assert job.counts_from_us is None or job.counts_from_us > 1
    assert Guards(launches_first=True).pinned_by(job, 1) is None
    guarded = Guards(min_runtime_us=1, launches_first=True)
    assert guarded.pinned_by(job, 1) is Reason.guard_min_runtime
