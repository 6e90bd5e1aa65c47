"""Placement skew: which gangs are kept together, on which servers, and what a sample changes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import State
from shunter.core.planning import SKEW_THRESHOLD, Skew, fewest_servers, place
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.events import AllocationChanged, Demand, Level, ProfileSampled, Reason, RoundPlanned
from shunter.policies import SubmissionOrder, builtin_skews
from tests.factories import Outcome, World, job_id, job_spec, run, servers, trace_job
from tests.sampled import Sampled, Seen
from tests.unit.core.placement.test_placement import pool, pools

TABLE = {"vgg16": 0.744, "resnet50": 0.112}
SKEW = Skew(TABLE)


def counts(made: Any, demand: Demand) -> dict[str, int] | Reason:
    """Place a demand and return how many GPUs it has on each server, or why not."""
    shares = place(SKEW, made, demand)
    if isinstance(shares, Reason):
        return shares
    return {str(share.node): share.gpu_mask.bit_count() for share in shares}


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ((4, 2, 3), 2, {"n1": 2}),  # the server that is left fullest
        ((4, 2, 3), 4, {"n0": 4}),
        ((3, 2, 3), 4, Reason.locality_not_met),  # one server could hold it: it waits for one
        ((4, 2, 4), 6, {"n0": 4, "n1": 2}),
        ((3, 3, 3), 6, {"n0": 3, "n1": 3}),  # wider than a server: as few as there must be
        ((3, 2, 2), 6, Reason.locality_not_met),
        ((4, 3, 3), 9, {"n0": 4, "n1": 3, "n2": 2}),
        ((2, 2, 1), 6, Reason.no_capacity),
    ],
)
def test_a_tight_gang_gets_the_fewest_servers_or_none(
    free: tuple[int, ...], gpus: int, expected: dict[str, int] | Reason
) -> None:
    assert counts(pool(*free), Demand(gpus, tight=True)) == expected


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ((4, 1, 2), 3, {"n1": 1, "n2": 2}),  # fragments first, also where one server had room
        ((4, 1, 2), 4, {"n1": 1, "n2": 2, "n0": 1}),
        ((4, 4, 3), 2, {"n2": 2}),
        ((4, 3, 2), 1, {"n2": 1}),
        ((2, 2), 5, Reason.no_capacity),
    ],
)
def test_any_other_gang_takes_fragments_first(
    free: tuple[int, ...], gpus: int, expected: dict[str, int] | Reason
) -> None:
    assert counts(pool(*free), Demand(gpus)) == expected


def test_a_gang_does_not_wait_for_servers_that_are_down() -> None:
    made = pool(2, 2, 4)
    made.up[2] = 2  # two of its GPUs are quarantined
    made.set_free(2, 0b11)
    made.up[0] = made.up[1] = 2
    assert fewest_servers(made, Demand(4)) == 2
    assert counts(made, Demand(4, tight=True)) == {"n0": 2, "n1": 2}


def test_the_fewest_servers_have_the_cpus_as_well() -> None:
    made = pool(4, 4, cpus_milli=2000)
    demand = Demand(4, cpus_milli=4000, tight=True)
    assert fewest_servers(made, demand) == 2
    assert counts(made, demand) == {"n0": 2, "n1": 2}


def test_the_fewest_servers_are_those_of_one_rack_where_that_is_asked_for() -> None:
    demand = Demand(8, max_level=Level.rack, tight=True)
    assert fewest_servers(pool(4, 4, 4, 4, racks="abba"), demand) == 2
    assert counts(pool(4, 3, 4, 3, racks="abba"), demand) is Reason.locality_not_met


@given(made=pools(), gpus=st.integers(2, 24))
def test_a_tight_gang_is_placed_exactly_where_it_needs_no_more_servers_than_ever(
    made: Any, gpus: int
) -> None:
    """Against all servers, largest first, and the fullest that are free now."""
    sizes = sorted((server.configuration.gpus for server in made.servers), reverse=True)
    free = sorted((mask.bit_count() for mask in made.free), reverse=True)
    fewest = next((n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) >= gpus), None)
    found = counts(made, Demand(gpus, tight=True))
    if fewest is not None and sum(free[:fewest]) >= gpus:
        assert isinstance(found, dict)
        assert len(found) == fewest
        assert sum(found.values()) == gpus
    else:
        assert isinstance(found, Reason)


@pytest.mark.parametrize(
    ("spec", "measured", "expected"),
    [
        (job_spec(2, model="vgg16"), None, True),
        (job_spec(2, model="resnet50"), None, False),
        (job_spec(2, model="new"), None, False),
        (job_spec(1, model="vgg16"), None, False),
        (job_spec(2, model="vgg16", shapes=((1, 1),)), None, False),
        (job_spec(2, model="vgg16"), (1, 10), False),  # measured beats the table
        (job_spec(2, model="resnet50"), (9, 10), True),
        (job_spec(2, model="new"), (9, 10), True),
        (job_spec(2, model="vgg16", skew=0.1), (9, 10), False),  # the job beats both
        (job_spec(2, model="resnet50", skew=0.9), (1, 10), True),
        (job_spec(2, skew=SKEW_THRESHOLD), None, False),  # above, not at
    ],
)
def test_job_beats_measured_beats_table(
    spec: Any, measured: tuple[int, int] | None, expected: bool
) -> None:
    messages = {} if measured is None else {spec.model: measured}
    assert SKEW.is_tight(spec, messages) is expected


def test_unknown_models_may_be_distrusted() -> None:
    assert replace(SKEW, distrusts=True).is_tight(job_spec(2, model="new"), {})
    assert not replace(SKEW, distrusts=True).is_tight(job_spec(2, model="resnet50"), {})


def test_the_threshold_lies_in_the_middle_of_the_tables_gap() -> None:
    skews = sorted(model.skew for model in builtin_skews().values())
    below = max(skew for skew in skews if skew < SKEW_THRESHOLD)
    above = min(skew for skew in skews if skew > SKEW_THRESHOLD)
    assert (below, above) == (0.138, 0.611)
    assert pytest.approx((below + above) / 2, abs=0.001) == SKEW_THRESHOLD


# Each server has one GPU free: j2 may have them at once if it may spread, and waits otherwise.
FRAGMENTS = World(
    servers=servers(4, 4),
    jobs=(
        trace_job(0, 3, lasts=100, shapes=((3,),), model="new"),
        trace_job(1, 3, lasts=200, shapes=((3,),)),
        trace_job(2, 2, at=10, lasts=50, model="new"),
    ),
)


def played(world: World, placement: Skew, *seen: Seen, name: str = "fifo_backfill") -> Outcome:
    chosen = RankedPolicy(SubmissionOrder(name, Misfit.skipped), placement)
    return run(world, chosen, wrapped=lambda backend: Sampled(backend, seen))


def placed(outcome: Outcome, job: int) -> tuple[int, int]:
    """Return when a job was placed, and on how many servers."""
    [event] = [
        event
        for event in outcome.of(AllocationChanged)
        if event.job_id == job_id(job) and event.allocation.shares
    ]
    return event.at_us, len(event.allocation.shares)


def test_a_sample_that_shows_skew_keeps_later_gangs_together() -> None:
    assert placed(played(FRAGMENTS, SKEW), 2) == (10, 2)
    assert placed(played(FRAGMENTS, SKEW, Seen(5, 9, 10)), 2) == (100, 1)


def test_a_sample_that_shows_no_skew_lets_a_waiting_gang_go_at_once() -> None:
    distrustful = replace(SKEW, distrusts=True)
    assert placed(played(FRAGMENTS, distrustful), 2) == (100, 1)
    assert placed(played(FRAGMENTS, distrustful, Seen(40, 1, 10)), 2) == (40, 2)


def test_a_waiting_gang_has_its_own_class_and_reason() -> None:
    outcome = played(FRAGMENTS, replace(SKEW, distrusts=True), Seen(40, 1, 10))
    told = [
        (e.at_us, w.demand.tight, w.wait and w.wait.reason)
        for e in outcome.of(RoundPlanned)
        for w in e.waits
    ]
    assert told == [(10, True, Reason.locality_not_met), (40, True, None)]
    assert [event.at_us for event in outcome.of(ProfileSampled)] == [40, 40]


def test_samples_of_parts_of_a_batch_do_not_change_what_a_whole_one_showed() -> None:
    world, parts = FRAGMENTS, (Seen(5, 30, 100), Seen(6, 30, 40), Seen(7, 2, 2))
    assert played(world, SKEW, *parts).state.messages == {"new": (30, 100)}


def test_the_state_remembers_nothing_of_samples_without_messages() -> None:
    assert (
        played(FRAGMENTS, SKEW, Seen(5, 0, 0), Seen(6, 11, 10)).state.messages == State().messages
    )
