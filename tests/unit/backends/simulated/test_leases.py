"""Three switches of a lease on the grid of fixed rounds: progress, credit, and ends seen."""

import pytest

from shunter.backends.simulated import (
    Costs,
    Credit,
    EndSeen,
    Lease,
    Progress,
    SimulatedBackend,
    StepRate,
)
from shunter.core import AttemptExited, CancelJob, Input
from shunter.core.speeds import SpeedModel
from shunter.events import AttemptStarted, GpuType, JobSuspended
from shunter.workloads import TraceJob
from tests.factories import configuration, job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import Hand, launch, resume, suspend, terminate

J0 = job_id(0)
STEPS = Lease(progress=Progress.whole_steps, round_us=10)
GRANTED = Lease(credit=Credit.at_grant, round_us=10)
LATE = Lease(end_seen=EndSeen.at_lease_end, round_us=10)
LATE_AND_GRANTED = Lease(credit=Credit.at_grant, end_seen=EndSeen.at_lease_end, round_us=10)


def world(
    job: TraceJob, lease: Lease, costs: Costs | None = None, speeds: SpeedModel | None = None
) -> Hand:
    hand = Hand(SimulatedBackend([job], costs=costs or Costs(), lease=lease, speeds=speeds))
    hand.until(0)
    return hand


def end_of(hand: Hand) -> AttemptExited:
    """Return the exit with which the world ends."""
    found = hand.goes_on()[-1]
    assert isinstance(found, AttemptExited), f"the last thing that happened was {found}"
    return found


def lost_us(seen: list[Input]) -> list[int]:
    return [found.lost_us for found in seen if isinstance(found, JobSuspended)]


def test_steps_that_do_not_fit_into_a_lease_begin_in_the_next_one() -> None:
    hand = world(trace_job(0, lasts=28, total_steps=7), STEPS)
    hand.orders(launch())
    # A step takes 4, so 2 fit into a lease of 10: 6 by 30, and the seventh takes 4.
    assert end_of(hand) == AttemptExited(34, J0, 1, 0, released=True)


def test_steps_that_fill_their_leases_lose_no_time() -> None:
    hand = world(trace_job(0, lasts=25, total_steps=5), STEPS)
    hand.orders(launch())
    # A step takes 5, and 2 fit exactly: the fifth is over at 25.
    assert end_of(hand).at_us == 25


def test_first_lease_of_a_late_start_is_what_is_left_of_it() -> None:
    hand = world(trace_job(0, lasts=28, total_steps=7), STEPS, Costs(start_us=3))
    hand.orders(launch())
    # From 3 to 10: 1 step. Then 2 by 20, 2 by 30, and 2 more, of 4 each, by 38.
    assert end_of(hand).at_us == 38


def test_job_without_steps_works_continuously() -> None:
    hand = world(trace_job(0, lasts=28), STEPS)
    hand.orders(launch())
    assert end_of(hand).at_us == 28


def test_step_that_fits_into_no_lease_is_never_done() -> None:
    hand = world(trace_job(0, lasts=24, total_steps=2), STEPS)
    hand.orders(launch())
    assert hand.goes_on() == [AttemptStarted(0, J0, 1)]


def test_begun_step_is_lost_with_a_suspension() -> None:
    hand = world(trace_job(0, lasts=28, total_steps=7), STEPS)
    hand.orders(launch())
    hand.until(17)
    hand.orders(suspend())
    # By 17: 2 steps in the first lease, 1 by 14. 3 x 4 = 12 of 17 count.
    assert lost_us(hand.until(20)) == [5]
    hand.orders(resume())
    # 4 are left: 2 by 30, 2 by 38.
    assert end_of(hand) == AttemptExited(38, J0, 2, 0, released=True)


def test_steps_take_longer_at_a_lower_speed() -> None:
    nodes = {node_name(0): configuration(1, gpu_type="k80")}
    model = SpeedModel(nodes, relative={GpuType("k80"): 0.5})
    hand = world(trace_job(0, lasts=12, total_steps=4), STEPS, speeds=model)
    hand.orders(launch())
    # A step of 3 takes 6 here, and one fits into a lease: 3 by 30, and the fourth by 36.
    assert end_of(hand).at_us == 36


def test_step_of_a_broken_number_of_microseconds_ends_at_the_next_whole_one() -> None:
    nodes = {node_name(0): configuration(1, gpu_type="k80")}
    model = SpeedModel(nodes, relative={GpuType("k80"): 0.7})
    hand = world(trace_job(0, lasts=10, total_steps=4), STEPS, speeds=model)
    hand.orders(launch())
    # A step takes 2.5 / 0.7 = 3.57, two take 7.14: 2 by 10, and 2 more by 10 + 8.
    assert end_of(hand).at_us == 18


def test_lease_is_credited_as_a_whole_when_it_was_granted() -> None:
    hand = world(trace_job(0, lasts=25), GRANTED)
    hand.orders(launch())
    hand.until(12)
    hand.orders(suspend())
    # At 12 the lease up to 20 counts, and to the scheduler none of its 12 is lost.
    assert lost_us(hand.until(12)) == [0]
    hand.orders(resume())
    # 25 - 20 are left.
    assert end_of(hand) == AttemptExited(17, J0, 2, 0, released=True)


def test_lease_is_credited_as_run_by_default() -> None:
    hand = world(trace_job(0, lasts=25), Lease(round_us=10))
    hand.orders(launch())
    hand.until(12)
    hand.orders(suspend(), resume())
    assert end_of(hand).at_us == 25


def test_leaving_at_the_end_of_a_lease_is_credited_exactly() -> None:
    hand = world(trace_job(0, lasts=25), GRANTED)
    hand.orders(launch())
    hand.until(20)
    hand.orders(suspend())
    hand.until(30)
    hand.orders(resume())
    # 20 of 25 by 20, 5 more from 30 on.
    assert end_of(hand).at_us == 35


def test_job_whose_grant_covers_its_work_ends_when_told_to_leave() -> None:
    hand = world(trace_job(0, lasts=15), GRANTED)
    hand.orders(launch())
    hand.until(12)
    hand.orders(suspend())
    assert hand.goes_on() == [AttemptExited(12, J0, 1, 0, released=True)]


@pytest.mark.parametrize(("lasts", "seen_us"), [(13, 20), (20, 20), (21, 30), (1, 10)])
def test_end_is_seen_when_its_lease_is_over(lasts: int, seen_us: int) -> None:
    hand = world(trace_job(0, lasts=lasts), LATE)
    hand.orders(launch())
    assert end_of(hand).at_us == seen_us


def test_end_seen_late_says_when_it_really_was() -> None:
    hand = world(trace_job(0, lasts=13), LATE)
    hand.orders(launch())
    assert end_of(hand) == AttemptExited(20, J0, 1, 0, released=True, ended_us=13)


def test_end_at_the_end_of_a_lease_is_seen_at_once() -> None:
    hand = world(trace_job(0, lasts=20), LATE)
    hand.orders(launch())
    assert end_of(hand) == AttemptExited(20, J0, 1, 0, released=True, ended_us=None)


def test_granted_work_has_no_end_of_its_own() -> None:
    hand = world(trace_job(0, lasts=13), LATE_AND_GRANTED)
    hand.orders(launch())
    assert end_of(hand) == AttemptExited(20, J0, 1, 0, released=True, ended_us=None)


def test_user_who_cancels_is_seen_at_once() -> None:
    hand = world(trace_job(0, lasts=13, ends="cancelled"), LATE)
    hand.orders(launch())
    cancelled = [CancelJob(13, J0), AttemptExited(13, J0, 1, 143, released=True)]
    assert hand.goes_on() == cancelled


def test_job_with_all_its_work_done_ends_when_told_to_leave() -> None:
    hand = world(trace_job(0, lasts=13), LATE)
    hand.orders(launch())
    assert hand.until(16) == []
    hand.orders(suspend())
    # Its end at 13 would have been seen at 20.
    assert hand.goes_on() == [AttemptExited(16, J0, 1, 0, released=True, ended_us=13)]


def test_job_terminated_after_its_unseen_end_counts_as_killed() -> None:
    hand = world(trace_job(0, lasts=13), LATE)
    hand.orders(launch())
    hand.until(16)
    hand.orders(terminate())
    assert hand.goes_on() == [AttemptExited(16, J0, 1, 143, released=True)]


@pytest.mark.parametrize(
    ("lease", "instant"),
    [
        (Lease(round_us=10), True),
        (LATE, True),
        (STEPS, False),
        (GRANTED, False),
    ],
)
def test_world_is_instant_where_work_done_is_time_worked(lease: Lease, instant: bool) -> None:
    assert SimulatedBackend([], lease=lease).instant is instant


@pytest.mark.parametrize("speed", [5e-324, 1e-300, 1e-20])
@pytest.mark.parametrize(
    ("units", "rate"), [(10**8, None), (1000, None), (1000, 5e-324), (1000, 1e-300)]
)
def test_what_takes_longer_than_time_can_tell_is_never_done(
    speed: float, units: int, rate: float | None
) -> None:
    """No float is too large, and nobody counts up to such an instant."""
    assert StepRate(speed, units, 10**8, rate).time_for(units) is None
