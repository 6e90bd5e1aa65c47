"""What holds of every profile, whatever was measured: its search, matrix, demand and file."""

import json
from itertools import pairwise

from hypothesis import given, strategies as st

from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.events import Resources
from shunter.workloads import (
    PERCENTS,
    CpuSearch,
    MinioModel,
    Profile,
    load_sensitivity,
    table_document,
)
from tests.slices import searched

MILLISECONDS = st.integers(1000, 10_000_000)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Draw a job with any times and bandwidths, noise included, searched to its end."""
    gpus = draw(st.integers(1, 8))
    search = CpuSearch(draw(st.integers(gpus, 12 * gpus)), gpus)
    while search.next_cpus is not None:
        search.record(draw(MILLISECONDS) / 1000)
    bandwidths = {cpus: draw(st.integers(1, 200)) / 10 for cpus in search.epoch_s}
    cache = MinioModel(draw(st.integers(1, 10**7)) / 1000, bandwidths, draw(st.integers(10, 5000)))
    return Profile(gpus, search.epoch_s, cache, draw(st.sampled_from([0, 1, 3000])))


@st.composite
def shares(draw: st.DrawFn, profile: Profile) -> Resources:
    """Draw a proportional share: points of the profile or anything between and beyond."""
    speeds = profile.speeds
    cpus = st.sampled_from(speeds.cpus_milli) | st.integers(250, speeds.cpus_milli[-1])
    last = speeds.memory_mb[-1]
    memory = st.sampled_from(speeds.memory_mb) | st.integers(max(last // 50, 1), 2 * last)
    return Resources(0, draw(cpus), draw(memory))


def is_rising(matrix: Sensitivity) -> bool:
    rows = [*matrix.speeds, *zip(*matrix.speeds, strict=True)]
    return all(low <= high for row in rows for low, high in pairwise(row))


@searched(50)
@given(profiles(), st.data())
def test_matrix_never_falls_and_is_1_at_the_share(profile: Profile, data: st.DataObject) -> None:
    share = data.draw(shares(profile))
    matrix = profile.relative_to(share).matrix
    assert is_rising(profile.speeds)
    assert is_rising(matrix)
    assert matrix.speed(share.cpus_milli, share.memory_mb) == 1


@searched(50)
@given(profiles(), st.data())
def test_share_as_a_point_changes_no_speed_but_the_scale(
    profile: Profile, data: st.DataObject
) -> None:
    share = data.draw(shares(profile))
    matrix = profile.relative_to(share).matrix
    at_share = profile.speeds.speed(share.cpus_milli, share.memory_mb)
    cpus_milli = data.draw(st.integers(0, 2 * profile.speeds.cpus_milli[-1]))
    memory_mb = data.draw(st.integers(0, 2 * profile.speeds.memory_mb[-1]))
    expected = profile.speeds.speed(cpus_milli, memory_mb)
    assert abs(matrix.speed(cpus_milli, memory_mb) * at_share - expected) < 1e-9


@searched(50)
@given(profiles(), st.data())
def test_file_reads_back(profile: Profile, data: st.DataObject) -> None:
    share = data.draw(shares(profile))
    relative = profile.relative_to(share)
    table = SensitivityTable({"model": {1: relative.matrix}}, share)
    text = json.dumps(table_document(table, relative.notes))
    assert load_sensitivity("table.json", lambda _: text).table == table


@searched(50)
@given(profiles())
def test_demand_is_as_fast_as_everything_and_nothing_less_is(profile: Profile) -> None:
    speeds, demand = profile.speeds, profile.demand
    assert speeds.speed(demand.cpus_milli, demand.memory_mb) > 1 - 1e-8
    for cpus_milli in speeds.cpus_milli:
        for memory_mb in speeds.memory_mb:
            if cpus_milli < demand.cpus_milli or (
                cpus_milli == demand.cpus_milli and memory_mb < demand.memory_mb
            ):
                assert speeds.speed(cpus_milli, memory_mb) < 1 - 1e-10


@searched(50)
@given(st.integers(1, 8), st.integers(2, 32), st.integers(1, 32))
def test_few_numbers_of_cpus_are_measured(gpus: int, most: int, busy: int) -> None:
    """Jobs whose speed rises with CPUs up to `busy` for each GPU, and stays from there."""
    search = CpuSearch(most * gpus, gpus)
    runs = 0
    while search.next_cpus is not None:
        search.record(1000 / min(search.next_cpus, busy * gpus))
        runs += 1
    assert list(search.epoch_s) == sorted(search.epoch_s, reverse=True)
    assert {most * gpus, gpus} <= search.epoch_s.keys()
    assert runs == len(search.epoch_s) + 1
    assert runs <= most // 2 + 3
    assert runs * 3 < most * len(PERCENTS)


@searched(50)
@given(st.integers(1, 8), st.lists(MILLISECONDS, min_size=1, max_size=6))
def test_where_memory_never_binds_all_columns_are_the_measurements(
    gpus: int, times: list[int]
) -> None:
    slowest_first = sorted(times, reverse=True)
    full_s = {gpus * at: time / 1000 for at, time in enumerate(slowest_first, 1)}
    # Reading the whole dataset takes half a second from disk and less from memory; epochs 1 s.
    cache = MinioModel(0.5, dict.fromkeys(full_s, 10.0), 1024)
    profile = Profile(gpus, full_s, cache)
    fastest_s = min(full_s.values())
    for at, row in zip(profile.cpus, profile.speeds.speeds, strict=True):
        assert row == (fastest_s / full_s[at],) * len(PERCENTS)
    assert profile.demand.memory_mb == 1
