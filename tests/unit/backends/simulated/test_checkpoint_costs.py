"""What checkpoints of a size cost at a bandwidth: durations and instants computed by hand."""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend, transfer_us, transfers_us
from shunter.core import AttemptExited
from shunter.events import AttemptStarted, GpusReleased, JobSuspended
from tests.factories import job_id, node_name, trace_job
from tests.unit.backends.simulated.driving import ON_N1, Hand, launch, migrate, resume, suspend

J0 = job_id(0)


def world(costs: Costs, model: str = "") -> Hand:
    """Return a world in which a job that lasts 10 has arrived."""
    hand = Hand(SimulatedBackend([trace_job(0, lasts=10, model=model)], costs=costs))
    hand.until(0)
    return hand


@pytest.mark.parametrize(
    ("size_mb", "bandwidth_mb_s", "expected_us"),
    [
        (500, 200, 2_500_000),
        (526.8, 200, 2_634_000),
        (0, 200, 0),
        (0.3, 0.1, 3_000_000),  # of floats it would be one microsecond more
        (1, 3, 333_334),  # the last byte is through within the 333,334th microsecond
        (1e-9, 1000, 1),
        (4e6, 0.5, 8_000_000_000_000),
    ],
)
def test_a_transfer_takes_size_over_bandwidth_rounded_up(
    size_mb: float, bandwidth_mb_s: float, expected_us: int
) -> None:
    assert transfer_us(size_mb, bandwidth_mb_s) == expected_us


def test_each_model_has_its_own_time() -> None:
    times = transfers_us({"vgg16": 526.8, "resnet50": 80.6}, 100)
    assert times == (("resnet50", 806_000), ("vgg16", 5_268_000))


def test_a_checkpoint_is_written_on_the_way_out_and_read_on_the_way_in() -> None:
    hand = world(Costs(start_us=3, suspend_us=2, resume_us=5, checkpoint_us=4))
    hand.orders(launch())
    hand.until(7)  # nothing is read at first: it works from 3 to 7, 4 of 10
    hand.orders(suspend())
    # 7 + 2 + 4 to write.
    assert hand.until(20) == [JobSuspended(7, J0, 1), GpusReleased(13, J0, 1)]
    hand.orders(resume())
    # 20 + 5 + 4 to read, and 6 are left.
    assert hand.until(50) == [
        AttemptStarted(29, J0, 2),
        AttemptExited(35, J0, 2, 0, released=True),
    ]


def test_a_move_writes_and_reads_as_well() -> None:
    hand = world(Costs(suspend_us=2, resume_us=5, migrate_us=7, checkpoint_us=4))
    hand.orders(launch())
    hand.until(4)
    hand.orders(migrate())
    assert hand.until(10)[-1] == GpusReleased(10, J0, 1)
    hand.orders(resume(where=ON_N1))
    # 10 + 7 + 4, and 6 are left.
    assert hand.until(50) == [
        AttemptStarted(21, J0, 2, migrated_from=(node_name(0),)),
        AttemptExited(27, J0, 2, 0, released=True),
    ]


def test_size_alone_makes_a_world_that_takes_time() -> None:
    hand = world(Costs(checkpoint_us=4))
    hand.orders(launch())
    assert hand.until(6) == [AttemptStarted(0, J0, 1)]
    hand.orders(suspend())
    assert hand.until(20) == [JobSuspended(6, J0, 1), GpusReleased(10, J0, 1)]


@pytest.mark.parametrize(("model", "free_us"), [("vgg16", 15), ("resnet50", 6), ("other", 10)])
def test_a_model_of_another_size_takes_another_time(model: str, free_us: int) -> None:
    hand = world(Costs(checkpoint_us=4, by_model=(("resnet50", 0), ("vgg16", 9))), model)
    hand.orders(launch())
    hand.until(6)
    hand.orders(suspend())
    assert hand.until(20)[-1] == GpusReleased(free_us, J0, 1)


def test_job_suspended_while_it_starts_writes_nothing_and_reads_when_it_comes_back() -> None:
    hand = world(Costs(start_us=3, checkpoint_us=4))
    hand.orders(launch())
    hand.until(2)
    hand.orders(suspend())
    assert hand.until(20) == [JobSuspended(2, J0, 1), GpusReleased(2, J0, 1)]
    hand.orders(resume())
    # As with `resume`: a later attempt pays, also where nothing was saved. 20 + 4 + 10.
    assert hand.until(50)[-1] == AttemptExited(34, J0, 2, 0, released=True)


def test_no_size_is_no_cost() -> None:
    assert Costs(by_model=(("resnet50", 0),)).are_none
    assert not Costs(by_model=(("resnet50", 1),)).are_none
    assert not Costs(checkpoint_us=1).are_none
