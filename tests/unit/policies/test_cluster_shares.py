"""`drf` and `tetris`: what jobs are of the whole cluster, by hand."""

from fractions import Fraction
from typing import Any

import pytest

from shunter.ask import score_in_words
from shunter.core import Scheduler
from shunter.core.planning import Consolidated
from shunter.core.ranking import Aged, Measure, RankedPolicy, rank_of
from shunter.core.sizing import WHOLE
from shunter.core.speeds import Sensitivity, SensitivityTable
from shunter.events import AllocationChanged, Event, NodeDrained, NodeRemoved, Resources
from shunter.policies import UNKNOWN_US, DominantShare, RemainingTime, RemainingVolume
from tests.factories import (
    World,
    job_id,
    job_submitted,
    node_added,
    node_name,
    run,
    servers,
    trace_job,
)

TABLE = SensitivityTable(
    {"hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (2, 2)))}},
    Resources(0, 3000, 20),
)
TWO = World(servers=servers(4, 4, cpus_milli=12_000, memory_mb=80))
"""8 GPUs, 24 CPUs and 160 MB in all."""


def told(index: Any, *events: Event) -> Scheduler:
    """Return the core of two servers after some more events."""
    core, _ = TWO.scheduler(RankedPolicy(index, Consolidated()))
    core.view.open()
    for event in events:
        core.emit(event)
    core.view.close()
    return core


def ranks(core: Scheduler) -> list[int]:
    return [rank_of(entry.key) for entry in core.memory.entries.values()]


def shares(*events: Event, index: Any = None) -> list[Fraction]:
    return [Fraction(rank, WHOLE) for rank in ranks(told(index or DominantShare(), *events))]


def starts(index: Any, world: World) -> list[tuple[int, str]]:
    outcome = run(world, RankedPolicy(index, Consolidated()))
    return [(e.at_us, str(e.job_id)) for e in outcome.of(AllocationChanged) if e.allocation.shares]


def test_dominant_share_is_that_of_the_resource_of_which_most_is_asked() -> None:
    assert shares(
        job_submitted(0, 2),
        job_submitted(1, 1, cpus_milli=12_000),
        job_submitted(2, 2, cpus_milli=3_000, memory_mb=120),
        job_submitted(3, 0, cpus_milli=6_000),
    ) == [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1, 4)]


def test_who_asks_nothing_demands_what_makes_its_model_fastest() -> None:
    assert shares(
        job_submitted(0, 1, model="hungry"),  # 6 of 24 CPUs
        job_submitted(1, 4, model="hungry"),  # a server has 12 for it, not 24
        job_submitted(2, 1, model="hungry", cpus_milli=3_000),  # asks for its part itself
        job_submitted(3, 8, model="hungry"),  # no server holds the gang
        job_submitted(4, 1, model="nobody's"),
        index=DominantShare().knowing(TABLE),
    ) == [Fraction(1, 4), Fraction(1, 2), Fraction(1, 8), Fraction(1), Fraction(1, 8)]


@pytest.mark.parametrize("index", [DominantShare(), Aged(DominantShare(), 99, 2)])
def test_shares_are_told_anew_once_a_server_joins_or_leaves(index: Any) -> None:
    jobs = job_submitted(0, 2), job_submitted(1, 1, cpus_milli=12_000)
    joins = node_added(2, 8, cpus_milli=24_000, memory_mb=160)
    assert shares(*jobs, joins, index=index) == [Fraction(1, 8), Fraction(1, 4)]
    leaves = NodeRemoved(0, node_name(2))
    assert shares(*jobs, joins, leaves, index=index) == [Fraction(1, 4), Fraction(1, 2)]
    assert shares(*jobs, NodeDrained(0, node_name(0), ""), index=index) == [
        Fraction(1, 4),
        Fraction(1, 2),
    ]


def test_index_looks_at_the_cluster_of_each_run() -> None:
    index = DominantShare()
    assert shares(job_submitted(0, 2), index=index) == [Fraction(1, 4)]
    assert starts(index, World(servers=servers(2), jobs=(trace_job(0, 2),))) == [(0, "j0")]
    assert shares(job_submitted(0, 2), index=index) == [Fraction(1, 4)]


def test_volume_adds_up_the_parts_of_all_resources() -> None:
    core = told(
        RemainingVolume().knowing(TABLE),
        job_submitted(0, 1, lasts=30, model="hungry"),  # 1/8 + 1/4 + 1/32 of the cluster
        job_submitted(1, 1, lasts=16),  # 3/8
        job_submitted(2, 1, lasts=None),
    )
    assert ranks(core) == [12_187, 6_000, UNKNOWN_US]


def test_smaller_dominant_share_preempts_a_larger_one() -> None:
    jobs = trace_job(0, 4, lasts=10), trace_job(1, 1, at=2, lasts=3, cpus_milli=6_000)
    world = World(servers=servers(4, cpus_milli=12_000, memory_mb=80), jobs=jobs)
    assert starts(DominantShare(), world) == [(0, "j0"), (2, "j1"), (5, "j0")]


def test_tetris_prefers_a_longer_job_that_leaves_more_to_others() -> None:
    # 20 x (1 + 1/8 + 1/8) = 25 against 10 x 3 = 30.
    slim = trace_job(0, lasts=20, cpus_milli=1_000, memory_mb=10)
    wide = trace_job(1, lasts=10, cpus_milli=8_000, memory_mb=80)
    world = World(servers=servers(1, cpus_milli=8_000, memory_mb=80), jobs=(slim, wide))
    assert starts(RemainingVolume(), world) == [(0, "j0"), (20, "j1")]
    assert starts(RemainingTime(), world) == [(0, "j1"), (10, "j0")]


def test_no_volume_is_as_large_as_an_unknown_one() -> None:
    core = told(RemainingVolume(), job_submitted(0, 8, lasts=1 << 58))
    assert core.memory.entries.keys() == {job_id(0)}
    assert ranks(core) == [(1 << 59) - 1]


def test_ranks_are_put_into_words() -> None:
    assert score_in_words((Measure.dominant_share,), (WHOLE // 8,)) == (
        "asks for up to 12.5 % of the cluster's GPUs, CPUs or memory"
    )
    hour_ns = 3_600_000_000_000
    assert score_in_words((Measure.cluster_ns,), (2 * hour_ns,), past=True) == (
        "needed 2h 00m more of the cluster's GPUs, CPUs and memory, added up"
    )
    unknown = score_in_words((Measure.cluster_ns,), (UNKNOWN_US,))
    assert unknown == "is ranked last, because nobody knows how long it runs"
