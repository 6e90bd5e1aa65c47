"""Jobs that take turns on the GPUs of a server, on the virtual clock: by hand."""

from shunter.backends.simulated import Costs, SimulatedBackend, Slicing
from shunter.core import AttemptExited, Continue, Input, ReshapeAttempt, Stop, Weigh
from shunter.core.speeds import SpeedModel
from shunter.events import Allocation, JobId, Sharing, facts
from tests.factories import allocation, configuration, job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import (
    Hand,
    dies,
    ends,
    launch,
    mishaps,
    resume,
    suspend,
    terminate,
)

J0, J1, J2 = (job_id(number) for number in range(3))
NODES = {node_name(number): configuration(4) for number in range(2)}
HALF = SpeedModel(NODES, relative={configuration(4).gpu_type: 0.5})


def turning(**masks: int) -> Allocation:
    """Return an allocation in turns with others."""
    return Allocation(allocation(**masks).shares, Sharing.sliced)


FIRST = turning(n0=1)


def world(*lasts: int, quantum_us: int = 10, switch_us: int = 0, **options: object) -> Hand:
    """Return a world of jobs that last so long, all of them there."""
    jobs = [trace_job(number, lasts=one) for number, one in enumerate(lasts)]
    named = {"slicing": Slicing(quantum_us, switch_us), **options}
    hand = Hand(SimulatedBackend(jobs, **named))  # type: ignore[arg-type]  # each by its name
    hand.until(0)
    return hand


def turns(seen: list[Input], job: str) -> list[tuple[int, str]]:
    """Return when a job's turns began and ended."""
    marks = {facts.TurnStarted: "+", facts.TurnEnded: "-"}
    return [
        (one.at_us, marks[type(one)])
        for one in seen
        if isinstance(one, facts.TurnStarted | facts.TurnEnded) and one.job_id == job
    ]


def test_jobs_have_the_gpu_in_turns_and_the_last_one_alone() -> None:
    """Turns of 10 each; j0 ends its 15 after 5 of its second turn, and j1 goes on alone."""
    hand = world(15, 30)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.goes_on()
    assert turns(seen, "j0") == [(0, "+"), (10, "-"), (20, "+")]
    assert turns(seen, "j1") == [(10, "+"), (20, "-"), (25, "+")]
    assert ends(seen) == {"j0": 25, "j1": 45}


def test_start_of_an_attempt_is_told_before_its_first_turn() -> None:
    hand = world(10)
    hand.orders(launch(0, where=FIRST))
    kinds = [type(one) for one in hand.goes_on()]
    assert kinds == [facts.AttemptStarted, facts.TurnStarted, AttemptExited]


def test_three_jobs_on_two_gpus_have_two_turns_of_three() -> None:
    hand = world(40, 40, 40)
    hand.orders(
        launch(0, where=FIRST), launch(1, where=turning(n0=2)), launch(2, where=turning(n0=1))
    )
    seen = hand.goes_on()
    assert ends(seen) == {"j0": 50, "j1": 60, "j2": 60}
    started = [one for one in seen if isinstance(one, facts.TurnStarted)]
    assert {one.shares[0].gpu_mask for one in started if one.job_id == J2} == {1, 2}


def test_jobs_that_keep_their_homes_have_turns_there_but_for_those_that_move() -> None:
    """As above, but n0's first GPU is that of two jobs, as long as neither moves."""
    for moving, last_us in ((frozenset[JobId](), 80), (frozenset({J2}), 70)):
        slicing = Slicing(10, keeps_homes=True, moving=moving)
        hand = world(40, 40, 40, slicing=slicing)
        hand.orders(
            launch(0, where=FIRST), launch(1, where=turning(n0=2)), launch(2, where=turning(n0=1))
        )
        seen = hand.goes_on()
        assert max(ends(seen).values()) == last_us
        started = [one for one in seen if isinstance(one, facts.TurnStarted)]
        masks = {one.shares[0].gpu_mask for one in started if one.job_id == J2}
        assert masks == ({1, 2} if moving else {1})
        assert {one.job_id for one in started if one.can_move} == moving


def test_turn_goes_on_to_the_end_of_a_mini_batch() -> None:
    """Steps of 7: the first turn ends at 14, not at 10, the other one's of steps of 2 at 24."""
    jobs = [
        trace_job(0, lasts=28, total_steps=4),
        trace_job(1, lasts=28, total_steps=14),
    ]
    hand = Hand(SimulatedBackend(jobs, slicing=Slicing(10), speeds=SpeedModel(NODES)))
    hand.until(0)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.goes_on()
    assert turns(seen, "j0")[:2] == [(0, "+"), (14, "-")]
    assert turns(seen, "j1")[:2] == [(14, "+"), (24, "-")]


def test_change_of_hands_takes_its_time() -> None:
    hand = world(20, 20, switch_us=3)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.goes_on()
    assert turns(seen, "j0") == [(0, "+"), (10, "-"), (26, "+")]
    assert turns(seen, "j1") == [(13, "+"), (23, "-"), (39, "+")]
    assert ends(seen) == {"j0": 36, "j1": 49}


def test_start_up_is_over_before_a_job_takes_turns() -> None:
    hand = world(10, 10, costs=Costs(start_us=4))
    hand.orders(launch(0, where=FIRST))
    hand.until(2)
    hand.orders(launch(1, where=FIRST))
    seen = hand.goes_on()
    assert turns(seen, "j0") == [(4, "+")]
    assert ends(seen) == {"j0": 14, "j1": 24}


def test_job_that_waits_for_its_first_turn_slows_nobody_down() -> None:
    """Both on one GPU: j0 has its turn of 10 alone, and is no slower than that from 4 on."""
    hand = world(20, 20, speeds=SpeedModel(NODES))
    hand.orders(launch(0, where=FIRST))
    hand.until(4)
    hand.orders(launch(1, where=FIRST))
    seen = hand.goes_on()
    assert [one for one in seen if isinstance(one, facts.SpeedChanged)] == []
    assert turns(seen, "j0") == [(10, "-"), (20, "+")]
    assert ends(seen) == {"j0": 30, "j1": 40}


def test_gpu_of_who_leaves_is_given_at_once() -> None:
    for order in (suspend(0), terminate(0)):
        hand = world(20, 20)
        hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
        hand.until(6)
        hand.orders(order)
        assert turns(hand.goes_on(), "j1") == [(6, "+")]


def test_job_suspended_while_it_waits_keeps_its_work() -> None:
    """j0 has done 10 of 20 and waits when it is told to leave at 13; it is resumed alone."""
    hand = world(20, 20)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    hand.until(13)
    hand.orders(suspend(0))
    left = hand.until(14)
    assert [one.lost_us for one in left if isinstance(one, facts.JobSuspended)] == [0]
    hand.orders(resume(0, where=turning(n0=2)))
    assert ends(hand.goes_on())["j0"] == 24


def test_job_that_is_stopped_takes_no_turns_until_it_goes_on() -> None:
    hand = world(20, 20)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    hand.until(4)
    hand.orders(Stop(J0, 1))
    seen = hand.until(30)
    assert turns(seen, "j0") == [(4, "-")]
    assert [one.at_us for one in seen if isinstance(one, facts.JobStopped)] == [4]
    assert ends(seen) == {"j1": 24}
    hand.orders(Continue(J0, 1))
    seen = hand.goes_on()
    assert [one.at_us for one in seen if isinstance(one, facts.JobContinued)] == [30]
    assert ends(seen) == {"j0": 46}


def test_speed_of_a_turn_is_told_with_it() -> None:
    hand = world(10, 10, speeds=HALF)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.goes_on()
    assert {one.speed for one in seen if isinstance(one, facts.TurnStarted)} == {0.5}
    assert ends(seen) == {"j0": 30, "j1": 40}


def test_job_with_other_gpus_of_its_own_goes_on_and_shares_no_more() -> None:
    hand = world(40, 40)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    hand.until(12)
    hand.orders(ReshapeAttempt(J1, 1, turning(n0=4)))
    seen = hand.goes_on()
    assert ends(seen) == {"j0": 12 + 30, "j1": 12 + 38}


def test_server_that_dies_ends_the_turns_of_all() -> None:
    hand = world(40, 40, failures=mishaps(dies(0, 15)))
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.until(30)
    assert turns(seen, "j0") == [(0, "+"), (10, "-")]
    assert turns(seen, "j1") == [(10, "+")]


def test_job_of_another_weight_has_other_turns_from_then_on() -> None:
    """Equal turns up to 40; from then on j0 has two of three, and what was had stays had."""
    hand = world(400, 400)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.until(40)
    hand.orders(Weigh(J0, 1, 2.0), Weigh(J1, 2, 9.0))  # the second is of no attempt here
    seen += hand.until(340)
    had = {job: turns(seen, job) for job in (J0, J1)}
    on_us = {job: sum((-at if mark == "+" else at) for at, mark in had[job]) for job in had}
    running = next(job for job in had if on_us[job] < 0)
    on_us[running] += 340
    assert on_us[J0] + on_us[J1] == 340
    assert abs(on_us[J0] - (20 + 200)) <= 10


def test_turn_waits_for_a_boundary_no_longer_than_it_may() -> None:
    """Steps of 7 again: with 2 at most the turn ends at 12, in the middle of the second one."""
    jobs = [trace_job(number, lasts=28, total_steps=4) for number in range(2)]
    slicing = Slicing(10, boundary_most_us=2)
    hand = Hand(SimulatedBackend(jobs, slicing=slicing, speeds=SpeedModel(NODES)))
    hand.until(0)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    seen = hand.goes_on()
    assert turns(seen, "j0")[:2] == [(0, "+"), (12, "-")]
    assert turns(seen, "j1")[:2] == [(12, "+"), (24, "-")]
