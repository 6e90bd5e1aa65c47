"""Reactive placement: the five rules in their order, on clusters made by hand."""

from typing import Any

import pytest

from shunter.core import NO_GUARDS, State, View
from shunter.core.fold import apply
from shunter.core.planning import Draft
from shunter.events import (
    CPU_UNITS,
    HEIGHT_MOST,
    Allocation,
    AllocationChanged,
    Because,
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
from tests.factories import job_id, job_spec, job_submitted, node_name, servers


def placed(
    gpus: tuple[int, ...], gangs: tuple[int, ...], height_most: int | None = None
) -> list[FoundPlace | Reason]:
    """Return where jobs of these gang sizes go, one after another, on an empty cluster."""
    state = State()
    for event in servers(*gpus):
        apply(state, event)
    for number, gang in enumerate(gangs):
        apply(state, job_submitted(number, gang))
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    with Draft(view) as draft:
        placer = Placer(view, draft, {}, height_most)
        return [placer.place(job) for job in view.jobs.values()]


def where(choice: FoundPlace | Reason) -> list[tuple[str, int]]:
    assert isinstance(choice, FoundPlace)
    return [(str(share.node), share.gpu_mask) for share in choice.allocation.shares]


def rules(choices: list[FoundPlace | Reason]) -> list[int | None]:
    return [choice.rule if isinstance(choice, FoundPlace) else None for choice in choices]


def test_equal_gangs_meet_and_others_get_servers_of_their_own() -> None:
    choices = placed((4, 4, 4), (1, 2, 1, 2))
    assert rules(choices) == [2, 2, 1, 1]
    assert [where(choice)[0][0] for choice in choices] == ["n0", "n1", "n0", "n1"]
    assert all(
        isinstance(choice, FoundPlace) and choice.allocation.sharing is Sharing.sliced
        for choice in choices
    )


def test_least_loaded_server_of_the_own_affinity_comes_first() -> None:
    choices = placed((2, 8, 4), (1, 1, 1, 2, 1, 1))
    assert where(choices[0]) == [("n0", 1)]
    assert where(choices[1]) == [("n0", 2)]
    assert where(choices[2]) == [("n1", 1)]  # nothing is free on n0: a new affinity
    assert rules(choices)[3] == 2
    assert [where(choices[number])[0][0] for number in (4, 5)] == ["n1", "n1"]


def test_any_free_gpus_come_before_turns_and_a_gang_over_servers_takes_none() -> None:
    assert rules(placed((2, 2), (1, 1, 1, 2))) == [2, 1, 2, None]  # nobody else is of its size
    choices = placed((2, 2), (1, 2, 1))
    assert rules(choices) == [2, 2, 1]
    choices = placed((4, 4), (3, 3, 2))
    assert rules(choices) == [2, 2, 3]
    assert sorted(where(choices[2])) == [("n0", 8), ("n1", 8)]
    assert isinstance(choices[2], FoundPlace)
    assert choices[2].allocation.sharing is Sharing.exclusive


def test_turns_are_taken_where_gpus_have_the_fewest_owners_and_the_load_is_least() -> None:
    choices = placed((2, 2), (1, 1, 1, 1, 1, 1, 1))
    assert rules(choices)[4:] == [4, 4, 4]
    assert [where(choice) for choice in choices[4:]] == [[("n0", 1)], [("n1", 1)], [("n0", 2)]]
    heights = [choice.height for choice in choices if isinstance(choice, FoundPlace)]
    assert heights == [0.5, 1.0, 0.5, 1.0, 1.5, 1.5, 2.0]


def test_job_waits_where_no_server_of_its_size_is_or_all_are_as_high_as_they_may() -> None:
    assert rules(placed((2,), (1, 1, 2))) == [2, 1, None]
    assert rules(placed((2,), (1, 1, 1, 1, 1), height_most=2)) == [2, 1, 4, 4, None]


def test_gpus_given_to_a_gang_alone_are_not_shared() -> None:
    """A gang of three over two servers; one more GPU of n1 is free and labelled 3."""
    choices = placed((2, 2), (3, 1, 1))
    assert rules(choices) == [3, 3, None]


def test_job_that_takes_turns_gets_gpus_that_become_free() -> None:
    state = State()
    events: list[Event] = [*servers(2), *(job_submitted(number) for number in range(3))]
    for number, mask in enumerate((1, 1, 1)):
        target = Allocation((Share(node_name(0), mask),), Sharing.sliced)
        events.append(AllocationChanged(0, job_id(number), target, Because("test")))
    for event in events:
        apply(state, event)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    with Draft(view) as draft:
        placer = Placer(view, draft, {}, None)
        moved = list(placer.rehomed(view.jobs.values()))
    assert [(job.job_id, target.shares[0].gpu_mask) for job, target in moved] == [(job_id(2), 2)]


def placed_one(gpus: tuple[int, ...], spec: JobSpec, **fields: Any) -> FoundPlace | Reason:
    """Return where a job goes on an empty cluster."""
    state = State()
    events: list[Event] = [*servers(*gpus, **fields), JobSubmitted(0, job_id(0), spec)]
    for event in events:
        apply(state, event)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    with Draft(view) as draft:
        return Placer(view, draft, {}, None).place(view.jobs[job_id(0)])


WIRED = {"levels": (LevelGroups(Level.switch, (0b0110, 0b1001)),)}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (job_spec(2), [("n0", 0b0110)]),
        (job_spec(2, max_level=Level.switch), [("n0", 0b0110)]),
        (job_spec(3, max_level=Level.switch), Reason.locality_not_met),
        (job_spec(3), [("n0", 0b0111)]),
        (job_spec(5, max_level=Level.server), Reason.locality_not_met),
        (job_spec(5, shapes=((4, 1),)), [("n0", 0b1111), ("n1", 0b0010)]),
        (job_spec(5, shapes=((3, 2),)), [("n0", 0b0111), ("n1", 0b0110)]),
        (job_spec(2, shapes=((1, 1),)), [("n0", 0b0010), ("n1", 0b0010)]),
        (job_spec(3, shapes=((1, 1, 1),)), Reason.no_capacity),
        (job_spec(1, cpus_milli=9_000), Reason.cpu_or_memory_short),
        (job_spec(9), Reason.no_capacity),
    ],
    ids=str,
)
def test_job_gets_gpus_as_near_and_split_as_it_accepts(
    spec: JobSpec, found: list[tuple[str, int]] | Reason
) -> None:
    choice = placed_one((4, 4), spec, cpus_milli=8_000, **WIRED)
    assert (where(choice) if isinstance(choice, FoundPlace) else choice) == found


def test_units_of_cpu_are_given_to_nobody() -> None:
    here = {"cpus_milli": 8_000}
    assert isinstance(placed_one((4,), job_spec(1), **here), FoundPlace)
    assert placed_one((4,), job_spec(1), device=CPU_UNITS, **here) == Reason.no_capacity


def rehomed(*, homes_are_fixed: bool, can_move: bool) -> list[str]:
    """Return who gets the second GPU of a server on which two jobs share the first."""
    state = State()
    for event in servers(2):
        apply(state, event)
    for number in range(2):
        apply(state, job_submitted(number, 1))
        allocation = Allocation((Share(node_name(0), 1),), Sharing.sliced)
        apply(state, AllocationChanged(0, job_id(number), allocation, Because("test")))
        state.jobs[job_id(number)].moves = int(can_move)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False, homes_are_fixed=homes_are_fixed)
    view.open()
    with Draft(view) as draft:
        placer = Placer(view, draft, {}, None)
        return [job.job_id for job, _ in placer.rehomed(view.jobs.values())]


@pytest.mark.parametrize("can_move", [False, True])
def test_free_gpus_go_to_who_can_work_on_them(can_move: bool) -> None:
    """In a simulation to all, live to those that have said that they can."""
    assert rehomed(homes_are_fixed=False, can_move=can_move) == ["j1"]
    assert rehomed(homes_are_fixed=True, can_move=can_move) == (["j1"] if can_move else [])


@pytest.mark.parametrize(
    ("gpus", "gangs", "height_most", "detail"),
    [((2,), (1, 1, 1), 1, HEIGHT_MOST), ((2,), (1, 2), 1, ""), ((2,), (1, 4), None, "")],
)
def test_a_wait_for_the_height_of_servers_is_told_apart(
    gpus: tuple[int, ...], gangs: tuple[int, ...], height_most: int | None, detail: str
) -> None:
    state = State()
    for event in servers(*gpus):
        apply(state, event)
    for number, gang in enumerate(gangs):
        apply(state, job_submitted(number, gang))
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    with Draft(view) as draft:
        placer = Placer(view, draft, {}, height_most)
        assert [placer.place(job) for job in view.jobs.values()][-1] is Reason.no_capacity
        assert placer.detail == detail


def test_gangs_wider_than_every_server_take_turns_over_several() -> None:
    choices = placed((4, 4, 2), (8, 8, 8, 1), height_most=2)
    assert rules(choices) == [3, 4, None, 2]
    assert all(where(choice) == [("n0", 15), ("n1", 15)] for choice in choices[:2])
    assert [isinstance(one, FoundPlace) and one.allocation.sharing for one in choices[:2]] == [
        Sharing.sliced,
        Sharing.sliced,
    ]
    assert rules(placed((4, 4, 2), (8, 8, 8, 8))) == [3, 4, 4, 4]
    assert rules(placed((4, 4), (4, 2, 4, 1)))[:3] == [2, 2, 4]  # it fits on one, and stays there
