"""What a suspension loses by the job's suspend mode: instants and work computed by hand."""

import pytest

from shunter.backends.simulated import Costs, Credit, Lease, Progress, SimulatedBackend
from shunter.core import AttemptExited, Input
from shunter.events import AttemptStarted, GpusReleased, JobSuspended, SuspendMode
from tests.factories import World, job_id, las_policy, run, servers, trace_job
from tests.unit.backends.simulated.driving import Hand, ends, launch, migrate, resume, suspend

J0 = job_id(0)
LOSING = (SuspendMode.restart, SuspendMode.stop)
SAVING = (SuspendMode.cooperative, SuspendMode.signal)


def world(
    mode: SuspendMode,
    interval_us: int | None = None,
    costs: Costs | None = None,
    lease: Lease | None = None,
) -> Hand:
    """Return a world in which a job of ten steps that lasts 20 has arrived."""
    job = trace_job(
        0, lasts=20, total_steps=10, suspend_mode=mode, checkpoint_interval_us=interval_us
    )
    hand = Hand(SimulatedBackend([job], costs=costs or Costs(), lease=lease or Lease()))
    hand.until(0)
    return hand


def left(at_us: int, free_us: int, attempt: int = 1, lost_us: int = 0) -> list[Input]:
    """Return what is seen of an attempt that leaves."""
    return [
        JobSuspended(at_us, J0, attempt, lost_us=lost_us),
        GpusReleased(free_us, J0, attempt),
    ]


@pytest.mark.parametrize("mode", LOSING)
@pytest.mark.parametrize(
    ("interval_us", "lost_us", "ends_us"),
    [
        (None, 8, 50),  # 30 + 20
        (3, 2, 44),  # checkpoints at 3 and 6: 30 + 14
        (4, 0, 42),  # and at 4 and 8: 30 + 12
        (9, 8, 50),
    ],
)
def test_job_that_is_ended_goes_back_to_its_last_checkpoint(
    mode: SuspendMode, interval_us: int | None, lost_us: int, ends_us: int
) -> None:
    hand = world(mode, interval_us)
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    assert hand.until(30) == left(8, 8, lost_us=lost_us)
    hand.orders(resume())
    started, ended = hand.until(60)
    assert started == AttemptStarted(30, J0, 2)
    assert ended == AttemptExited(ends_us, J0, 2, 0, released=True)


@pytest.mark.parametrize("mode", SAVING)
def test_job_that_saves_on_the_way_out_keeps_all_its_work(mode: SuspendMode) -> None:
    hand = world(mode, 3, Costs(suspend_us=2))
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    assert hand.until(30) == left(8, 10)
    hand.orders(resume())
    assert hand.until(60)[-1] == AttemptExited(42, J0, 2, 0, released=True)


@pytest.mark.parametrize("mode", LOSING)
def test_job_that_saves_nothing_pays_no_time_to_save_it(mode: SuspendMode) -> None:
    hand = world(mode, costs=Costs(start_us=1, suspend_us=2, resume_us=5, checkpoint_us=4))
    hand.orders(launch())
    hand.until(8)  # it works from 1 to 8
    hand.orders(suspend())
    assert hand.until(30) == left(8, 8, lost_us=7)
    hand.orders(resume())
    # 30 + 5 + 4 to come back, and all 20 are left.
    assert hand.until(80) == [
        AttemptStarted(39, J0, 2),
        AttemptExited(59, J0, 2, 0, released=True),
    ]


def test_move_loses_what_a_suspension_loses() -> None:
    hand = world(SuspendMode.restart, 3)
    hand.orders(launch())
    hand.until(8)
    hand.orders(migrate())
    assert hand.until(30) == left(8, 8, lost_us=2)


def test_checkpoints_count_from_the_beginning_of_each_attempt() -> None:
    hand = world(SuspendMode.restart, 3)
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    hand.until(30)
    hand.orders(resume())  # with 6 of 20
    hand.until(32)
    hand.orders(suspend(attempt=2))
    assert hand.until(40) == left(32, 32, attempt=2, lost_us=2)
    hand.orders(resume(attempt=3))
    hand.until(44)
    hand.orders(suspend(attempt=3))  # with 9 of 20: there was a checkpoint at 43
    assert hand.until(50) == left(44, 44, attempt=3, lost_us=1)
    hand.orders(resume(attempt=4))
    assert hand.until(70)[-1] == AttemptExited(61, J0, 4, 0, released=True)


def test_job_told_to_leave_before_it_works_loses_nothing() -> None:
    hand = world(SuspendMode.restart, costs=Costs(start_us=5))
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend())
    assert hand.until(20) == left(4, 4)


def test_job_whose_work_is_done_ends_whatever_its_mode() -> None:
    late = Lease(credit=Credit.at_grant, round_us=20)
    hand = world(SuspendMode.restart, lease=late)
    hand.orders(launch())
    hand.until(15)
    hand.orders(suspend())  # it was credited with all of the lease up to 20
    assert hand.until(15) == [AttemptExited(15, J0, 1, 0, released=True)]


def test_checkpoint_of_a_job_in_steps_holds_whole_steps() -> None:
    hand = world(SuspendMode.restart, 5, lease=Lease(progress=Progress.whole_steps, round_us=10))
    hand.orders(launch())
    hand.until(8)  # four steps of 2, and two of them by the checkpoint at 5
    hand.orders(suspend())
    assert hand.until(10) == left(8, 8, lost_us=4)


def test_policy_sees_what_was_lost() -> None:
    """Goal: with a job that restarts, the state's count of work is that of the world."""
    jobs = (
        trace_job(0, lasts=40, suspend_mode=SuspendMode.restart),
        trace_job(1, at=20, lasts=5),
    )
    outcome = run(World(servers=servers(1), jobs=jobs), las_policy((15,)))
    assert [event.lost_us for event in outcome.of(JobSuspended)] == [20]
    # j1 runs from 20 to 25, and then all of j0 is to be done again.
    assert outcome.ends_us() == {"j1": 25, "j0": 65}


def test_job_that_stays_goes_on_to_its_end_when_it_is_told_to_leave() -> None:
    backend = SimulatedBackend([trace_job(0, lasts=20, suspend_mode=SuspendMode.cooperative)])
    backend.leaves_late(frozenset({J0}), 0)
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    assert ends(hand.until(60)) == {J0: 20}


def leaving_late(notice_us: int, mode: SuspendMode = SuspendMode.cooperative) -> Hand:
    """Return a world in which a job of 20 was told at 8 to leave, and sees it so much later."""
    job = trace_job(0, lasts=20, suspend_mode=mode)
    backend = SimulatedBackend([job], costs=Costs(suspend_us=2))
    backend.leaves_late(frozenset(), notice_us)
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    return hand


def test_job_works_on_until_it_sees_that_it_is_to_leave() -> None:
    hand = leaving_late(5)
    assert hand.until(30) == left(8, 8 + 5 + 2)
    hand.orders(resume())
    assert ends(hand.until(60)) == {J0: 30 + 20 - 8 - 5}


def test_job_that_ends_before_it_sees_that_it_is_to_leave_just_ends() -> None:
    assert ends(leaving_late(12).until(60)) == {J0: 20}


def test_job_that_saves_nothing_is_ended_without_being_asked() -> None:
    assert leaving_late(5, SuspendMode.restart).until(30) == left(8, 8, lost_us=8)
