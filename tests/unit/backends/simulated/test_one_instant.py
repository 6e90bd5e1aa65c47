"""The order of things that happen at one instant."""

from shunter.backends.simulated import Costs, EndSeen, Lease, RoundEnds, SimulatedBackend
from shunter.core import AttemptExited, CancelJob, Input, RoundEnded, SubmitJob
from shunter.events import facts
from tests.factories import allocation, drive, trace_job
from tests.unit.backends.simulated.driving import (
    ON_N0,
    ON_N1,
    Hand,
    dies,
    launch,
    mishaps,
    returns,
    suspend,
)


def told(inputs: list[Input]) -> list[tuple[type, str]]:
    """Return the kind of each input, and the job or server it is about."""
    return [
        (type(seen), str(getattr(seen, "job_id", getattr(seen, "node", "")))) for seen in inputs
    ]


def test_ends_then_servers_then_arrivals() -> None:
    jobs = [
        trace_job(0, lasts=6),
        trace_job(1, lasts=50),
        trace_job(2, lasts=6, ends="failed"),
        trace_job(3, lasts=50),
        trace_job(4, at=10),
        trace_job(5, at=10),
    ]
    failures = mishaps(dies(1, at=10), returns(2, at=10))
    hand = Hand(SimulatedBackend(jobs, costs=Costs(start_us=4), failures=failures))
    hand.until(0)
    hand.orders(launch(3, ON_N1), launch(2), launch(0))
    hand.until(6)
    hand.orders(launch(1))
    seen = hand.until(10)
    # Launched at 0, j0 and j2 end at 4 + 6; launched at 6, j1 starts at 6 + 4.
    # What happens to jobs comes in the order of the trace, also where they were launched otherwise.
    assert told([found for found in seen if found.at_us == 10]) == [
        (AttemptExited, "j0"),
        (facts.AttemptStarted, "j1"),
        (AttemptExited, "j2"),
        (facts.NodeLost, "n1"),
        (facts.AttemptLost, "j3"),
        (facts.NodeReachable, "n2"),
        (SubmitJob, "j4"),
        (SubmitJob, "j5"),
    ]


def test_job_that_ends_as_its_server_dies_has_ended() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)], failures=mishaps(dies(0, at=10))))
    hand.until(0)
    hand.orders(launch())
    assert told(hand.until(10)) == [(AttemptExited, "j0"), (facts.NodeLost, "n0")]


def test_job_starts_before_it_ends() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=0)], costs=Costs(start_us=5)))
    hand.until(0)
    hand.orders(launch())
    assert told(hand.until(5)) == [(facts.AttemptStarted, "j0"), (AttemptExited, "j0")]


def test_job_is_suspended_before_it_lets_go() -> None:
    jobs = [trace_job(0), trace_job(1)]
    hand = Hand(SimulatedBackend(jobs, costs=Costs(start_us=1)))
    hand.until(0)
    hand.orders(launch(0), launch(1, ON_N1))
    hand.until(5)
    hand.orders(suspend(1), suspend(0))
    # All of a job that comes first in the trace comes first.
    assert told(hand.until(5)) == [
        (facts.JobSuspended, "j0"),
        (facts.GpusReleased, "j0"),
        (facts.JobSuspended, "j1"),
        (facts.GpusReleased, "j1"),
    ]


def test_user_cancels_before_the_job_is_gone() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10, ends="cancelled")]))
    hand.until(0)
    hand.orders(launch())
    assert told(hand.until(10)) == [(CancelJob, "j0"), (AttemptExited, "j0")]


def test_attempts_on_a_dead_server_are_lost_in_the_order_of_their_launches() -> None:
    jobs = [trace_job(0, lasts=50), trace_job(1, lasts=50)]
    hand = Hand(SimulatedBackend(jobs, failures=mishaps(dies(0, at=10))))
    hand.until(0)
    hand.orders(launch(1, ON_N0), launch(0, allocation(n0=2)))
    assert told(hand.until(10)) == [
        (facts.NodeLost, "n0"),
        (facts.AttemptLost, "j1"),
        (facts.AttemptLost, "j0"),
    ]


def test_round_ends_last() -> None:
    lease = Lease(end_seen=EndSeen.at_lease_end, round_ends=RoundEnds.last_gang, round_us=10)
    jobs = [trace_job(0, lasts=25), trace_job(1, lasts=4), trace_job(2, at=10)]
    backend = SimulatedBackend(jobs, lease=lease, failures=mishaps(dies(2, at=10)))
    hand = Hand(backend)
    hand.until(0)
    hand.orders(launch(0), launch(1, ON_N1))
    # An end that waited for the end of the round comes with it, after all else.
    assert told(hand.until(10)) == [
        (facts.NodeLost, "n2"),
        (SubmitJob, "j2"),
        (AttemptExited, "j1"),
        (RoundEnded, ""),
    ]


def test_answer_to_an_order_comes_at_the_instant_of_the_order() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10)], costs=Costs(suspend_us=3)))
    hand.until(0)
    hand.orders(launch())
    assert told(hand.until(0)) == [(facts.AttemptStarted, "j0")]
    at_us, inputs = drive(hand.backend.observe(100))
    assert (at_us, told(list(inputs))) == (10, [(AttemptExited, "j0")])
