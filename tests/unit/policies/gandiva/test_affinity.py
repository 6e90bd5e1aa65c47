"""Reactive placement: the five rules in their order, on clusters made by hand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from shunter.core import NO_GUARDS, View
from shunter.core.fold import replay
from shunter.core.planning import Draft
from shunter.events import (
    CPU_UNITS,
    HEIGHT_MOST,
    Allocation,
    AllocationChanged,
    Event,
    JobSpec,
    JobSubmitted,
    Level,
    LevelGroups,
    Reason,
    Share,
    Sharing,
)
from shunter.policies.gandiva import FoundPlace, Placer
from tests.behaviour.live_core import gpus_of
from tests.behaviour.waits_scenes import blocks
from tests.factories import BECAUSE, job_id, job_spec, job_submitted, node_name, servers


@contextmanager
def placing(
    *events: Event, height_most: int | None = None, moves: int = 0, **options: Any
) -> Iterator[tuple[View, Placer]]:
    """Give a view of a cluster after some events, and who places jobs in it."""
    state = replay(events)
    for job in state.jobs.values():
        job.moves = moves
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False, **options)
    view.open()
    with Draft(view) as draft:
        yield view, Placer(view, draft, {}, height_most)


def placed(gpus: str, gangs: str, height_most: int | None = None) -> list[str]:
    """Return where jobs of these gang sizes go, one after another, on an empty cluster."""
    submitted = [job_submitted(number, int(gang)) for number, gang in enumerate(gangs.split())]
    there = servers(*map(int, gpus.split()))
    with placing(*there, *submitted, height_most=height_most) as (view, placer):
        return [told(placer.place(job)) for job in view.jobs.values()]


def told(found: FoundPlace | Reason) -> str:
    """Return the place, the rule that found it, and the height of its server if it is in turns."""
    if isinstance(found, Reason):
        return "none"
    is_sliced = found.allocation.sharing is Sharing.sliced
    height = f" at {found.height:g}" if is_sliced else " alone"
    return f"{gpus_of(found.allocation)} by {found.rule}{height}"


TABLE = [
    *blocks("""
equal gangs meet, and others get servers of their own
    4 4 4; 1 2 1 2
    => n0[0] by 2 at 0.25, n1[0,1] by 2 at 0.5, n0[1] by 1 at 0.5, n1[2,3] by 1 at 1
the least loaded server of the own affinity comes first, and a new one where nothing is free
    2 8 4; 1 1 1 2 1 1
    => n0[0] by 2 at 0.5, n0[1] by 1 at 1, n1[0] by 2 at 0.125, n2[0,1] by 2 at 0.5,
       n1[1] by 1 at 0.25, n1[2] by 1 at 0.375
any free GPUs come before turns, and a gang over servers takes none
    2 2; 1 1 1 2
    => n0[0] by 2 at 0.5, n0[1] by 1 at 1, n1[0] by 2 at 0.5, none
a gang that finds its size free takes it
    2 2; 1 2 1
    => n0[0] by 2 at 0.5, n1[0,1] by 2 at 1, n0[1] by 1 at 1
GPUs of several servers are given alone, not in turns
    4 4; 3 3 2
    => n0[0,1,2] by 2 at 0.75, n1[0,1,2] by 2 at 0.75, n0[3]+n1[3] by 3 alone
turns are taken where GPUs have the fewest owners and the load is least
    2 2; 1 1 1 1 1 1 1
    => n0[0] by 2 at 0.5, n0[1] by 1 at 1, n1[0] by 2 at 0.5, n1[1] by 1 at 1, n0[0] by 4 at 1.5,
       n1[0] by 4 at 1.5, n0[1] by 4 at 2
a job waits where no server of its size is
    2; 1 1 2
    => n0[0] by 2 at 0.5, n0[1] by 1 at 1, none
or all are as high as they may be
    2; 1 1 1 1 1; 2
    => n0[0] by 2 at 0.5, n0[1] by 1 at 1, n0[0] by 4 at 1.5, n0[1] by 4 at 2, none
GPUs given to a gang alone are not shared: one more of n1 is free and labelled 3
    2 2; 3 1 1
    => n0[0,1]+n1[0] by 3 at 1, n1[1] by 3 at 1, none
gangs wider than every server take turns over several
    4 4 2; 8 8 8 1; 2
    => n0[0,1,2,3]+n1[0,1,2,3] by 3 at 1, n0[0,1,2,3]+n1[0,1,2,3] by 4 at 2, none,
       n2[0] by 2 at 0.5
as many as there are
    4 4 2; 8 8 8 8
    => n0[0,1,2,3]+n1[0,1,2,3] by 3 at 1, n0[0,1,2,3]+n1[0,1,2,3] by 4 at 2,
       n0[0,1,2,3]+n1[0,1,2,3] by 4 at 3, n0[0,1,2,3]+n1[0,1,2,3] by 4 at 4
one that fits on one server stays there
    4 4; 4 2 4 1
    => n0[0,1,2,3] by 2 at 1, n1[0,1] by 2 at 0.5, n0[0,1,2,3] by 4 at 2, n1[2] by 3 at 0.75
""")
]


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case[0])
def test_jobs_go_where_the_row_says(case: tuple[str, str, list[str]]) -> None:
    _, scene, (expected,) = case
    gpus, gangs, *most = scene.split("; ")
    assert ", ".join(placed(gpus, gangs, int(most[0]) if most else None)) == expected


def rehomed(jobs: int, **options: Any) -> list[tuple[str, int]]:
    """Return who gets which GPUs of a server of two, on the first of which all take turns."""
    events: list[Event] = [*servers(2), *(job_submitted(number) for number in range(jobs))]
    target = Allocation((Share(node_name(0), 1),), Sharing.sliced)
    events += [AllocationChanged(0, job_id(n), target, BECAUSE) for n in range(jobs)]
    with placing(*events, **options) as (view, placer):
        moved = placer.rehomed(view.jobs.values())
        return [(job.job_id, where.shares[0].gpu_mask) for job, where in moved]


def test_job_that_takes_turns_gets_gpus_that_become_free() -> None:
    assert rehomed(3) == [("j2", 2)]


@pytest.mark.parametrize("can_move", [False, True])
def test_free_gpus_go_to_who_can_work_on_them(can_move: bool) -> None:
    """In a simulation to all, live to those that have said that they can."""
    assert rehomed(2, homes_are_fixed=False, moves=int(can_move)) == [("j1", 2)]
    fixed = rehomed(2, homes_are_fixed=True, moves=int(can_move))
    assert fixed == ([("j1", 2)] if can_move else [])


def placed_one(gpus: Sequence[int], spec: JobSpec, **fields: Any) -> FoundPlace | Reason:
    """Return where a job goes on an empty cluster."""
    with placing(*servers(*gpus, **fields), JobSubmitted(0, job_id(0), spec)) as (view, placer):
        return placer.place(view.jobs[job_id(0)])


WIRED = {"levels": (LevelGroups(Level.switch, (0b0110, 0b1001)),)}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (job_spec(2), "n0[1,2]"),
        (job_spec(2, max_level=Level.switch), "n0[1,2]"),
        (job_spec(3, max_level=Level.switch), Reason.locality_not_met),
        (job_spec(3), "n0[0,1,2]"),
        (job_spec(5, max_level=Level.server), Reason.locality_not_met),
        (job_spec(5, shapes=((4, 1),)), "n0[0,1,2,3]+n1[1]"),
        (job_spec(5, shapes=((3, 2),)), "n0[0,1,2]+n1[1,2]"),
        (job_spec(2, shapes=((1, 1),)), "n0[1]+n1[1]"),
        (job_spec(3, shapes=((1, 1, 1),)), Reason.no_capacity),
        (job_spec(1, cpus_milli=9_000), Reason.cpu_or_memory_short),
        (job_spec(9), Reason.no_capacity),
    ],
    ids=str,
)
def test_job_gets_gpus_as_near_and_split_as_it_accepts(spec: JobSpec, found: str | Reason) -> None:
    choice = placed_one((4, 4), spec, cpus_milli=8_000, **WIRED)
    assert (gpus_of(choice.allocation) if isinstance(choice, FoundPlace) else choice) == found


def test_units_of_cpu_are_given_to_nobody() -> None:
    here = {"cpus_milli": 8_000}
    assert isinstance(placed_one((4,), job_spec(1), **here), FoundPlace)
    assert placed_one((4,), job_spec(1), device=CPU_UNITS, **here) == Reason.no_capacity


@pytest.mark.parametrize(
    ("gangs", "height_most", "detail"),
    [((1, 1, 1), 1, HEIGHT_MOST), ((1, 2), 1, ""), ((1, 4), None, "")],
)
def test_a_wait_for_the_height_of_servers_is_told_apart(
    gangs: Sequence[int], height_most: int | None, detail: str
) -> None:
    submitted = [job_submitted(number, gang) for number, gang in enumerate(gangs)]
    with placing(*servers(2), *submitted, height_most=height_most) as (view, placer):
        assert [placer.place(job) for job in view.jobs.values()][-1] is Reason.no_capacity
        assert placer.detail == detail
