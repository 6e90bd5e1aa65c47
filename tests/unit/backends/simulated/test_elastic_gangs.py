"""Gangs of another size than was submitted: the same work, faster or slower; computed by hand."""

from typing import Any

import pytest

from shunter.backends.simulated import NO_COSTS, Costs, Samples, SimulatedBackend
from shunter.core import Launch, Resume
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import AttemptStarted, GpuType, Level, ProfileSampled
from tests.factories import allocation, configuration, job_id, job_spec, node_name, trace_job
from tests.unit.backends.simulated.driving import Hand, ends, suspend

J0 = job_id(0)
V100 = GpuType("v100")
NODES = {node_name(0): configuration(8), node_name(1): configuration(8)}
RATES = {JobKind("resnet", 2): 10.0, JobKind("resnet", 4): 15.0}
TABLE = ThroughputTable({V100: RATES}, base_type=V100)
ELASTIC: dict[str, Any] = {"gpus_min": 1, "gpus_max": 8}


def world(speeds: SpeedModel, costs: Costs = NO_COSTS, **fields: Any) -> Hand:
    """Return a world in which a job of two GPUs has arrived, with 100 us of work for them."""
    job = trace_job(0, 2, lasts=100, **ELASTIC, **fields)
    hand = Hand(SimulatedBackend([job], costs=costs, speeds=speeds, samples=Samples(15)))
    hand.until(0)
    return hand


def goes_on(hand: Hand, attempt: int, gpus: int, **fields: Any) -> None:
    """Order the attempt of a gang of another size."""
    spec = job_spec(2, **ELASTIC, **fields).resized(gpus)
    order = Launch if attempt == 1 else Resume
    hand.orders(order(J0, attempt, allocation(n0=(1 << gpus) - 1), spec))


@pytest.mark.parametrize(
    ("gpus", "takes_us"), [(1, 200), (2, 100), (3, 67), (4, 50), (8, 25)], ids=str
)
def test_gang_of_another_size_is_as_fast_as_it_has_gpus(gpus: int, takes_us: int) -> None:
    hand = world(SpeedModel(NODES))
    goes_on(hand, 1, gpus)
    assert ends(hand.goes_on()) == {J0: takes_us}


def test_work_done_with_one_size_is_done_for_the_next() -> None:
    """40 us on two GPUs do 40 of 100; the other 60 take 30 on four, after 3 to suspend and 7."""
    hand = world(SpeedModel(NODES), Costs(suspend_us=3, migrate_us=7))
    goes_on(hand, 1, 2)
    hand.until(40)
    hand.orders(suspend())
    hand.until(43)
    goes_on(hand, 2, 4)
    seen = hand.goes_on()
    (started,) = [one for one in seen if isinstance(one, AttemptStarted)]
    assert (started.at_us, started.speed) == (50, 2.0)
    assert ends(seen) == {J0: 80}


@pytest.mark.parametrize(("gpus", "speed"), [(4, 1.5), (8, 4.0)], ids=["in table", "not in it"])
def test_table_that_knows_both_sizes_says_how_much_faster(gpus: int, speed: float) -> None:
    hand = world(SpeedModel(NODES, throughput=TABLE), model="resnet")
    goes_on(hand, 1, gpus, model="resnet")
    (started,) = [one for one in hand.until(0) if isinstance(one, AttemptStarted)]
    assert started.speed == speed


def test_distance_counts_for_the_gang_that_it_has() -> None:
    """Half as fast over two servers, and twice as many GPUs: as fast as what was submitted."""
    curve: dict[str, Any] = {"tolerance": ((Level.server, 1.0), (Level.cluster, 0.5))}
    hand = world(SpeedModel(NODES), **curve)
    spec = job_spec(2, **ELASTIC, **curve).resized(4)
    hand.orders(Launch(J0, 1, allocation(n0=0b11, n1=0b11), spec))
    assert ends(hand.goes_on()) == {J0: 100}


def test_samples_tell_the_mini_batches_of_the_size_it_has() -> None:
    hand = world(SpeedModel(NODES), total_steps=50)
    goes_on(hand, 1, 4, total_steps=50)
    (sample, *_) = [one for one in hand.until(20) if isinstance(one, ProfileSampled)]
    assert sample.step == 15
    assert sample.batch_s == pytest.approx(1e-6)
