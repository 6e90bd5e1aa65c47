"""What launching, leaving and moving cost: instants computed by hand."""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from shunter.core import AttemptExited, Effect, Input
from shunter.events import Allocation, AttemptStarted, GpusReleased, JobSuspended
from tests.factories import job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import (
    ON_BOTH,
    ON_N0,
    ON_N1,
    Hand,
    launch,
    migrate,
    resume,
    suspend,
    terminate,
)

COSTS = Costs(start_us=3, suspend_us=2, resume_us=5, migrate_us=7)
J0, J1 = job_id(0), job_id(1)


def world(*lasts: int, costs: Costs = COSTS) -> Hand:
    """Return a world in which jobs of these durations have arrived."""
    jobs = [trace_job(number, lasts=duration) for number, duration in enumerate(lasts)]
    hand = Hand(SimulatedBackend(jobs, costs=costs))
    hand.until(0)
    return hand


def left(at_us: int, free_us: int, attempt: int = 1, lost_us: int = 0) -> list[Input]:
    """Return what is seen of an attempt that leaves."""
    return [
        JobSuspended(at_us, J0, attempt, lost_us=lost_us),
        GpusReleased(free_us, J0, attempt),
    ]


def exited(at_us: int, attempt: int, code: int = 0) -> AttemptExited:
    return AttemptExited(at_us, J0, attempt, code, released=True)


def test_work_begins_when_the_start_is_over() -> None:
    hand = world(10)
    hand.orders(launch())
    assert hand.until(2) == []
    # 0 + 3 to start, 10 of work.
    assert hand.until(20) == [AttemptStarted(3, J0, 1), exited(13, 1)]


def test_suspending_stops_work_at_once_and_frees_gpus_later() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(suspend())
    assert hand.until(50) == left(7, 9)


@pytest.mark.parametrize(
    ("order", "where", "started_us", "ends_us"),
    [
        (suspend(), ON_N0, 25, 31),  # 20 + 5, and 6 are left: 25 + 6
        (suspend(), ON_N1, 27, 33),  # on other GPUs 20 + 7 instead: 27 + 6
        (suspend(), ON_BOTH, 27, 33),
        (migrate(), ON_N1, 27, 33),
    ],
)
def test_job_pays_to_come_back_and_does_the_rest(
    order: Effect, where: Allocation, started_us: int, ends_us: int
) -> None:
    hand = world(10)
    hand.orders(launch(where=ON_N0))
    hand.until(7)  # it works from 3 to 7: 4 of 10
    hand.orders(order)
    assert hand.until(20)[-1] == GpusReleased(9, J0, 1)
    hand.orders(resume(where=where))
    started, ended = hand.until(50)
    assert isinstance(started, AttemptStarted)
    assert started.at_us == started_us
    assert ended == exited(ends_us, 2)


def test_coming_back_elsewhere_costs_what_coming_back_does_unless_it_is_said() -> None:
    hand = world(10, costs=Costs(start_us=3, resume_us=5))
    hand.orders(launch(where=ON_N0))
    hand.until(7)
    hand.orders(suspend())
    hand.until(20)
    hand.orders(resume(where=ON_N1))
    assert hand.until(50) == [AttemptStarted(25, J0, 2), exited(31, 2)]


def test_moved_job_pays_to_move_instead_of_to_resume() -> None:
    hand = world(10)
    hand.orders(launch(where=ON_BOTH))
    hand.until(7)
    hand.orders(migrate())
    assert hand.until(9) == left(7, 9)
    hand.orders(resume(where=ON_N1))
    # 4 of 10 done; back at 9 + 7, 6 are left: 16 + 6.
    come_from = (node_name(0), node_name(1))
    started = AttemptStarted(16, J0, 2, migrated_from=come_from)
    assert hand.until(50) == [started, exited(22, 2)]


def test_move_is_paid_once() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(migrate())
    hand.until(9)
    hand.orders(resume(where=ON_N1))
    hand.until(18)
    hand.orders(suspend(attempt=2))
    assert hand.until(20) == left(18, 20, attempt=2)
    hand.orders(resume(attempt=3, where=ON_N1))
    # Work from 3 to 7 and, after the move at 9 + 7, from 16 to 18: 4 are left. Back at 20 + 5.
    assert hand.until(50) == [AttemptStarted(25, J0, 3), exited(29, 3)]


def test_move_that_becomes_a_suspension_is_still_a_move_when_it_comes_back() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(migrate())
    hand.until(30)
    hand.orders(resume())
    # The way back in costs 7, also after a long wait and to the server that it came from.
    started = AttemptStarted(37, J0, 2, migrated_from=(node_name(0),))
    assert hand.until(50) == [started, exited(43, 2)]


def test_job_suspended_while_it_starts_has_nothing_to_save() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(2)
    hand.orders(suspend())
    # It never started, so that is never seen; its GPUs are free at once.
    assert hand.until(20) == left(2, 2)
    hand.orders(resume())
    # It comes back as from a checkpoint, with all its work to do: 20 + 5 + 10.
    assert hand.until(50) == [AttemptStarted(25, J0, 2), exited(35, 2)]


def test_job_suspended_as_its_start_is_over_saves_its_state() -> None:
    hand = world(10)
    hand.orders(launch())
    assert hand.until(3) == [AttemptStarted(3, J0, 1)]
    hand.orders(suspend())
    assert hand.until(20) == left(3, 5)


def test_work_done_before_is_kept_by_a_job_suspended_while_it_resumes() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(suspend())
    hand.until(10)
    hand.orders(resume())
    hand.until(14)
    hand.orders(suspend(attempt=2))
    assert hand.until(20) == left(14, 14, attempt=2)
    hand.orders(resume(attempt=3))
    # 4 of 10 were done by 7, nothing since: 20 + 5 + 6.
    assert hand.until(50) == [AttemptStarted(25, J0, 3), exited(31, 3)]


def test_termination_costs_nothing() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(terminate())
    assert hand.until(50) == [exited(7, 1, code=143)]


def test_job_terminated_while_it_starts_is_never_seen_to_start() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(1)
    hand.orders(terminate())
    assert hand.until(50) == [exited(1, 1, code=143)]


def test_job_terminated_while_it_leaves_goes_on_leaving_and_never_exits() -> None:
    hand = world(10)
    hand.orders(launch())
    hand.until(7)
    hand.orders(suspend())
    hand.until(8)
    hand.orders(terminate())
    assert hand.until(50) == [GpusReleased(9, J0, 1)]


def test_move_seen_to_take_no_time_is_observed_all_the_same() -> None:
    hand = world(10, costs=Costs(start_us=3))
    hand.orders(launch())
    hand.until(7)
    hand.orders(migrate())
    assert hand.until(7) == left(7, 7)
    hand.orders(resume(where=ON_N1))
    started = AttemptStarted(7, J0, 2, migrated_from=(node_name(0),))
    assert hand.until(50) == [started, exited(13, 2)]


def test_failing_job_fails_when_its_work_is_over_not_its_time() -> None:
    jobs = [trace_job(0, lasts=10, ends="failed")]
    hand = Hand(SimulatedBackend(jobs, costs=COSTS))
    hand.until(0)
    hand.orders(launch())
    hand.until(7)
    hand.orders(suspend())
    hand.until(9)
    hand.orders(resume())
    # 4 of 10 by 7; back at 9 + 5, 6 are left: 14 + 6.
    assert hand.until(50)[-1] == exited(20, 2, code=1)


def test_job_pays_for_itself_only() -> None:
    hand = world(10, 20)
    hand.orders(launch(0), launch(1, ON_N1))
    hand.until(7)
    hand.orders(suspend(0))
    seen = hand.until(50)
    # j1 starts at 3 and works on to 3 + 20.
    assert seen[-1] == AttemptExited(23, J1, 1, 0, released=True)
