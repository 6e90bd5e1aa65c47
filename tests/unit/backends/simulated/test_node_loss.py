"""What a dead server takes with it, and what it leaves: instants computed by hand."""

import pytest

from shunter.backends.simulated import Costs, Credit, EndSeen, Lease, Progress, SimulatedBackend
from shunter.core import AttemptExited, Input, SubmitJob
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    JobSuspended,
    NodeLost,
    NodeReachable,
)
from shunter.workloads import TraceJob
from tests.factories import job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import (
    ON_BOTH,
    ON_N1,
    Hand,
    Mishaps,
    dies,
    launch,
    mishaps,
    resume,
    returns,
    suspend,
)

J0, J1 = job_id(0), job_id(1)
COSTS = Costs(start_us=2, suspend_us=4, resume_us=5)
PLAIN = Lease(round_us=10)


def world(
    *jobs: TraceJob, failures: Mishaps, costs: Costs | None = None, lease: Lease = PLAIN
) -> Hand:
    backend = SimulatedBackend(jobs, failures=failures, costs=costs or Costs(), lease=lease)
    hand = Hand(backend)
    hand.until(0)
    return hand


def lost(at_us: int, lost_us: int, job: int = 0, attempt: int = 1) -> list[Input]:
    """Return what is seen of n0's death with a job on it."""
    return [
        NodeLost(at_us, node_name(0), "server"),
        AttemptLost(at_us, job_id(job), attempt, "node lost", lost_us),
    ]


def test_job_without_checkpoints_begins_again() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(0, at=8)))
    hand.orders(launch())
    assert hand.until(30) == lost(8, lost_us=8)
    hand.orders(resume(where=ON_N1))
    assert hand.goes_on() == [AttemptExited(50, J0, 2, 0, released=True)]


@pytest.mark.parametrize(
    ("interval_us", "dies_us", "lost_us", "ends_us"),
    [
        (3, 8, 2, 44),  # the checkpoint at 6 holds 6 of 20: 30 + 14
        (4, 8, 0, 42),  # it dies at the very instant of a checkpoint: 30 + 12
        (3, 5, 2, 47),  # that at 3 holds 3: 30 + 17
        (3, 2, 2, 50),  # there is none yet: 30 + 20
    ],
)
def test_work_since_the_last_checkpoint_is_lost(
    interval_us: int, dies_us: int, lost_us: int, ends_us: int
) -> None:
    job = trace_job(0, lasts=20, checkpoint_interval_us=interval_us)
    hand = world(job, failures=mishaps(dies(0, at=dies_us)))
    hand.orders(launch())
    assert hand.until(30) == lost(dies_us, lost_us)
    hand.orders(resume(where=ON_N1))
    assert hand.goes_on() == [AttemptExited(ends_us, J0, 2, 0, released=True)]


def test_checkpoints_come_at_their_pace_from_when_work_began() -> None:
    job = trace_job(0, lasts=20, checkpoint_interval_us=3)
    hand = world(job, failures=mishaps(dies(0, at=9)), costs=COSTS)
    hand.orders(launch())
    # Work begins at 2, with checkpoints at 5 and 8: of 7 worked, 1 is lost.
    assert hand.until(10) == [AttemptStarted(2, J0, 1), *lost(9, lost_us=1)]
    hand.orders(resume(where=ON_N1))
    # Back at 10 + 5; 6 of 20 are saved, 14 left.
    assert hand.goes_on()[-1] == AttemptExited(29, J0, 2, 0, released=True)


def test_state_saved_by_a_suspension_outlives_the_server() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(0, at=10)))
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend(), resume())
    # 4 were saved on the way out; the 6 since then have no checkpoint.
    assert hand.until(10) == lost(10, lost_us=6, attempt=2)
    hand.orders(resume(attempt=3, where=ON_N1))
    assert hand.goes_on() == [AttemptExited(26, J0, 3, 0, released=True)]


def test_start_that_dies_with_its_server_is_never_seen() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(0, at=1)), costs=COSTS)
    hand.orders(launch())
    assert hand.until(9) == lost(1, lost_us=0)
    hand.orders(resume(where=ON_N1))
    # A second attempt costs a resume, though there is no checkpoint: 9 + 5 + 20.
    started = AttemptStarted(14, J0, 2)
    assert hand.goes_on() == [started, AttemptExited(34, J0, 2, 0, released=True)]


def test_begun_step_is_lost_with_what_no_checkpoint_holds() -> None:
    steps = Lease(progress=Progress.whole_steps, round_us=10)
    job = trace_job(0, lasts=28, total_steps=7, checkpoint_interval_us=9)
    hand = world(job, failures=mishaps(dies(0, at=16)), lease=steps)
    hand.orders(launch())
    # The checkpoint at 9 holds 2 steps of 4, so 8 of 16 are lost.
    assert hand.until(16)[1:] == lost(16, lost_us=8)
    hand.until(20)
    hand.orders(resume(where=ON_N1))
    # 5 are left: 2 by 28, 2 by 38, 1 by 44.
    assert hand.goes_on()[-1] == AttemptExited(44, J0, 2, 0, released=True)


def test_granted_work_that_was_not_run_is_lost_with_the_server() -> None:
    granted = Lease(credit=Credit.at_grant, round_us=10)
    job = trace_job(0, lasts=25, checkpoint_interval_us=4)
    hand = world(job, failures=mishaps(dies(0, at=15)), lease=granted)
    hand.orders(launch())
    # The checkpoint at 12 holds 12, not the lease up to 20.
    assert hand.until(20)[1:] == lost(15, lost_us=3)
    hand.orders(resume(where=ON_N1))
    assert hand.goes_on()[-1] == AttemptExited(33, J0, 2, 0, released=True)


def test_job_that_had_ended_unseen_is_seen_to_have_ended() -> None:
    late = Lease(end_seen=EndSeen.at_lease_end, round_us=10)
    hand = world(trace_job(0, lasts=13), failures=mishaps(dies(0, at=16)), lease=late)
    hand.orders(launch())
    assert hand.goes_on() == [
        NodeLost(16, node_name(0), "server"),
        AttemptExited(16, J0, 1, 0, released=True, ended_us=13),
    ]


def test_leaving_job_leaves_a_dead_server_as_it_would_a_living_one() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(0, at=10)), costs=COSTS)
    hand.orders(launch())
    hand.until(8)
    hand.orders(suspend())
    assert hand.until(20) == [
        JobSuspended(8, J0, 1),
        NodeLost(10, node_name(0), "server"),
        GpusReleased(12, J0, 1),
    ]
    hand.orders(resume(where=ON_N1))
    # 6 of 20 were done from 2 to 8: 20 + 5 + 14.
    assert hand.goes_on()[-1] == AttemptExited(39, J0, 2, 0, released=True)


def test_only_those_on_the_server_are_lost() -> None:
    jobs = [trace_job(0, lasts=20), trace_job(1, lasts=20)]
    hand = world(*jobs, failures=mishaps(dies(0, at=8)))
    hand.orders(launch(0), launch(1, ON_N1))
    assert hand.goes_on() == [*lost(8, lost_us=8), AttemptExited(20, J1, 1, 0, released=True)]


def test_gang_is_lost_with_any_of_its_servers() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(1, at=8)))
    hand.orders(launch(where=ON_BOTH))
    assert hand.goes_on() == [
        NodeLost(8, node_name(1), "server"),
        AttemptLost(8, J0, 1, "node lost", 8),
    ]


def test_gang_in_a_dead_rack_is_lost_once() -> None:
    rack = mishaps(dies(0, at=8, cause="rack"), dies(1, at=8, cause="rack"))
    hand = world(trace_job(0, lasts=20), failures=rack)
    hand.orders(launch(where=ON_BOTH))
    assert hand.goes_on() == [
        NodeLost(8, node_name(0), "rack"),
        AttemptLost(8, J0, 1, "node lost", 8),
        NodeLost(8, node_name(1), "rack"),
    ]


def test_repaired_server_is_reachable_again() -> None:
    hand = world(trace_job(0, lasts=20), failures=mishaps(dies(0, at=8), returns(0, at=11)))
    hand.orders(launch())
    assert hand.until(15) == [*lost(8, lost_us=8), NodeReachable(11, node_name(0))]


def test_servers_die_only_while_there_are_jobs_or_more_will_come() -> None:
    chosen = mishaps(dies(0, at=8), returns(0, at=25), dies(1, at=40))
    hand = world(trace_job(0, lasts=5), trace_job(1, at=30, lasts=5), failures=chosen)
    hand.orders(launch(0))
    seen = hand.until(30)
    # After j0's end at 5 there is still j1 to come.
    assert [type(found) for found in seen] == [AttemptExited, NodeLost, NodeReachable, SubmitJob]
    hand.orders(launch(1))
    assert hand.goes_on() == [AttemptExited(35, J1, 1, 0, released=True)]
