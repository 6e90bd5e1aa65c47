"""What a job measures of its mini-batches is of things as they are, not of how they were."""

import pytest

from shunter.core import State
from shunter.core.fold import apply
from shunter.core.speeds import SAMPLES_BEFORE, SAMPLES_LEAST
from shunter.events import Allocation, Because, Event, Share, Sharing, facts
from tests.factories import attempt_started, job_id, job_submitted, node_added, node_name

COUNTED = SAMPLES_BEFORE + SAMPLES_LEAST


def given(
    job: int, node: int, mask: int, sharing: Sharing = Sharing.sliced, at: int = 0
) -> facts.AllocationChanged:
    where = Allocation((Share(node_name(node), mask),), sharing)
    return facts.AllocationChanged(at, job_id(job), where, Because("test"))


def turn(
    job: int, mask: int, *, speed: float = 1.0, live: bool = False, at: int = 20
) -> facts.TurnStarted:
    began_us = 20 if live else None
    return facts.TurnStarted(at, job_id(job), 1, (Share(node_name(0), mask),), speed, began_us)


def samples(batch_us: int, count: int = COUNTED, at: int = 30) -> list[Event]:
    return [facts.ProfileSampled(at, job_id(0), 1, batch_s=batch_us / 1e6) for _ in range(count)]


def folded(*events: Event, live: bool = False) -> State:
    """Return a state in which j0 has its turn on n0, beside j1; j2 is on n1."""
    state = State()
    for event in (
        *(node_added(0, 4), node_added(1, 4)),
        *(job_submitted(number, 1) for number in range(4)),
        *(given(0, 0, 1), given(1, 0, 2), given(2, 1, 1)),
        *(attempt_started(number, at=10) for number in range(3)),
        turn(0, 1, speed=1.0 if live else 0.5, live=live),
        *events,
    ):
        apply(state, event)
    return state


def measured(state: State) -> int | None:
    job = state.jobs[job_id(0)]
    return job.pace.batch_us_at(job.speed)


def test_samples_at_another_speed_are_counted_apart() -> None:
    beside = samples(200)
    alone = facts.SpeedChanged(40, job_id(0), 1, 1.0)
    assert measured(folded(*beside)) == 200
    assert measured(folded(*beside, alone)) is None, "it is not so fast any more"
    assert measured(folded(*beside, alone, *samples(100, COUNTED - 1, at=40))) is None
    assert measured(folded(*beside, alone, *samples(100, at=40))) == 100


def test_a_moment_at_another_speed_without_a_sample_changes_nothing() -> None:
    """Neighbours that change hands leave a server to others for the time of that."""
    back = [facts.SpeedChanged(40, job_id(0), 1, speed) for speed in (1.0, 0.5)]
    assert measured(folded(*samples(200), *back)) == 200


def test_what_was_measured_holds_between_turns() -> None:
    off = facts.TurnEnded(50, job_id(0), 1)
    assert measured(folded(*samples(200), off)) == 200
    assert measured(folded(*samples(200), off, turn(0, 1, speed=0.5, at=50))) == 200
    assert measured(folded(*samples(200), off, turn(0, 1, speed=1.0, at=50))) is None


COMES = [given(3, 0, 4, at=60), attempt_started(3, at=60)]
COMES_ALONE = [given(3, 0, 8, Sharing.exclusive, at=60), attempt_started(3, at=60)]
GOES = [facts.AttemptEnded(60, job_id(1), 1, 0), facts.GpusReleased(60, job_id(1), 1)]
ELSEWHERE = [facts.AttemptEnded(60, job_id(2), 1, 0), facts.GpusReleased(60, job_id(2), 1)]
STOPS = [facts.JobStopped(60, job_id(1), 1)]


@pytest.mark.parametrize(
    ("change", "is_anew"),
    [
        (COMES, True),
        (COMES_ALONE, True),
        (GOES, True),
        (STOPS, True),
        (ELSEWHERE, False),
        ([given(3, 1, 2, at=60), attempt_started(3, at=60)], False),
    ],
)
def test_live_jobs_are_measured_anew_when_somebody_comes_or_goes_on_their_server(
    change: list[Event], *, is_anew: bool
) -> None:
    live = folded(*samples(200), *change, live=True)
    assert measured(live) == (None if is_anew else 200)
    assert live.jobs[job_id(0)].pace.service_us == (40 if is_anew else 0)
    assert measured(folded(*samples(200), *change)) == 200, "a simulation tells the speed"


def test_live_jobs_are_measured_anew_when_a_neighbour_goes_on() -> None:
    events = [*STOPS, *samples(200, at=60), facts.JobContinued(60, job_id(1), 1)]
    assert measured(folded(*events[:-1], live=True)) == 200
    assert measured(folded(*events, live=True)) is None
