"""The engine skips what cannot change; a literal greedy asked at every round decides the same."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from shunter.core import Policy
from shunter.core.planning import PLACEMENTS, Placement
from shunter.core.ranking import Aged, Index, RankedPolicy
from shunter.events import (
    AllocationChanged,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    PlanRejected,
    RoundPlanned,
)
from shunter.policies import Steps, expected_rest, fairness, gittins_index, las, shortest, tiresias
from tests.commanded import Commanded
from tests.doubted import doubted
from tests.factories import Outcome, World, policy, run, servers, trace_job
from tests.property.worlds import HORIZON_US, Scene, scenes
from tests.slices import searched
from tests.stepping.feedback import Feedback
from tests.stepping.policy import Stepping
from tests.stepping.ranks import (
    by_chance,
    by_dominant_share,
    by_duration,
    by_expected_rest,
    by_remaining_service,
    by_remaining_time,
    by_remaining_volume,
    by_service,
    by_size,
    by_submission,
    by_unfairness,
)
from tests.stepping.rising import Rising

BOUNDS_GPU_US = (20, 60)
HISTORY_GPU_US = (3, 9, 9, 20, 21, 40, 70, 100, 160)

Build = Callable[[Placement], Policy[Any]]
Indexed = Callable[[Placement], RankedPolicy]


def engine(name: str) -> Indexed:
    return lambda placement: policy(name, placement.name)


def las_engine(bounds_gpu_us: tuple[int, ...]) -> Indexed:
    return lambda placement: RankedPolicy(las.AttainedService(bounds_gpu_us), placement)


def literal(*args: Any, **kwargs: Any) -> Build:
    name, rank = args
    return lambda placement: Stepping(name, rank, placement, **kwargs)


def ranked(index: Index) -> Indexed:
    return lambda placement: RankedPolicy(index, placement)


def curve(steps: Steps, bounds: tuple[int, ...], *, highest: bool = True) -> Indexed:
    return ranked(tiresias.ServiceSteps("curve", steps, highest, bounds))


def queues(knob: float, *, counts_gpus: bool = True) -> tuple[Indexed, Build]:
    rules = tiresias.FeedbackQueues(BOUNDS_GPU_US, knob, counts_gpus)
    return ranked(rules), lambda placement: Feedback(placement, BOUNDS_GPU_US, knob, counts_gpus)


PAIRS: dict[str, tuple[Indexed, Build]] = {
    "fifo": (engine("fifo"), literal("fifo", by_submission, misfit="stop")),
    "fifo_backfill": (engine("fifo_backfill"), literal("fifo_backfill", by_submission)),
    "fifo_easy": (engine("fifo_easy"), literal("fifo_easy", by_submission, misfit="easy")),
    "sjf": (engine("sjf"), literal("sjf", by_duration, oracle=True)),
    "srtf": (
        engine("srtf"),
        literal("srtf", by_remaining_time, oracle=True, preemptive=True),
    ),
    "las": (
        las_engine(BOUNDS_GPU_US),
        literal("las", by_service(BOUNDS_GPU_US), preemptive=True),
    ),
    "smallest": (ranked(shortest.GangSize()), literal("smallest", by_size, preemptive=True)),
    "shortest_gpu": (
        ranked(shortest.RemainingService()),
        literal("shortest_gpu", by_remaining_service, oracle=True, preemptive=True),
    ),
    "drf": (
        ranked(fairness.DominantShare()),
        literal("drf", by_dominant_share, preemptive=True),
    ),
    "tetris": (
        ranked(shortest.RemainingVolume()),
        literal("tetris", by_remaining_volume, oracle=True, preemptive=True),
    ),
    "ftf": (
        ranked(fairness.FinishTimeFairness()),
        literal("ftf", by_unfairness, oracle=True, preemptive=True),
    ),
    "tiresias": queues(knob=0.0),
    "tiresias-promotes": queues(knob=1.5),
    "tiresias-by-time": queues(knob=1.0, counts_gpus=False),
    "gittins": (
        curve(gittins_index(HISTORY_GPU_US), BOUNDS_GPU_US),
        literal("gittins", by_chance(HISTORY_GPU_US, BOUNDS_GPU_US, None), preemptive=True),
    ),
    "gittins-quantum": (
        curve(gittins_index(HISTORY_GPU_US, 15), ()),
        literal("gittins", by_chance(HISTORY_GPU_US, (), 15), preemptive=True),
    ),
    "shortest_expected": (
        curve(expected_rest(HISTORY_GPU_US), (), highest=False),
        literal("shortest_expected", by_expected_rest(HISTORY_GPU_US), preemptive=True),
    ),
    "las-aged": (
        ranked(Aged(las.AttainedService(BOUNDS_GPU_US), 9, 3)),
        lambda placement: Rising("las", by_service(BOUNDS_GPU_US), placement, 9, 3),
    ),
    "srtf-aged": (
        ranked(Aged(shortest.RemainingTime(), 11, 2)),
        lambda placement: Rising("srtf", by_remaining_time, placement, 11, 2, oracle=True),
    ),
    "drf-aged": (
        ranked(Aged(fairness.DominantShare(), 9, 3)),
        lambda placement: Rising("drf", by_dominant_share, placement, 9, 3),
    ),
    "las-continuous": (las_engine(()), literal("las", by_service(()), preemptive=True)),
}


def played(scene: Scene, build: Build) -> Outcome:
    """Run a scene with its people to the horizon."""
    chosen = build(PLACEMENTS[scene.placement]())
    return run(scene.world, chosen, wrapped=lambda backend: Commanded(backend, scene.commands))


def story(outcome: Outcome) -> list[Any]:
    """Return who was given what and who ended when and how, in order."""
    kinds = (AllocationChanged, JobFinished, JobFailed, JobCancelled, JobRejected)
    return [
        (event.at_us, event.job_id, getattr(event, "allocation", type(event).__name__))
        for event in outcome.of(*kinds)
    ]


@pytest.mark.parametrize("name", PAIRS)
@searched(50)
@given(scene=scenes())
def test_engine_decides_what_the_literal_greedy_decides(name: str, scene: Scene) -> None:
    fast, slow = PAIRS[name]
    assert story(played(scene, fast)) == story(played(scene, slow))


@pytest.mark.parametrize("name", PAIRS)
@searched(30)
@given(scene=scenes())
def test_engine_plans_nothing_that_is_refused(name: str, scene: Scene) -> None:
    fast, _ = PAIRS[name]
    believed = played(scene, fast)
    checked = played(scene, lambda placement: doubted(fast(placement)))
    assert checked.of(PlanRejected) == []
    assert checked.events == believed.events


@pytest.mark.parametrize("round_us", [1, 8])
def test_literal_greedy_is_asked_at_every_round(round_us: int) -> None:
    world = World(
        servers=servers(2),
        jobs=(trace_job(0, lasts=20),),
        round_us=round_us,
        until_us=HORIZON_US,
    )
    _, slow = PAIRS["las"]
    asked = run(world, slow(PLACEMENTS["consolidated"]())).of(RoundPlanned)
    assert [plan.at_us for plan in asked] == list(range(0, HORIZON_US + 1, round_us))


def test_engine_is_not_asked_while_nothing_can_change() -> None:
    world = World(
        servers=servers(2),
        jobs=(trace_job(0, lasts=200), trace_job(1, 2, at=10, lasts=5)),
        round_us=1,
        until_us=HORIZON_US,
    )
    fast, _ = PAIRS["fifo"]
    asked = run(world, fast(PLACEMENTS["consolidated"]())).of(RoundPlanned)
    assert [plan.at_us for plan in asked] == [0, 10, 200]
