"""A profile by hand: 100 GB, disk at 1024 MB/s, so that a GB takes a second from disk."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from shunter.errors import ConfigError
from shunter.events import Resources
from shunter.workloads import MinioModel, Profile

CACHE = MinioModel(100, {1: 100, 2: 100, 4: 100, 8: 100}, 1024)
PROFILE = Profile(1, {8: 40, 4: 40, 2: 80, 1: 160}, CACHE)


def test_epochs_are_measured_in_full_and_modelled_elsewhere() -> None:
    assert PROFILE.cpus == (1, 2, 4, 8)
    # Of 100 GB, 70 from disk and 30 from memory at 100 GB/s: 70.3 s; 40 from disk: 40.6 s.
    of_one, of_four = PROFILE.epoch_s[0], PROFILE.epoch_s[2]
    assert list(of_one) == [160] * 11
    assert of_four[3] == pytest.approx(70.3)
    assert of_four[6] == pytest.approx(40.6)
    assert list(of_four[7:]) == [40] * 4


def test_speeds_are_over_the_fastest_cell_by_cpus_and_memory_for_each_gpu() -> None:
    speeds = PROFILE.speeds
    assert speeds.cpus_milli == (1000, 2000, 4000, 8000)
    assert speeds.memory_mb == (1, *range(10_000, 100_001, 10_000))
    assert speeds.speed(1000, 100_000) == 0.25
    assert speeds.speed(4000, 30_000) == pytest.approx(40 / 70.3)
    assert speeds.speed(4000, 1) == pytest.approx(0.4)


def test_demand_is_the_least_with_maximal_throughput() -> None:
    assert PROFILE.demand == Resources(0, 4000, 70_000)


def test_seconds_of_any_point_are_those_of_the_table() -> None:
    assert PROFILE.seconds(4, 30_000) == pytest.approx(70.3)
    assert PROFILE.seconds(2, 500_000) == 80
    assert PROFILE.seconds(3, 100_000) == pytest.approx(40 / 0.75)  # half way from 2 to 4 CPUs
    assert PROFILE.memory_mb(30) == 30_000


def test_amounts_are_for_each_gpu_and_memory_of_its_own_comes_on_top() -> None:
    gang = Profile(4, {8: 40, 4: 80}, CACHE, own_memory_mb=2000)
    assert gang.speeds.cpus_milli == (1000, 2000)
    assert gang.speeds.memory_mb == tuple(range(2000, 27_001, 2500))
    assert gang.demand == Resources(0, 2000, 19_500)


def test_parts_of_a_small_dataset_that_are_the_same_mb_are_one_column() -> None:
    small = replace(PROFILE, cache=replace(CACHE, dataset_gb=0.003))
    assert small.speeds.memory_mb == (1, 2, 3)


def test_share_that_was_measured_is_a_point_and_1() -> None:
    relative = PROFILE.relative_to(Resources(0, 2000, 30_000))
    assert relative.notes == ()
    assert relative.matrix.cpus_milli == PROFILE.speeds.cpus_milli
    assert relative.matrix.speed(2000, 30_000) == 1
    assert relative.matrix.speed(8000, 100_000) == 2
    assert relative.matrix.speed(1000, 100_000) == 0.5


def test_share_that_was_not_measured_is_interpolated_and_that_is_said() -> None:
    relative = PROFILE.relative_to(Resources(0, 3000, 85_000))
    # Half-way between 0.5 with 2 CPUs and 1 with 4.
    assert relative.matrix.cpus_milli == (1000, 2000, 3000, 4000, 8000)
    assert 85_000 in relative.matrix.memory_mb
    assert relative.matrix.speed(3000, 85_000) == 1
    assert relative.matrix.speed(8000, 100_000) == pytest.approx(1 / 0.75)
    assert relative.notes == (
        "the proportional share, 3 CPUs for each GPU, is interpolated between 2 and 4",
        "the proportional share, 85 GB for each GPU, is interpolated between 80 and 90",
    )


def test_share_beyond_the_dataset_or_below_the_least_cpus_is_said_too() -> None:
    relative = PROFILE.relative_to(Resources(0, 500, 250_000))
    assert relative.matrix.speed(1000, 100_000) == 2  # half of 1 CPU is half as fast
    of_cpus, of_memory = relative.notes
    assert "0.5 CPUs for each GPU, is below the least point, 1: on a straight line" in of_cpus
    assert "250 GB for each GPU, is above the last point, 100: as fast as that" in of_memory


def test_more_of_either_is_never_slower_even_where_a_measurement_says_so() -> None:
    noisy = replace(PROFILE, full_s={1: 160, 2: 80, 4: 40, 8: 41})
    assert noisy.speeds.speeds[3] == noisy.speeds.speeds[2]
    assert noisy.demand == Resources(0, 4000, 70_000)


def test_disk_faster_than_memory_does_not_make_memory_harmful() -> None:
    odd = Profile(1, {1: 1}, MinioModel(100, {1: 1}, 102_400))
    assert odd.epoch_s[0][0] < odd.epoch_s[0][10]
    assert odd.speeds.speeds[0] == (1,) * 11


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: Profile(0, {1: 1}, CACHE), "gpus: expected at least 1"),
        (lambda: Profile(1, {}, CACHE), "no epoch was measured"),
        (lambda: Profile(1, {1: 0}, CACHE), "epoch with 1 CPUs: expected a number above 0"),
        (lambda: Profile(2, {1: 5}, CACHE), "with 1 CPUs: expected one for each of 2 GPUs"),
        (lambda: Profile(1, {3: 5}, CACHE), "memory_gb_s: nothing was measured with 3 CPUs"),
        (lambda: Profile(1, {1: 5}, CACHE, own_memory_mb=-1), "own_memory_mb: expected 0 or more"),
        (
            lambda: Profile(1, {1: 5}, replace(CACHE, dataset_gb=1e300)),
            "dataset_gb: 1e.300 GB are too many",
        ),
        (
            lambda: PROFILE.relative_to(Resources(0, 9000, 1000)),
            "9 CPUs for each GPU are more than were measured, 8: measure",
        ),
        (
            lambda: PROFILE.relative_to(Resources(0, 0, 1000)),
            "expected CPUs and memory for each GPU, not 0 CPUs and 1000 MB",
        ),
        (
            lambda: replace(PROFILE, own_memory_mb=1 << 40).relative_to(Resources(0, 1, 1)),
            "less than a millionth as fast",
        ),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[], object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        wrong()
