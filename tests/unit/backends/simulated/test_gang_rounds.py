"""Rounds that end with the last gang still at work in them: by hand, to the microsecond."""

from shunter.backends.simulated import (
    Costs,
    Credit,
    EndSeen,
    Lease,
    Progress,
    RoundEnds,
    SimulatedBackend,
)
from shunter.core import AttemptExited, Input, RoundEnded, SubmitJob
from shunter.events import AttemptLost, AttemptStarted, GpusReleased, JobSuspended
from shunter.workloads import TraceJob
from tests.factories import drive, job_id, trace_job
from tests.unit.backends.simulated.driving import (
    ON_N1,
    Hand,
    dies,
    launch,
    mishaps,
    resume,
    suspend,
    terminate,
)

LAST_GANG = RoundEnds.last_gang
PLAIN = Lease(round_ends=LAST_GANG, round_us=10)
STEPS = Lease(progress=Progress.whole_steps, round_ends=LAST_GANG, round_us=10)
J0, J1 = job_id(0), job_id(1)


def world(*jobs: TraceJob, lease: Lease = PLAIN, costs: Costs | None = None) -> Hand:
    hand = Hand(SimulatedBackend(jobs, lease=lease, costs=costs or Costs()))
    hand.until(0)
    return hand


def ends_of_rounds(seen: list[Input]) -> list[int]:
    return [found.at_us for found in seen if isinstance(found, RoundEnded)]


def exits(seen: list[Input]) -> dict[str, int]:
    return {str(found.job_id): found.at_us for found in seen if isinstance(found, AttemptExited)}


def test_whatever_happens_ends_a_round_in_which_nobody_runs() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, at=3), trace_job(1, at=8)], lease=PLAIN))
    seen = [type(found) for found in hand.goes_on()]
    assert seen == [SubmitJob, RoundEnded, SubmitJob, RoundEnded]


def test_round_lasts_a_lease_while_a_gang_has_work() -> None:
    hand = world(trace_job(0, lasts=25))
    hand.orders(launch())
    seen = hand.goes_on()
    assert ends_of_rounds(seen) == [10, 20, 25]
    assert exits(seen) == {"j0": 25}


def test_round_is_over_when_the_last_gang_has_done_its_work() -> None:
    hand = world(trace_job(0, lasts=4), trace_job(1, lasts=7))
    hand.orders(launch(0), launch(1, ON_N1))
    seen = hand.goes_on()
    assert ends_of_rounds(seen) == [7]
    assert exits(seen) == {"j0": 4, "j1": 7}


def test_next_round_begins_where_the_last_one_ended() -> None:
    hand = world(trace_job(0, lasts=4), trace_job(1, lasts=25))
    hand.orders(launch(0))
    assert ends_of_rounds(hand.until(4)) == [4]
    hand.orders(launch(1))
    # 25 of work in leases of 10 from 4 on.
    assert ends_of_rounds(hand.goes_on()) == [14, 24, 29]


def test_gang_stops_after_the_steps_that_fit_and_waits_for_the_last_one() -> None:
    jobs = [trace_job(0, lasts=28, total_steps=7), trace_job(1, lasts=30, total_steps=10)]
    hand = world(*jobs, lease=STEPS)
    hand.orders(launch(0), launch(1, ON_N1))
    seen = hand.goes_on()
    # Steps of 4 and 3: 2 and 3 in each round, which is over after 9. By 27 there are 6 and 9;
    # the last ones end at 27 + 4 and 27 + 3.
    assert ends_of_rounds(seen) == [9, 18, 27, 31]
    assert exits(seen) == {"j1": 30, "j0": 31}


def test_everything_up_to_the_end_of_the_round_is_seen_with_it() -> None:
    jobs = [trace_job(0, lasts=4), trace_job(1, lasts=25), trace_job(2, at=6)]
    hand = world(*jobs)
    hand.orders(launch(0), launch(1, ON_N1))
    at_us, inputs = drive(hand.backend.observe(None))
    assert at_us == 10
    assert [(type(found), found.at_us) for found in inputs] == [
        (AttemptExited, 4),
        (SubmitJob, 6),
        (RoundEnded, 10),
    ]


def test_end_seen_at_the_end_of_a_lease_is_seen_with_the_round() -> None:
    late = Lease(end_seen=EndSeen.at_lease_end, round_ends=LAST_GANG, round_us=10)
    hand = world(trace_job(0, lasts=4), trace_job(1, lasts=8), lease=late)
    hand.orders(launch(0), launch(1, ON_N1))
    # The round is over at 8, with the last gang; j0 ended at 4.
    assert hand.goes_on() == [
        AttemptExited(8, J0, 1, 0, released=True, ended_us=4),
        AttemptExited(8, J1, 1, 0, released=True),
        RoundEnded(8),
    ]


def test_round_is_over_with_the_termination_of_its_only_gang() -> None:
    hand = world(trace_job(0, lasts=25))
    hand.orders(launch())
    hand.until(4)
    hand.orders(terminate())
    assert hand.goes_on() == [AttemptExited(4, J0, 1, 143, released=True), RoundEnded(4)]


def test_gang_that_leaves_at_the_end_of_a_round_keeps_its_steps() -> None:
    hand = world(trace_job(0, lasts=28, total_steps=7), trace_job(1, at=50), lease=STEPS)
    hand.orders(launch())
    assert hand.until(8)[-1] == RoundEnded(8)  # 2 steps of 4
    hand.orders(suspend())
    assert hand.until(8)[:2] == [JobSuspended(8, J0, 1), GpusReleased(8, J0, 1)]
    assert hand.until(50)[-1] == RoundEnded(50)
    hand.orders(resume())
    # 5 of 7 are left: 2 by 58, 2 by 66, 1 by 70.
    assert ends_of_rounds(hand.goes_on()) == [58, 66, 70]


def test_round_in_which_nobody_runs_waits_for_one_that_leaves() -> None:
    jobs = [trace_job(0, lasts=25), trace_job(1, at=12)]
    hand = world(*jobs, costs=Costs(suspend_us=4))
    hand.orders(launch())
    assert hand.until(10)[-1] == RoundEnded(10)
    hand.orders(suspend())
    seen = hand.until(13)
    # With the only gang its round is over at once; the arrival at 12 ends no round.
    assert ends_of_rounds(seen) == [10]
    assert isinstance(seen[-1], SubmitJob)
    assert hand.goes_on() == [GpusReleased(14, J0, 1), RoundEnded(14)]


def test_credit_at_grant_means_nothing_here() -> None:
    granted = Lease(credit=Credit.at_grant, round_ends=LAST_GANG, round_us=10)
    hand = world(trace_job(0, lasts=15), lease=granted)
    hand.orders(launch())
    hand.until(4)
    hand.orders(suspend())
    hand.until(20)
    hand.orders(resume())
    # 4 of 15 were run, however long the lease: 20 + 11.
    assert exits(hand.goes_on()) == {"j0": 31}


def test_round_in_which_a_gang_only_starts_is_as_long_as_a_lease() -> None:
    hand = world(trace_job(0, lasts=8), costs=Costs(start_us=15))
    hand.orders(launch())
    seen = hand.goes_on()
    assert ends_of_rounds(seen) == [10, 20, 23]
    assert AttemptStarted(15, J0, 1) in seen
    assert exits(seen) == {"j0": 23}


def test_gang_launched_within_a_round_works_to_the_end_of_its_lease() -> None:
    hand = world(trace_job(0, lasts=25), trace_job(1, lasts=25))
    hand.orders(launch(0))
    hand.until(4)
    hand.orders(launch(1, ON_N1))
    seen = hand.goes_on()
    assert ends_of_rounds(seen) == [10, 20, 29]
    assert exits(seen) == {"j0": 25, "j1": 29}


def test_gang_whose_step_fits_into_no_lease_keeps_no_round_open() -> None:
    jobs = [trace_job(0, lasts=24, total_steps=2), trace_job(1, at=33)]
    hand = world(*jobs, lease=STEPS)
    hand.orders(launch())
    # Its start is seen, and later an arrival; either ends the round, which no gang does.
    assert ends_of_rounds(hand.goes_on()) == [0, 33]


def test_steps_since_the_last_checkpoint_are_lost_with_a_server() -> None:
    job = trace_job(0, lasts=28, total_steps=7, checkpoint_interval_us=6)
    hand = Hand(SimulatedBackend([job], lease=STEPS, failures=mishaps(dies(0, at=14))))
    hand.until(0)
    hand.orders(launch())
    seen = hand.until(14)
    # 2 steps of 4 by 8, where the round ends; the third is over at 12, and a checkpoint is due
    # then, the second after those at 0 and 6. Lost are the 2 since.
    assert AttemptLost(14, J0, 1, "node lost", 2) in seen
    hand.orders(resume())
    # 4 of 7 are left: 2 by 22, 2 by 30.
    assert ends_of_rounds(hand.goes_on()) == [22, 30]


def test_checkpoint_of_an_earlier_round_holds_what_was_done_by_then() -> None:
    job = trace_job(0, lasts=28, total_steps=7, checkpoint_interval_us=7)
    hand = Hand(SimulatedBackend([job], lease=STEPS, failures=mishaps(dies(0, at=12))))
    hand.until(0)
    hand.orders(launch())
    # The round is over at 8. The checkpoint at 7 holds 1 step of 4, so 8 of 12 are lost.
    assert AttemptLost(12, J0, 1, "node lost", 8) in hand.until(12)
    hand.orders(resume())
    # 6 of 7 are left: 2 by 20, 2 by 28, 2 by 36.
    assert ends_of_rounds(hand.goes_on()) == [20, 28, 36]
