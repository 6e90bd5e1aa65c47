"""Whoever must leave for a job that ranks first gets other GPUs by the same plan, if some are left.

Two plans would do as much: one that suspends it, and one at the same instant that starts it again.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from shunter.backends.simulated import Costs
from shunter.core import Guards
from shunter.core.planning import PLACEMENTS
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    GpusReleased,
    JobId,
    JobSuspended,
    Level,
    RoundPlanned,
    Trigger,
    is_preemption,
)
from tests.commanded import Commanded
from tests.factories import Outcome, World, node_added, policy, run, servers, trace_job
from tests.property.test_engine_equals_stepping import PAIRS
from tests.property.worlds import Scene, scenes

TRIED = 300 if os.environ.get("SHUNTER_THOROUGH") else 8
PREEMPTIVE = [name for name in PAIRS if not name.startswith(("fifo", "sjf"))]
_OF_CHANGES = (JobSuspended, GpusReleased, AttemptStarted)

TWO_SERVERS = World(
    servers=servers(4, 4),
    jobs=(
        trace_job(0, gpus=2, lasts=100, max_level=Level.server),
        trace_job(1, gpus=2, lasts=90, max_level=Level.server),
        trace_job(2, gpus=4, at=10, lasts=20, max_level=Level.server),
    ),
)
"""The two that run are spread, one on each server; the gang needs a whole one."""


def played(world: World, name: str = "srtf", placement: str = "spread") -> Outcome:
    return run(world, policy(name, placement))


def put_back(events: Sequence[Event]) -> Iterator[AllocationChanged]:
    """Yield what jobs lost by one plan that got GPUs by the next, though nothing else happened.

    Where that one evicts others, ranks have changed in between: it had to be another plan.
    """
    before: dict[JobId, AllocationChanged] = {}
    lost: dict[JobId, AllocationChanged] = {}
    back: list[AllocationChanged] = []
    evicts = False
    for event in [*events, RoundPlanned(0, 0, 0, 0, Trigger.event)]:
        if isinstance(event, RoundPlanned):
            yield from [] if evicts else back
            before, lost, back, evicts = lost, {}, [], False
        elif isinstance(event, AllocationChanged):
            if is_preemption(event):
                lost[event.job_id], evicts = event, True
            elif (loss := before.get(event.job_id)) is not None and event.at_us <= loss.at_us + 1:
                back.append(loss)
        elif not isinstance(event, _OF_CHANGES):
            before, lost = {}, {}


def test_an_evicted_job_is_moved_by_the_plan_that_evicts_it() -> None:
    outcome = played(TWO_SERVERS)

    changes = [event for event in outcome.of(AllocationChanged) if event.at_us == 10]
    assert [(str(event.job_id), event.allocation.gpus) for event in changes] == [
        ("j0", 2),
        ("j2", 4),
    ]
    assert changes[0].because.beneficiaries == ("j2",)
    rounds = [event for event in outcome.of(RoundPlanned) if event.at_us == 10]
    assert len(rounds) == 1
    assert outcome.ends_us() == {"j0": 100, "j1": 90, "j2": 30}


def test_it_counts_as_one_migration_and_as_no_preemption() -> None:
    moved = played(replace(TWO_SERVERS, until_us=50)).state.jobs[JobId("j0")]

    assert (moved.migrations, moved.preemptions) == (1, 0)


def test_it_costs_a_suspension_and_a_migration() -> None:
    costs = Costs(start_us=1, suspend_us=3, resume_us=7, migrate_us=5)

    outcome = played(replace(TWO_SERVERS, costs=costs))

    ended = outcome.ends_us()
    assert ended["j0"] == 100 + 1 + 3 + 5


def test_a_job_that_is_not_migratable_is_suspended_first() -> None:
    jobs = tuple(replace(job, spec=replace(job.spec, migratable=False)) for job in TWO_SERVERS.jobs)

    outcome = played(replace(TWO_SERVERS, jobs=jobs))

    assert [str(event.job_id) for event in put_back(outcome.events)] == ["j0"]


def test_a_job_of_another_pool_that_has_room_is_moved_there() -> None:
    two_types = World(
        servers=(node_added(0, 2, gpu_type="v100"), node_added(1, 2, gpu_type="k80")),
        jobs=(
            trace_job(0, gpus=2, lasts=100, gpu_types=("v100", "k80")),
            trace_job(1, gpus=2, at=10, lasts=20, gpu_types=("v100",)),
        ),
    )

    outcome = played(two_types)

    changes = [event for event in outcome.of(AllocationChanged) if event.at_us == 10]
    assert [(str(event.job_id), event.allocation.gpus) for event in changes] == [
        ("j0", 2),
        ("j1", 2),
    ]


@pytest.mark.parametrize(("min_runtime_us", "ran_us"), [(0, 1), (7, 7)])
def test_starved_job_keeps_what_it_took_for_as_long_as_the_guard_of_run_times_says(
    min_runtime_us: int, ran_us: int
) -> None:
    """It goes to the head of the line, and ranks as the policy says once it runs."""
    guards = Guards(min_runtime_us=min_runtime_us, starvation_us=15)
    jobs = (trace_job(0, gpus=4, lasts=100), trace_job(1, gpus=4, at=1, lasts=200))

    outcome = played(World(servers=servers(4), jobs=jobs, guards=guards, until_us=30))

    lost = {
        event.job_id: event.at_us for event in outcome.of(AllocationChanged) if is_preemption(event)
    }
    assert lost == {"j0": 16, "j1": 16 + ran_us}


def test_by_the_rules_of_an_earlier_log_two_plans_do_it() -> None:
    outcome = played(replace(TWO_SERVERS, moves_evicted=False))

    assert [str(event.job_id) for event in put_back(outcome.events)] == ["j0"]


@pytest.mark.parametrize("name", PREEMPTIVE)
@settings(max_examples=TRIED)
@given(scene=scenes())
def test_no_job_is_preempted_by_one_plan_and_started_by_the_next(name: str, scene: Scene) -> None:
    """Starved jobs aside: what they take is taken back by the next plan, without `min_runtime`."""
    world = replace(scene.world, guards=replace(scene.world.guards, starvation_us=None))
    jobs = [replace(job, spec=replace(job.spec, migratable=True)) for job in world.jobs]
    world = replace(world, jobs=tuple(jobs))
    fast, _ = PAIRS[name]

    chosen = fast(PLACEMENTS[scene.placement]())
    outcome = run(world, chosen, wrapped=lambda backend: Commanded(backend, scene.commands))

    assert list(put_back(outcome.events)) == []
