"""Guards: which jobs keep their GPUs, which go to the head of the line, and until when."""

from typing import Any

import pytest

from shunter.core.fold import replay
from shunter.core.planning.guards import HOUR_US, NO_GUARDS, Band, Guards
from shunter.core.state import Job
from shunter.events.values.job_spec import SuspendMode
from shunter.events.values.reasons import Reason
from tests.factories import granted, job_id, job_submitted, node_added, revoked

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
