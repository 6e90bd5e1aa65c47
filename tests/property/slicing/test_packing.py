"""Any jobs under any table of pairs: what is packed gained, what lost is not tried again."""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.backends.simulated import Samples, Slicing
from shunter.core import State
from shunter.core.fold import apply, replay
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import (
    AttemptEnded,
    AttemptLost,
    ChangeKey,
    Event,
    JobCancelled,
    JobId,
    JobSuspended,
    TrialKept,
    TrialReason,
    TrialReverted,
    TrialStarted,
    TurnEnded,
    TurnStarted,
    encode_record,
)
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import MINUTE_US, Outcome, World, run, servers, trace_job
from tests.property.invariants import check_state
from tests.property.worlds import Scene, scenes, shown
from tests.slices import searched

QUANTUM_US = MINUTE_US
BATCH_US = 500_000
LEFT = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.2, 1.0))


@dataclass(frozen=True)
class Packed:
    """Jobs of some models on a server, and what each pair leaves of the speed of both."""

    world: World
    left: dict[tuple[str, str], tuple[float, float]]

    def __repr__(self) -> str:
        return f"{shown(self.world)} {self.left}"

    def true_sum(self, key: ChangeKey) -> float:
        """Return what the rates of a pair add up to, by the table."""
        one, other = key.models
        return sum(self.left[one, other])


@st.composite
def packs(draw: st.DrawFn) -> Packed:
    """Return more jobs than GPUs, of a few models, and a table of all pairs of these."""
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    left: dict[tuple[str, str], tuple[float, float]] = {}
    for one, other in combinations_with_replacement(names, 2):
        both = draw(LEFT), draw(LEFT)
        if one == other or not all(both):
            both = both[0] and both[1] and both[0], both[0] and both[1] and both[0]
        left[one, other] = both
    gpus = draw(st.integers(1, 3))
    width = draw(st.sampled_from([1, 1, gpus]))
    jobs = []
    for number in range(draw(st.integers(2, 7))):
        lasts_us = draw(st.integers(4, 40)) * MINUTE_US
        fields: dict[str, Any] = {
            "model": draw(st.sampled_from(names)),
            "total_steps": lasts_us // BATCH_US,
        }
        at_us = draw(st.sampled_from([0, 0, 90_000_000]))
        jobs.append(trace_job(number, width, at=at_us, lasts=lasts_us, **fields))
    jobs.sort(key=lambda job: job.submit_us)
    table = FactorTable(
        {
            name: ModelFactors(
                pairs={
                    other: left[name, other][0] if (name, other) in left else left[other, name][1]
                    for other in names
                },
                gpu_utilisation=draw(st.sampled_from([None, 0.3, 0.9])),
            )
            for name in names
        }
    )
    where = servers(gpus)
    world = World(
        servers=where,
        jobs=tuple(jobs),
        speeds=SpeedModel({node.node: node.configuration for node in where}, factors=table),
        samples=Samples(15_000_000),
        slicing=Slicing(QUANTUM_US, draw(st.sampled_from([0, 100_000]))),
    )
    return Packed(world, left)


def played(world: World, *, packing: bool) -> Outcome:
    params = {"packing": {"probe": 60}} if packing else {}
    by = Gandiva.build(Gandiva.Params.model_validate(params), PLACEMENTS["consolidated"]())
    return run(world, by)


@searched(60)
@given(scene=packs())
def test_what_is_kept_gained_and_what_lost_is_not_tried_again(scene: Packed) -> None:
    events = played(scene.world, packing=True).events
    trials: dict[JobId, TrialStarted] = {}
    lost = set[ChangeKey]()
    for event in events:
        if isinstance(event, TrialStarted):
            assert event.key is not None
            assert event.key not in lost, "a known loser was tried again"
            assert {batch.batch_us for batch in event.batches} == {BATCH_US}
            trials[event.job_id] = event
        elif isinstance(event, TrialKept | TrialReverted):
            if event.reason == TrialReason.room:
                continue
            started = trials.pop(event.job_id)
            assert started.key is not None
            true = scene.true_sum(started.key)
            assert isinstance(event, TrialKept) == (true > 1.000001)
            if event.reason in (TrialReason.gained, TrialReason.lost):
                assert event.measured == pytest.approx(true, abs=1e-4)
                assert event.at_us - started.at_us >= 60_000_000
            else:
                assert event.reason == TrialReason.no_progress
                assert not true
            if isinstance(event, TrialReverted):
                lost.add(started.key)


@searched(60)
@given(scene=packs())
def test_only_packed_jobs_have_a_gpu_at_once_and_its_time_counts_once(scene: Packed) -> None:
    outcome = played(scene.world, packing=True)
    state, has, since_us = State(), dict[JobId, TurnStarted](), 0
    held: Counter[str] = Counter()
    for event in outcome.events:
        at_us = event.at_us
        there = defaultdict(list)
        for job_id, turn in has.items():
            for share in turn.shares:
                for gpu in range(8):
                    if share.gpu_mask >> gpu & 1:
                        there[gpu].append(job_id)
        held["once"] += len(there) * (at_us - since_us)
        since_us = at_us
        for jobs in there.values():
            for job_id in jobs if at_us > state.now_us else ():
                others = set(jobs) - {job_id}
                assert others <= set(state.jobs[job_id].packed_with), "two have a GPU at once"
        match event:
            case TurnStarted():
                has[event.job_id] = event
            case TurnEnded() | AttemptEnded() | AttemptLost() | JobSuspended() | JobCancelled():
                has.pop(event.job_id, None)
            case _:
                pass
        if at_us > state.now_us:
            check_state(state)
        apply(state, event)
    service_us = sum(
        turn_us for turn_us in _turns_us(outcome.events).values()
    ) - state.overcommit_us(state.now_us)
    assert service_us == held["once"]
    assert encode_record(replay(outcome.events)) == encode_record(state)


def _turns_us(events: list[Event]) -> Counter[JobId]:
    """Return how long the turns of each job were, times its GPUs."""
    had_us: Counter[JobId] = Counter()
    began: dict[JobId, TurnStarted] = {}
    for event in events:
        if isinstance(event, TurnStarted):
            began[event.job_id] = event
        elif isinstance(event, TurnEnded | AttemptEnded) and event.job_id in began:
            turn = began.pop(event.job_id)
            gpus = sum(share.gpus for share in turn.shares)
            had_us[event.job_id] += gpus * (event.at_us - turn.at_us)
    return had_us


@searched(40)
@given(scene=packs())
def test_packing_is_never_worse_than_turns_by_more_than_its_probes(scene: Packed) -> None:
    """Up to the first end of a job, so that both runs have the same jobs to do."""
    packed, sliced = (played(scene.world, packing=packing) for packing in (True, False))
    until_us = min(min(each.ends_us().values()) for each in (packed, sliced)) - 1
    work_us = [_work_us(each.events, until_us) for each in (packed, sliced)]
    spent_us = 0
    began: dict[JobId, int] = {}
    for event in packed.events:
        if isinstance(event, TrialStarted):
            began[event.job_id] = event.at_us
        elif isinstance(event, TrialKept):
            del began[event.job_id]
        elif isinstance(event, TrialReverted) and event.job_id in began:
            spent_us += max(0, min(event.at_us, until_us) - began.pop(event.job_id))
    spent_us += sum(max(0, until_us - at_us) for at_us in began.values())
    # A pack goes on beyond its trial only where it gained; turns are whole, so one may be unfair.
    assert work_us[0] >= work_us[1] - spent_us - 2 * QUANTUM_US


def _work_us(events: list[Event], until_us: int) -> int:
    """Return the work that was done by an instant, in microseconds at base speed."""
    state = State()
    for event in events:
        if event.at_us > until_us:
            break
        apply(state, event)
    return sum(job.done_us(until_us) for job in state.jobs.values())


@searched(40)
@given(scene=scenes(), quantum_us=st.sampled_from([5, 12, 100]))
def test_whatever_people_and_failures_do_packs_end_with_their_jobs(
    scene: Scene, quantum_us: int
) -> None:
    world = replace(
        scene.world, slicing=Slicing(quantum_us, 1), samples=Samples(max(1, quantum_us // 4), 0.1)
    )
    params = Gandiva.Params.model_validate({"packing": {"probe": quantum_us / 1e6}})
    by = Gandiva.build(params, PLACEMENTS[scene.placement]())
    events = run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands)).events
    state = State()
    for event in events:
        apply(state, event)
        for job in state.jobs.values():
            for name in job.packed_with:
                assert job.job_id in state.jobs[name].packed_with
        assert state.trials.keys() <= state.jobs.keys()
    assert encode_record(replay(events)) == encode_record(state)
