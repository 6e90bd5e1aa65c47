"""What a dead server takes with it, and what it leaves: instants computed by hand."""

from shunter.backends.simulated import Costs, Credit, EndSeen, Lease, Progress, SimulatedBackend
from shunter.core import AttemptExited, Input, SubmitJob
from shunter.events import AttemptLost, NodeLost, NodeReachable
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


def test_gang_in_a_dead_rack_is_lost_once() -> None:
    rack = mishaps(dies(0, at=8, cause="rack"), dies(1, at=8, cause="rack"))
    hand = world(trace_job(0, lasts=20), failures=rack)
    hand.orders(launch(where=ON_BOTH))
    assert hand.goes_on() == [
        NodeLost(8, node_name(0), "rack"),
        AttemptLost(8, J0, 1, "node lost", 8),
        NodeLost(8, node_name(1), "rack"),
    ]


def test_servers_die_only_while_there_are_jobs_or_more_will_come() -> None:
    chosen = mishaps(dies(0, at=8), returns(0, at=25), dies(1, at=40))
    hand = world(trace_job(0, lasts=5), trace_job(1, at=30, lasts=5), failures=chosen)
    hand.orders(launch(0))
    seen = hand.until(30)
    # After j0's end at 5 there is still j1 to come.
    assert [type(found) for found in seen] == [AttemptExited, NodeLost, NodeReachable, SubmitJob]
    hand.orders(launch(1))
    assert hand.goes_on() == [AttemptExited(35, J1, 1, 0, released=True)]
