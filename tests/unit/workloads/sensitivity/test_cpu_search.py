"""Which numbers of CPUs are measured, for jobs whose epochs take known times."""

from collections.abc import Callable

import pytest

from shunter.errors import ConfigError
from shunter.workloads import CpuSearch


def searched(cpus_most: int, gpus: int, epoch_s: Callable[[int], float]) -> list[int]:
    """Return all numbers of CPUs measured, in order, the warm-up first."""
    search = CpuSearch(cpus_most, gpus)
    order = []
    while search.next_cpus is not None:
        order.append(search.next_cpus)
        search.record(epoch_s(search.next_cpus))
    return order


def test_job_that_needs_few_cpus_is_halved_and_then_stepped() -> None:
    assert searched(24, 1, lambda cpus: max(10, 40 / cpus)) == [24, 24, 12, 6, 3, 2, 1]


def test_job_that_needs_all_cpus_is_stepped() -> None:
    # From 12 on a step makes less than a tenth: 12 / 11 is halved, and steps follow again.
    assert searched(24, 1, lambda cpus: 240 / cpus) == [24, 24, 12, 11, 5, 4, 3, 2, 1]


def test_steps_are_one_cpu_for_each_gpu() -> None:
    assert searched(32, 4, lambda cpus: 320 / cpus) == [32, 32, 16, 12, 8, 4]


def test_one_cpu_for_each_gpu_is_the_least_and_always_measured() -> None:
    assert searched(12, 8, lambda cpus: 10) == [12, 12, 8]
    assert searched(9, 8, lambda cpus: 90 / cpus) == [9, 9, 8]
    assert searched(8, 8, lambda cpus: 10) == [8, 8]
    assert searched(1, 1, lambda cpus: 10) == [1, 1]


def test_a_tenth_slower_is_no_longer_as_long() -> None:
    times = {16: 100.0, 8: 109.9, 4: 120.8, 2: 133.0, 1: 140.0}
    assert searched(16, 1, times.__getitem__) == [16, 16, 8, 4, 2, 1]
    times = {16: 100.0, 8: 110.0, 7: 115.0, 3: 130.0, 2: 131.0, 1: 140.0}
    assert searched(16, 1, times.__getitem__) == [16, 16, 8, 7, 3, 2, 1]


def test_first_run_does_not_count() -> None:
    search = CpuSearch(2, 1)
    for epoch_s in (500, 20, 21):
        search.record(epoch_s)
    assert search.next_cpus is None
    assert search.epoch_s == {2: 20, 1: 21}


@pytest.mark.parametrize("epoch_s", [0, -1.0, float("nan"), float("inf")])
def test_time_that_cannot_be_is_refused_and_changes_nothing(epoch_s: float) -> None:
    search = CpuSearch(4, 1)
    search.record(10)
    with pytest.raises(ConfigError, match="epoch with 4 CPUs: expected a number above 0"):
        search.record(epoch_s)
    assert (search.next_cpus, search.epoch_s) == (4, {})


def test_nothing_is_taken_when_it_is_done() -> None:
    search = CpuSearch(1, 1)
    search.record(10)
    search.record(10)
    with pytest.raises(ConfigError, match="all numbers of CPUs have been measured"):
        search.record(10)


@pytest.mark.parametrize(
    ("cpus_most", "gpus", "what"),
    [(4, 0, "gpus: expected at least 1, not 0"), (3, 4, "a CPU for each of 4 GPUs at least")],
)
def test_job_that_cannot_be_is_refused(cpus_most: int, gpus: int, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        CpuSearch(cpus_most, gpus)
