"""Logs of runs under placement skew: decided again, asked why, and summed up."""

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given

from shunter.ask import Verdict, classes_at, fold_log, state_document, verify_log, wait_of
from shunter.ask.why import details, needs
from shunter.core import State
from shunter.core.fold import apply
from shunter.core.planning import Skew
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.events import AllocationChanged, Event, JobId, RoundPlanned, SchedulerStarted
from shunter.policies import SubmissionOrder
from tests.factories import World, run, servers, trace_job
from tests.property.test_skew_placement import PAIRS, Measured, measured
from tests.replay.recording import Recorded, asked, reading, rebuilt
from tests.sampled import Sampled, Seen
from tests.slices import searched

DISTRUSTFUL = Skew({"resnet50": 0.112}, distrusts=True)
BACKFILL = RankedPolicy(SubmissionOrder("fifo_backfill", Misfit.skipped), DISTRUSTFUL)
# One GPU is free on each server: j2 must be close to itself, j3 need not but asks for one more.
WORLD = World(
    servers=servers(4, 4),
    jobs=(
        trace_job(0, 3, lasts=100, shapes=((3,),), model="new"),
        trace_job(1, 3, lasts=200, shapes=((3,),)),
        trace_job(2, 2, at=10, lasts=50, model="new"),
        trace_job(3, 3, at=11, lasts=50, model="resnet50"),
    ),
)


def recorded(world: World, chosen: RankedPolicy, *seen: Seen) -> Recorded:
    outcome = run(world, chosen, wrapped=lambda backend: Sampled(backend, seen))
    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in outcome.events
    ]
    return Recorded(events, rebuilt(chosen, world.rules(instant=world.backend().instant)))


def why(log: Recorded, job: str, at: int) -> tuple[str, bool, bool]:
    """Return the reason for which a job waits, and whether planning again was done and agrees."""
    found = asyncio.run(asked(log, job, at))
    assert found.waits_now is not None
    agreement = found.agreement
    return str(found.waits_now.wait.reason), agreement.checked, agreement.agrees


def verdict_of(log: Recorded) -> Verdict:
    async def verified() -> Verdict:
        async with reading(log.events) as reader:
            return await verify_log(reader, log.rebuild)

    return asyncio.run(verified())


def queue_of(log: Recorded, at: int) -> Any:
    """Return what stands in the queue at an instant, as `shunter replay` shows it."""

    async def summed() -> Any:
        seq = max(seq for seq, event in enumerate(log.events, 1) if event.at_us <= at)
        async with reading(log.events) as reader:
            state = (await fold_log(reader, seq)).state
            return state_document(state, await classes_at(reader, state, log.rebuild))["queue"]

    return asyncio.run(summed())


def test_a_gang_that_must_be_close_waits_for_locality_and_another_for_capacity() -> None:
    log = recorded(WORLD, BACKFILL)
    assert why(log, "j2", 50) == ("locality_not_met", True, True)
    assert why(log, "j3", 50) == ("no_capacity", True, True)


def test_the_answer_says_why_free_gpus_are_not_enough() -> None:
    found = asyncio.run(asked(recorded(WORLD, BACKFILL), "j2", 50))
    assert details(found)[0].endswith("but not on as few servers as could hold it: n0:1 n1:1")
    told = needs(found)[-1]
    assert told.endswith("its model is found to be less skewed, or it says so itself (skew)")


def test_the_queue_counts_each_under_its_own_reason() -> None:
    reasons = queue_of(recorded(WORLD, BACKFILL), 50)["reasons"]
    assert reasons == {"locality_not_met": 1, "no_capacity": 1}


def test_a_gang_waits_as_one_that_must_be_close_until_a_sample_lets_it_go() -> None:
    log = recorded(WORLD, BACKFILL, Seen(40, 1, 10))
    assert why(log, "j2", 39) == ("locality_not_met", True, True)
    found = asyncio.run(asked(log, "j2", 50))
    assert found.last_run is not None
    assert found.last_run.from_us == 40


def test_a_gang_that_a_sample_binds_waits_as_one_that_must_be_close() -> None:
    chosen = replace(BACKFILL, placement=Skew())
    world = replace(WORLD, jobs=(*WORLD.jobs[:2], trace_job(2, 4, at=10, lasts=50, model="new")))
    log = recorded(world, chosen, Seen(20, 1, 10), Seen(50, 9, 10), Seen(120, 9, 10))
    assert why(log, "j2", 45) == ("no_capacity", True, True)
    assert why(log, "j2", 60) == ("no_capacity", True, True)
    found = asyncio.run(asked(log, "j2", 160))
    assert found.last_run is not None
    assert [share.node for share in found.last_run.allocation.shares] == ["n0"]


def state_of(log: Recorded, at: int) -> State:
    """Return what is true at an instant."""
    state = State()
    for event in log.events:
        if event.at_us <= at:
            apply(state, event)
    return state


def test_lists_and_metrics_show_the_reason_that_why_gives() -> None:
    log = recorded(WORLD, BACKFILL)
    state = state_of(log, 50)
    shown = {job_id: wait_of(state.jobs[JobId(job_id)], state) for job_id in ("j2", "j3")}
    reasons = {job_id: str(wait.reason) for job_id, wait in shown.items() if wait is not None}
    assert reasons == {"j2": "locality_not_met", "j3": "no_capacity"}
    assert reasons == {job_id: why(log, job_id, 50)[0] for job_id in reasons}


def test_a_gang_that_comes_behind_one_of_its_class_is_told_that_reason_at_once() -> None:
    world = replace(WORLD, jobs=(*WORLD.jobs, trace_job(4, 2, at=20, lasts=50, model="new")))
    state = state_of(recorded(world, BACKFILL), 20)
    wait = wait_of(state.jobs[JobId("j4")], state)
    assert wait is not None
    assert str(wait.reason) == "locality_not_met"


def test_a_log_that_does_not_record_the_classes_is_told_as_before() -> None:
    log = recorded(WORLD, BACKFILL, Seen(40, 1, 10))
    older = Recorded([unrecorded(event) for event in log.events], log.rebuild)
    assert any(event != old for event, old in zip(log.events, older.events, strict=True))
    for at in (30, 39):
        assert queue_of(older, at) == queue_of(log, at)
        assert asyncio.run(asked(older, "j2", at)).waits_now == (
            asyncio.run(asked(log, "j2", at)).waits_now
        )


def unrecorded(event: Event) -> Event:
    return replace(event, consolidated=(), spread=()) if isinstance(event, RoundPlanned) else event


def test_a_log_with_samples_is_decided_again_to_the_same_end() -> None:
    verdict = verdict_of(recorded(WORLD, BACKFILL, Seen(40, 1, 10), Seen(60, 9, 10)))
    assert verdict.divergence is None
    assert verdict.state.messages == {"new": (9, 10)}


@searched(50)
@given(case=measured())
def test_any_run_is_decided_again_to_the_same_end(case: Measured) -> None:
    chosen = PAIRS["las"][0](case.placement)
    outcome = case.played(chosen)
    log = Recorded(
        outcome.events,
        rebuilt(chosen, case.scene.world.rules(instant=case.scene.world.backend().instant)),
    )
    assert verdict_of(log).divergence is None
    assert_recorded(log, case.placement)


def assert_recorded(log: Recorded, placement: Skew) -> None:
    """Each round records of all that wait on whether they wait for the fewest servers."""
    state = State()
    for seq, event in enumerate(log.events, 1):
        apply(state, event)
        if not isinstance(event, RoundPlanned):
            continue
        now = {
            later.job_id
            for later in log.events[seq:]
            if isinstance(later, AllocationChanged) and later.at_us == event.at_us
        }
        for job in state.jobs.values():
            if job.is_eligible and job.job_id not in now:
                assert job.must_consolidate is placement.is_tight(job.spec, state.messages)
