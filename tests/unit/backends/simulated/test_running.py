"""Jobs that arrive, run and end where nothing costs anything: by hand, to the microsecond."""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from shunter.core import AttemptExited, CancelJob, SubmitJob, WorldEnded
from shunter.core.speeds import SpeedModel
from shunter.events import AttemptStarted, GpuType, JobSuspended
from tests.factories import configuration, drive, job_id, job_spec, node_name, trace_job
from tests.unit.backends.simulated.driving import (
    ON_N0,
    ON_N1,
    Hand,
    launch,
    migrate,
    resume,
    suspend,
    terminate,
)

J0, J1 = job_id(0), job_id(1)


def test_job_is_submitted_at_its_instant_with_what_the_trace_says() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, gpus=2, at=7, lasts=10)]))
    assert hand.until(6) == []
    assert hand.until(7) == [SubmitJob(7, J0, job_spec(2), 10)]


def test_job_ends_as_long_after_its_launch_as_it_lasts() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(5)
    hand.orders(launch())
    assert hand.until(14) == []
    assert hand.until(15) == [AttemptExited(15, J0, 1, 0, released=True)]
    assert hand.goes_on() == []


def test_job_that_is_not_launched_never_ends() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, at=3, lasts=10)]))
    assert [type(seen) for seen in hand.goes_on()] == [SubmitJob]
    assert hand.now_us == 3


def test_world_ends_at_the_last_instant_at_which_anything_happened() -> None:
    backend = SimulatedBackend([trace_job(0, lasts=10)])
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch())
    hand.goes_on()
    assert drive(backend.observe(None)) == (10, (WorldEnded(10),))


def test_job_of_no_length_ends_at_its_launch() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=0)]))
    hand.until(4)
    hand.orders(launch())
    assert hand.until(4) == [AttemptExited(4, J0, 1, 0, released=True)]


def test_failing_job_exits_with_one_after_its_duration() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10, ends="failed")]))
    hand.until(0)
    hand.orders(launch())
    assert hand.until(20) == [AttemptExited(10, J0, 1, 1, released=True)]


def test_cancelled_job_is_cancelled_by_its_user_and_gone_at_once() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10, ends="cancelled", user="ada")]))
    hand.until(0)
    hand.orders(launch())
    # 143 = 128 + 15: ended by SIGTERM.
    cancelled = [CancelJob(10, J0, "ada"), AttemptExited(10, J0, 1, 143, released=True)]
    assert hand.until(10) == cancelled
    hand.orders(terminate())
    assert hand.goes_on() == []


def test_suspended_job_goes_on_where_it_stopped() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend())
    assert hand.until(100) == []
    hand.orders(resume(where=ON_N1))
    # 4 of 10 are done, 6 are left: 100 + 6.
    assert hand.goes_on() == [AttemptExited(106, J0, 2, 0, released=True)]


def test_moved_job_goes_on_where_it_stopped() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(migrate(), resume(where=ON_N1))
    assert hand.goes_on() == [AttemptExited(10, J0, 2, 0, released=True)]


def test_running_job_is_terminated_at_once() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(terminate())
    assert hand.goes_on() == [AttemptExited(4, J0, 1, 143, released=True)]


def test_waiting_job_is_forgotten_without_a_word() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(terminate(attempt=0))
    assert hand.goes_on() == []


def test_suspended_job_is_forgotten_without_a_word() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend(), terminate())
    assert hand.goes_on() == []


def test_termination_of_an_earlier_attempt_leaves_the_present_one_alone() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend(), resume(), terminate(attempt=1))
    assert hand.goes_on() == [AttemptExited(10, J0, 2, 0, released=True)]


def test_termination_is_done_once_however_often_it_is_ordered() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)]))
    hand.until(0)
    hand.orders(launch())
    hand.until(4)
    hand.orders(terminate(), terminate())
    assert hand.goes_on() == [AttemptExited(4, J0, 1, 143, released=True)]


def test_observation_ends_where_it_was_told_to() -> None:
    backend = SimulatedBackend([trace_job(0, at=50)])
    assert drive(backend.observe(49)) == (49, ())


def test_observation_brings_one_instant_at_a_time() -> None:
    backend = SimulatedBackend([trace_job(0, at=3), trace_job(1, at=3), trace_job(2, at=4)])
    at_us, inputs = drive(backend.observe(100))
    assert (at_us, [seen.at_us for seen in inputs]) == (3, [3, 3])


def test_inputs_are_gathered_up_to_the_end_of_the_round() -> None:
    jobs = [trace_job(number, at=at) for number, at in enumerate([13, 20, 21])]
    backend = SimulatedBackend(jobs)
    at_us, inputs = drive(backend.observe(None, gather_us=10))
    # The next instant is 13; the round in which it lies is over at 20.
    assert (at_us, [seen.at_us for seen in inputs]) == (20, [13, 20])


def test_inputs_are_never_gathered_past_the_deadline() -> None:
    jobs = [trace_job(number, at=at) for number, at in enumerate([13, 16, 17])]
    backend = SimulatedBackend(jobs)
    at_us, inputs = drive(backend.observe(16, gather_us=10))
    assert (at_us, [seen.at_us for seen in inputs]) == (16, [13, 16])


def test_only_one_instant_is_observed_while_a_job_leaves() -> None:
    jobs = [trace_job(0), trace_job(1, at=5), trace_job(2, at=6)]
    backend = SimulatedBackend(jobs, costs=Costs(suspend_us=8))
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch())
    hand.until(1)
    hand.orders(suspend())
    # Its GPUs are free at 1 + 8: whoever waits for them must not be kept waiting till 10.
    instants = [drive(backend.observe(None, gather_us=10))[0] for _ in range(4)]
    assert instants == [1, 5, 6, 9]


def test_slow_gpus_take_longer_and_a_faster_one_takes_over_what_is_left() -> None:
    nodes = {
        node_name(0): configuration(1, gpu_type="k80"),
        node_name(1): configuration(1, gpu_type="v100"),
    }
    model = SpeedModel(nodes, relative={GpuType("k80"): 0.25, GpuType("v100"): 2.0})
    hand = Hand(SimulatedBackend([trace_job(0, lasts=100)], speeds=model))
    hand.until(0)
    hand.orders(launch(where=ON_N0))
    assert hand.until(40) == [AttemptStarted(0, J0, 1, speed=0.25)]
    hand.orders(suspend(), resume(where=ON_N1))
    # 40 us at a quarter are 10 of 100; the other 90 take 45 at double speed: 40 + 45.
    assert hand.goes_on()[-2:] == [
        AttemptStarted(40, J0, 2, speed=2.0),
        AttemptExited(85, J0, 2, 0, released=True),
    ]


def test_work_at_an_odd_speed_ends_at_the_first_microsecond_at_which_it_is_done() -> None:
    nodes = {node_name(0): configuration(1, gpu_type="k80")}
    model = SpeedModel(nodes, relative={GpuType("k80"): 0.3})
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)], speeds=model))
    hand.until(0)
    hand.orders(launch())
    # 33 x 0.3 = 9.9 is not enough, 34 x 0.3 = 10.2 is.
    assert hand.goes_on()[-1] == AttemptExited(34, J0, 1, 0, released=True)


def test_fraction_of_a_microsecond_of_work_is_lost_with_a_suspension() -> None:
    nodes = {node_name(0): configuration(1, gpu_type="k80")}
    model = SpeedModel(nodes, relative={GpuType("k80"): 0.3})
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)], speeds=model))
    hand.until(0)
    hand.orders(launch())
    hand.until(9)
    hand.orders(suspend(), resume())
    seen = hand.goes_on()
    # 9 x 0.3 = 2.7 counts as 2, and that is no loss to the scheduler, which rounds alike.
    assert [found.lost_us for found in seen if isinstance(found, JobSuspended)] == [0]
    # 8 are left: 26 x 0.3 = 7.8 is not enough, 27 x 0.3 = 8.1 is; 9 + 27.
    assert seen[-1] == AttemptExited(36, J0, 2, 0, released=True)


def test_jobs_end_in_their_own_time_beside_each_other() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=30), trace_job(1, lasts=12)]))
    hand.until(0)
    hand.orders(launch(0), launch(1, ON_N1))
    hand.until(5)
    hand.orders(suspend(0))
    assert hand.until(20) == [AttemptExited(12, J1, 1, 0, released=True)]
    hand.orders(resume(0))
    # j0: 5 done by 5, 25 left from 20 on.
    assert hand.goes_on() == [AttemptExited(45, J0, 2, 0, released=True)]


@pytest.mark.parametrize(
    ("costs", "instant"),
    [(Costs(), True), (Costs(start_us=1), False), (Costs(migrate_us=1), False)],
)
def test_world_without_costs_is_instant(costs: Costs, instant: bool) -> None:
    assert SimulatedBackend([], costs=costs).instant is instant
