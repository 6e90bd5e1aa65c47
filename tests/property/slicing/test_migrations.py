"""Any jobs on any servers: a move is tried, measured, and kept or undone by what it measured."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.backends.simulated import Costs, Samples, Slicing
from shunter.core import State
from shunter.core.fold import apply, replay
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import (
    LOSSES,
    AllocationChanged,
    AttemptStarted,
    ChangeKey,
    JobId,
    Level,
    PlanRejected,
    ProfileSampled,
    TrialKept,
    TrialReason,
    TrialReverted,
    TrialStarted,
    encode_record,
)
from shunter.policies import BACK, GOALS, WITHOUT_GAIN
from shunter.policies.gandiva import Gandiva
from tests.commanded import Commanded
from tests.factories import MINUTE_US, Outcome, World, run, servers, trace_job
from tests.property.invariants import check_state
from tests.property.worlds import Scene, scenes
from tests.slices import searched

BATCH_US = 500_000
COST_US = 10_000_000
MODELS = ("x", "y")
MOVES = {"goals": list(GOALS), "free_most": 1, "cheaper": ["k80", "v100"]}


@st.composite
def clusters(draw: st.DrawFn) -> World:
    """Return gangs and single jobs on a few servers, whose distance and neighbours count."""
    part = st.sampled_from([0.4, 0.7, 0.97, 1.0])
    table = FactorTable(
        {
            name: ModelFactors(
                shapes={(2, 1): draw(part), (2, 2): draw(part)},
                beside={Level.switch: draw(part)},
            )
            for name in MODELS
        }
    )
    sizes = draw(st.lists(st.sampled_from([2, 4]), min_size=2, max_size=4))
    jobs = []
    for number in range(draw(st.integers(2, 8))):
        lasts_us = draw(st.integers(2, 40)) * MINUTE_US
        fields: dict[str, Any] = {
            "model": draw(st.sampled_from(MODELS)),
            "total_steps": lasts_us // BATCH_US,
        }
        gpus = draw(st.sampled_from([1, 1, 2, 4]))
        at_us = draw(st.integers(0, 8)) * MINUTE_US
        jobs.append(trace_job(number, gpus, at=at_us, lasts=lasts_us, **fields))
    jobs.sort(key=lambda job: job.submit_us)
    where = servers(*sizes)
    return World(
        servers=where,
        jobs=tuple(jobs),
        costs=Costs(migrate_us=draw(st.sampled_from([0, 5_000_000]))),
        speeds=SpeedModel({node.node: node.configuration for node in where}, factors=table),
        samples=Samples(15_000_000),
        slicing=Slicing(MINUTE_US),
    )


def played(world: World) -> Outcome:
    params = {
        "packing": {"probe": 60},
        "migration": {**MOVES, "probe": 60, "cost": 10},
    }
    by = Gandiva.build(Gandiva.Params.model_validate(params), PLACEMENTS["consolidated"]())
    return run(world, by)


@dataclass
class Watched:
    """What the log told of a trial: its begin, and samples of the attempts since."""

    started: TrialStarted
    samples_us: list[int]

    def mean_us(self) -> int:
        """Return the mean of all samples but the first of the new attempt."""
        return sum(self.samples_us[1:]) // len(self.samples_us[1:])


@searched(60)
@given(world=clusters())
def test_a_move_stays_or_is_undone_by_what_was_measured(world: World) -> None:
    events = played(world).events
    state = State()
    trials: dict[JobId, Watched] = {}
    known: dict[ChangeKey, float] = {}
    undone: dict[JobId, int] = {}
    for event in events:
        match event:
            case TrialStarted(trial="migrate"):
                assert event.key is not None
                job = state.jobs[event.job_id]
                margin = COST_US / job.occupied_us(event.at_us)
                goal = event.key.change.partition(" ")[0]
                if event.key in known:
                    least = 1 - margin if goal in WITHOUT_GAIN else 1 + margin
                    gain = known[event.key] / event.baseline
                    assert gain > least - 1e-4, "moved again, and it had not paid"
                else:
                    assert margin <= 0.1 + 1e-6, "tried before it had run for ten times the cost"
                trials[event.job_id] = Watched(event, [])
            case AttemptStarted() if event.job_id in trials:
                trials[event.job_id].samples_us.clear()
            case ProfileSampled() if event.job_id in trials and event.batch_s is not None:
                trials[event.job_id].samples_us.append(round(event.batch_s * 1e6))
            case TrialKept(trial="migrate") | TrialReverted(trial="migrate"):
                watched = trials.pop(event.job_id)
                started = watched.started
                assert started.key is not None
                if event.reason != TrialReason.not_measured:
                    (before,), (after,) = started.batches, event.batches
                    assert after.batch_us == watched.mean_us()
                    assert event.measured == pytest.approx(before.batch_us / after.batch_us, 1e-3)
                    gain = event.measured / started.baseline
                    known[started.key] = event.measured
                    margin = COST_US / state.jobs[event.job_id].occupied_us(event.at_us)
                    _check_reason(event, gain, margin, started.key.change.partition(" ")[0])
                if isinstance(event, TrialReverted):
                    undone[event.job_id] = event.at_us
            case AllocationChanged() if event.because.rule == BACK:
                assert undone.pop(event.job_id) == event.at_us
            case PlanRejected():
                raise AssertionError(event)
            case _:
                pass
        if event.at_us > state.now_us:
            check_state(state)
        apply(state, event)
        trials = {name: each for name, each in trials.items() if name in state.trials}
    assert not undone, "it was to go back, and did not"
    assert encode_record(replay(events)) == encode_record(state)


def _check_reason(event: TrialKept | TrialReverted, gain: float, margin: float, goal: str) -> None:
    """Hold a reason to the gain: by more than the cost, by less, or a loss of more."""
    if abs(gain - 1 - margin) < 1e-3 or abs(1 / gain - 1 - margin) < 1e-3:
        return  # on the edge
    if gain > 1 + margin:
        assert event.reason == TrialReason.gained
    elif 1 / gain > 1 + margin:
        assert event.reason in (TrialReason.lost, TrialReason.no_way_back)
    elif goal in WITHOUT_GAIN:
        assert event.reason == TrialReason.no_loss
    else:
        assert event.reason == TrialReason.cost_not_met
    assert isinstance(event, TrialReverted) == (event.reason == TrialReason.lost)
    assert (TrialReason(event.reason) in LOSSES) == (
        event.reason not in (TrialReason.gained, TrialReason.no_loss)
    )


@searched(40)
@given(scene=scenes(), quantum_us=st.sampled_from([5, 12, 100]))
def test_whatever_people_and_failures_do_a_trial_is_of_a_job_that_is_there(
    scene: Scene, quantum_us: int
) -> None:
    world = replace(
        scene.world, slicing=Slicing(quantum_us, 1), samples=Samples(max(1, quantum_us // 4), 0.1)
    )
    probe_s = quantum_us / 1e6
    migration = {**MOVES, "probe": probe_s, "cost": 1e-6}
    params = Gandiva.Params.model_validate({"packing": {"probe": probe_s}, "migration": migration})
    by = Gandiva.build(params, PLACEMENTS[scene.placement]())
    events = run(world, by, wrapped=lambda backend: Commanded(backend, scene.commands)).events
    state = State()
    for event in events:
        apply(state, event)
        assert state.trials.keys() <= state.jobs.keys()
    assert encode_record(replay(events)) == encode_record(state)
