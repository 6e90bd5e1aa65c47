"""Placement skew in whole runs: who is kept together, who never waits, and what samples change."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import Observers, Policy, View
from shunter.core.planning import Skew, fewest_servers
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.events import (
    AllocationChanged,
    Demand,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    RoundPlanned,
)
from shunter.policies import fifo, las
from tests.commanded import Commanded
from tests.factories import Outcome, run
from tests.property.worlds import Scene, scenes
from tests.sampled import Sampled, Seen
from tests.slices import searched
from tests.stepping.policy import Stepping
from tests.stepping.ranks import by_service, by_submission

BOUNDS_GPU_US = (20, 60)
SKEWS = {"vgg16": 0.744, "resnet50": 0.112}
MODELS = ["", "vgg16", "resnet50", "new"]
PLACEMENTS = st.sampled_from([Skew(SKEWS), Skew(SKEWS, distrusts=True), Skew(threshold=0.05)])

PAIRS: dict[str, tuple[Any, Any]] = {
    "fifo": (
        lambda placement: RankedPolicy(fifo.SubmissionOrder("fifo", Misfit.stops), placement),
        lambda placement: Stepping("fifo", by_submission, placement, misfit="stop"),
    ),
    "fifo_backfill": (
        lambda placement: RankedPolicy(
            fifo.SubmissionOrder("fifo_backfill", Misfit.skipped), placement
        ),
        lambda placement: Stepping("fifo_backfill", by_submission, placement),
    ),
    "las": (
        lambda placement: RankedPolicy(las.AttainedService(BOUNDS_GPU_US), placement),
        lambda placement: Stepping("las", by_service(BOUNDS_GPU_US), placement, preemptive=True),
    ),
}


@dataclass(frozen=True)
class Measured:
    """A scene whose jobs have models, a placement that looks at them, and what samples see."""

    scene: Scene
    placement: Skew
    seen: tuple[Seen, ...]

    def played(self, chosen: Policy[Any], listener: Observers | None = None) -> Outcome:
        scene = self.scene
        return run(
            scene.world,
            chosen,
            wrapped=lambda backend: Sampled(Commanded(backend, scene.commands), self.seen),
            listeners=[listener or {}],
        )


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    scene = draw(scenes())
    jobs = tuple(
        replace(
            job,
            spec=replace(
                job.spec,
                model=draw(st.sampled_from(MODELS)),
                skew=draw(st.sampled_from([None, None, None, 0.2, 0.9])),
            ),
        )
        for job in scene.world.jobs
    )
    seen = st.builds(Seen, st.integers(1, 100), st.integers(1, 10), st.sampled_from([10, 20]))
    return Measured(
        replace(scene, world=replace(scene.world, jobs=jobs)),
        draw(PLACEMENTS),
        tuple(draw(st.lists(seen, max_size=4))),
    )


def story(outcome: Outcome) -> list[Any]:
    """Return who was given what and who ended when and how, in order."""
    kinds = (AllocationChanged, JobFinished, JobFailed, JobCancelled, JobRejected)
    return [
        (event.at_us, event.job_id, getattr(event, "allocation", type(event).__name__))
        for event in outcome.of(*kinds)
    ]


@pytest.mark.parametrize("name", PAIRS)
@searched(50)
@given(case=measured())
def test_engine_decides_what_the_literal_greedy_decides(name: str, case: Measured) -> None:
    fast, slow = PAIRS[name]
    assert story(case.played(fast(case.placement))) == story(case.played(slow(case.placement)))


def checked(placement: Skew, told: list[int]) -> Observers:
    """Return a listener that checks every gang where it is placed, and counts those in `told`."""

    def allocated(event: AllocationChanged, view: View) -> None:
        shares = event.allocation.shares
        if not shares:
            return
        job = view.jobs[event.job_id]
        assert event.allocation.gpus == job.spec.gpus, "a gang is not whole"
        if placement.is_tight(job.spec, view.messages):
            where = view.cluster.servers[shares[0].node].configuration
            fewest = fewest_servers(view.pools[where.gpu_type], job.demand)
            assert len(shares) == fewest, f"{event.job_id} is on {len(shares)} servers"
            told.append(len(shares))

    return {AllocationChanged: allocated}


@pytest.mark.parametrize("name", PAIRS)
@searched(50)
@given(case=measured())
def test_gangs_of_skewed_models_are_on_the_fewest_servers_and_all_gangs_whole(
    name: str, case: Measured
) -> None:
    case.played(PAIRS[name][0](case.placement), checked(case.placement, []))


@searched(50)
@given(case=measured())
def test_a_gang_that_may_spread_never_waits_while_enough_gpus_are_free(case: Measured) -> None:
    world = replace(case.scene.world, all_reasons=True)
    case = replace(case, scene=replace(case.scene, world=world))
    outcome = case.played(PAIRS["fifo_backfill"][0](case.placement))
    waits = [entry for event in outcome.of(RoundPlanned) for entry in event.waits if entry.wait]
    for demand, wait in ((entry.demand, entry.wait) for entry in waits):
        if demand == Demand(demand.gpus, gpu_types=demand.gpu_types):
            assert wait.free < wait.needed, f"{demand} waits for {wait}"
