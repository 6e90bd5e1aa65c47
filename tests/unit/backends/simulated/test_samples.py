"""What the simulated world measures of jobs, against what is true of them."""

from math import log
from statistics import fmean, stdev
from typing import Any

import pytest

from shunter.backends.simulated import Samples, SimulatedBackend
from shunter.core import AttemptExited, Continue, Stop
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import GpuType, ProfileSampled
from tests.factories import configuration, job_id, node_name, packed, trace_job
from tests.unit.backends.simulated.driving import Hand, launch, resume, suspend

J0 = job_id(0)
S = 1_000_000
V100 = GpuType("v100")
EVERY_TEN = Samples(every_us=10 * S)


def hand(samples: Samples = EVERY_TEN, **options: Any) -> Hand:
    """Return a world with a job of 50 steps that lasts 100 seconds."""
    job = trace_job(0, lasts=100 * S, total_steps=50)
    world = Hand(SimulatedBackend([job], samples=samples, **options))
    world.until(0)
    return world


def sampled(world: Hand, until_us: int) -> list[ProfileSampled]:
    return [one for one in world.until(until_us) if isinstance(one, ProfileSampled)]


def test_steps_and_their_time_are_measured_until_the_end() -> None:
    world = hand()
    world.orders(launch())
    seen = world.goes_on()
    assert seen[:-1] == [ProfileSampled(at * S, J0, 1, at // 2, 2.0) for at in range(10, 100, 10)]
    assert isinstance(seen[-1], AttemptExited)
    assert seen[-1].at_us == 100 * S


def test_nothing_is_measured_unless_asked_or_of_jobs_without_steps() -> None:
    world = hand(Samples())
    world.orders(launch())
    assert sampled(world, 90 * S) == []
    world = Hand(SimulatedBackend([trace_job(0, lasts=100 * S)], samples=EVERY_TEN))
    world.until(0)
    world.orders(launch())
    assert sampled(world, 90 * S) == []


def test_sampling_changes_no_end_in_any_mode() -> None:
    ends = []
    for samples in (Samples(), EVERY_TEN):
        world = hand(samples)
        world.orders(launch())
        world.until(33 * S)
        world.orders(suspend())
        world.until(40 * S)
        world.orders(resume())
        ends.append(world.goes_on()[-1])
    assert ends[0] == ends[1]
    assert ends[0].at_us == 107 * S


def test_attempt_is_measured_from_its_own_start_and_goes_on_counting() -> None:
    world = hand()
    world.orders(launch())
    world.until(34 * S)
    world.orders(suspend())
    world.until(40 * S)
    world.orders(resume())
    assert sampled(world, 61 * S) == [
        ProfileSampled(50 * S, J0, 2, 22, 2.0),
        ProfileSampled(60 * S, J0, 2, 27, 2.0),
    ]


def test_stopped_attempt_is_measured_again_once_it_goes_on() -> None:
    world = hand()
    world.orders(launch())
    world.until(12 * S)
    world.orders(Stop(J0, 1))
    assert sampled(world, 45 * S) == []
    world.orders(Continue(J0, 1))
    assert [(one.at_us, one.step) for one in sampled(world, 70 * S)] == [
        (55 * S, 11),  # 12 + 10 seconds of work
        (65 * S, 16),
    ]


def test_attempt_that_stands_for_a_moment_is_not_measured_twice_as_often() -> None:
    world = hand()
    world.orders(launch())
    world.until(12 * S)
    world.orders(Stop(J0, 1))
    world.until(13 * S)
    world.orders(Continue(J0, 1))
    assert [one.at_us for one in sampled(world, 50 * S)] == [23 * S, 33 * S, 43 * S]


@pytest.mark.parametrize("relative", [0.5, 4.0])
def test_measured_time_follows_the_speed(relative: float) -> None:
    nodes = {node_name(0): configuration(4, gpu_type="v100")}
    world = hand(speeds=SpeedModel(nodes, {V100: relative}))
    world.orders(launch())
    (first, *_) = sampled(world, 20 * S)
    assert first.batch_s == pytest.approx(2.0 / relative)
    assert first.step == int(5 * relative)


def test_measured_time_is_that_of_the_table() -> None:
    table = ThroughputTable({V100: {JobKind("m", 1): 4.0}}, {}, V100)
    nodes = {node_name(0): configuration(4, gpu_type="v100")}
    job = trace_job(0, lasts=100 * S, total_steps=400, model="m")
    backend = SimulatedBackend([job], samples=EVERY_TEN, speeds=SpeedModel(nodes, throughput=table))
    world = Hand(backend)
    world.until(0)
    world.orders(launch())
    assert sampled(world, 10 * S) == [ProfileSampled(10 * S, J0, 1, 40, 0.25)]


def test_job_without_steps_is_measured_by_the_table_beside_others_too() -> None:
    light, heavy = JobKind("light", 1), JobKind("heavy", 1)
    table = ThroughputTable(
        {V100: {light: 4.0, heavy: 2.0}},
        {V100: {(light, heavy): (1.0, 1.0), (heavy, light): (1.0, 1.0)}},
        V100,
    )
    nodes = {node_name(0): configuration(4, gpu_type="v100")}
    jobs = [
        trace_job(number, lasts=100 * S, model=model)
        for number, model in enumerate(("light", "heavy", "strange"))
    ]
    backend = SimulatedBackend(jobs, samples=EVERY_TEN, speeds=SpeedModel(nodes, throughput=table))
    world = Hand(backend)
    world.until(0)
    world.orders(launch(0, packed(n0=1)), launch(2, packed(n0=2)))
    world.until(5 * S)
    world.orders(launch(1, packed(n0=1)))
    assert sampled(world, 15 * S) == [
        ProfileSampled(10 * S, J0, 1, None, 1.0),  # 0.25 seconds alone
        ProfileSampled(15 * S, job_id(1), 1, None, 1.0),
    ]


def test_noise_is_as_large_as_asked_and_hangs_on_seed_job_and_instant_alone() -> None:
    found = []
    for seed in (1, 1, 2):
        job = trace_job(0, lasts=20_000 * S, total_steps=10_000)
        noisy = Samples(every_us=10 * S, noise=0.1, seed=seed)
        world = Hand(SimulatedBackend([job], samples=noisy))
        world.until(0)
        world.orders(launch())
        found.append([one.batch_s for one in sampled(world, 20_000 * S) if one.batch_s])
    assert found[0] == found[1] != found[2]
    errors = [log(batch_s / 2.0) for batch_s in found[0]]
    assert len(errors) == 1999
    # Three standard errors of the mean and of the deviation of so many.
    assert abs(fmean(errors)) < 3 * 0.1 / 1999**0.5
    assert stdev(errors) == pytest.approx(0.1, rel=3 / (2 * 1999) ** 0.5)
