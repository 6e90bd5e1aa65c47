"""Jobs that are stopped in place and go on: instants and work computed by hand."""

from typing import Any

import pytest

from shunter.backends.simulated import Costs, EndSeen, Lease, Progress, SimulatedBackend
from shunter.core import AttemptExited, Continue, Input, Stop
from shunter.core.speeds import SpeedModel
from shunter.events import GpuType, SuspendMode, facts
from tests.factories import configuration, job_id, node_name, packed, trace_job
from tests.unit.backends.simulated.driving import Hand, dies, launch, mishaps, resume, suspend

J0, J1 = job_id(0), job_id(1)
STOP, CONTINUE = Stop(J0, 1), Continue(J0, 1)
V100 = GpuType("v100")
HERE = packed(n0=1)


def hand(lasts: int = 20, **options: Any) -> Hand:
    """Return a world in which a job of 20 has arrived, which saves every 3."""
    job = trace_job(0, lasts=lasts, suspend_mode=SuspendMode.cooperative, checkpoint_interval_us=3)
    world = Hand(SimulatedBackend([job], **options))
    world.until(0)
    return world


def exits(seen: list[Input]) -> list[int]:
    return [one.at_us for one in seen if isinstance(one, AttemptExited)]


def test_stopped_job_ends_later_by_as_long_as_it_stood() -> None:
    world = hand()
    world.orders(launch())
    assert world.until(8) == []
    world.orders(STOP)
    assert world.until(30) == [facts.JobStopped(8, J0, 1)]
    world.orders(CONTINUE)
    seen = world.goes_on()
    assert seen[0] == facts.JobContinued(30, J0, 1)
    assert exits(seen) == [42]  # 8 of 20 were done: 30 + 12


def test_job_that_is_never_continued_never_ends() -> None:
    world = hand()
    world.orders(launch())
    world.orders(STOP)
    assert world.goes_on() == [facts.JobStopped(0, J0, 1)]


@pytest.mark.parametrize("order", [STOP, CONTINUE, Stop(J0, 2), Continue(J1, 1)])
def test_order_for_what_is_not_there_or_stands_already_does_nothing(order: Stop | Continue) -> None:
    world = hand()
    world.orders(launch())
    if order == STOP:
        world.orders(STOP)
        assert world.until(2) == [facts.JobStopped(0, J0, 1)]
    world.orders(order)
    assert world.until(5) == []


def test_job_with_all_work_done_at_the_instant_of_the_order_ends() -> None:
    world = hand(lasts=20, lease=Lease(end_seen=EndSeen.at_lease_end, round_us=30))
    world.orders(launch())
    world.until(25)
    world.orders(STOP)
    assert exits(world.goes_on()) == [30]


def test_stop_before_the_start_holds_from_the_start_on() -> None:
    world = hand(costs=Costs(start_us=5))
    world.orders(launch())
    world.until(2)
    world.orders(STOP)
    started, stopped = world.until(10)
    assert isinstance(started, facts.AttemptStarted)
    assert (started.at_us, started.speed) == (5, 1.0)
    assert stopped == facts.JobStopped(5, J0, 1)
    world.orders(CONTINUE)
    assert exits(world.goes_on()) == [30]


def test_what_a_stopped_job_loses_and_keeps_when_it_leaves() -> None:
    world = hand(costs=Costs(suspend_us=2))
    world.orders(launch())
    world.until(8)
    world.orders(STOP)
    world.until(15)
    world.orders(suspend())
    assert world.until(17)[-2:] == [
        facts.JobSuspended(15, J0, 1, None, 0),
        facts.GpusReleased(17, J0, 1),
    ]
    world.orders(resume())
    assert exits(world.goes_on()) == [29]  # 17 + 12


def test_server_that_dies_under_a_stopped_job_takes_what_was_not_saved() -> None:
    world = hand(costs=Costs(start_us=1), failures=mishaps(dies(0, 15)))
    world.orders(launch())
    world.until(9)  # 8 done since 1, of which 6 are saved
    world.orders(STOP)
    lost = world.until(20)[-1]
    assert getattr(lost, "lost_us", None) == 2
    world.orders(resume())
    assert exits(world.goes_on()) == [20 + 14]


def test_work_in_whole_steps_goes_on_at_the_step_that_was_begun() -> None:
    job = trace_job(0, lasts=20, total_steps=10)
    world = Hand(SimulatedBackend([job], lease=Lease(progress=Progress.whole_steps)))
    world.until(0)
    world.orders(launch())
    world.until(5)  # two steps of 2 are done, and half a third
    world.orders(STOP)
    world.until(11)
    world.orders(CONTINUE)
    assert exits(world.goes_on()) == [11 + 16]


def test_partner_of_a_stopped_job_has_the_gpu_alone_meanwhile() -> None:
    nodes = {node_name(0): configuration(4)}
    jobs = [trace_job(0, lasts=20), trace_job(1, lasts=20)]
    world = Hand(SimulatedBackend(jobs, speeds=SpeedModel(nodes)))
    world.until(0)
    world.orders(launch(0, HERE), launch(1, HERE))
    world.until(10)  # each has done 5
    world.orders(STOP)
    assert world.until(10)[-2:] == [facts.JobStopped(10, J0, 1), facts.SpeedChanged(10, J1, 1, 1.0)]
    world.until(16)  # 11 and 5
    world.orders(CONTINUE)
    seen = world.goes_on()
    assert seen[:3] == [
        facts.JobContinued(16, J0, 1),
        facts.SpeedChanged(16, J0, 1, 0.5),
        facts.SpeedChanged(16, J1, 1, 0.5),
    ]
    assert [(str(one.job_id), one.at_us) for one in seen if isinstance(one, AttemptExited)] == [
        ("j1", 34),  # 9 left at half the speed
        ("j0", 40),  # 6 left then, alone
    ]
