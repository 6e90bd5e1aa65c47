"""Packs and moves on clusters made by hand: what gains stays, and what does not is undone."""

from typing import Any

import pytest

from shunter.backends.simulated import Costs, Samples, Slicing
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel
from shunter.events import Level, TrialReason, facts
from shunter.policies.gandiva import Gandiva
from shunter.workloads import TraceJob
from tests.factories import MINUTE_US, Outcome, World, configuration, run, servers, trace_job

BATCHES_A_MINUTE = 120


def gang(name: str, gpus: int, minutes: int, *, at: int = 0, model: str = "m") -> TraceJob:
    """Return a job with mini-batches of half a second, submitted at a minute."""
    return trace_job(
        name,
        gpus,
        at=at * MINUTE_US,
        lasts=minutes * MINUTE_US,
        model=model,
        total_steps=minutes * BATCHES_A_MINUTE,
    )


def played(
    gpus: tuple[int, ...],
    jobs: list[TraceJob],
    models: dict[str, ModelFactors],
    migrate_us: int = 5_000_000,
    **params: Any,
) -> Outcome:
    where = servers(*gpus)
    world = World(
        servers=where,
        jobs=tuple(jobs),
        costs=Costs(migrate_us=migrate_us),
        speeds=SpeedModel(
            {node.node: node.configuration for node in where}, factors=FactorTable(models)
        ),
        samples=Samples(15_000_000),
        slicing=Slicing(MINUTE_US),
    )
    by = Gandiva.build(Gandiva.Params.model_validate(params), PLACEMENTS["consolidated"]())
    return run(world, by)


def moves(outcome: Outcome) -> list[tuple[str, str, list[str]]]:
    """Return who was moved, why and where to."""
    return [
        (
            str(event.job_id),
            event.because.rule,
            [str(share.node) for share in event.allocation.shares],
        )
        for event in outcome.of(facts.AllocationChanged)
        if event.because.rule not in ("own_affinity", "new_affinity", "any_free", "in_turns")
    ]


def verdicts(outcome: Outcome) -> list[tuple[str, str]]:
    return [(str(e.job_id), e.reason) for e in outcome.of(facts.TrialKept, facts.TrialReverted)]


SPREAD = {"m": ModelFactors(shapes={(2, 1): 0.6})}


def scattered(*, minutes: int = 120) -> list[TraceJob]:
    """Return H-F of the paper: gangs of two on the GPUs that others left, until these end."""
    singles = [gang(f"s{number}", 1, 3) for number in range(3)]
    return [*singles, *[gang(name, 2, minutes) for name in "abcd"]]


def test_gangs_over_servers_come_together_once_gpus_are_free() -> None:
    outcome = played((3, 2, 2, 2), scattered(), SPREAD, migration={"goals": ["colocate"]})
    spread = [
        str(event.job_id)
        for event in outcome.of(facts.AllocationChanged)
        if len(event.allocation.shares) == 2
    ]
    assert sorted({name for name, _, _ in moves(outcome)}) == sorted(spread)
    assert all(rule == "colocate" for _, rule, _ in moves(outcome))


def test_two_gangs_in_pieces_are_moved_and_stay_where_they_gain() -> None:
    jobs = [gang("s", 1, 3), gang("t", 1, 3), gang("a", 2, 60)]
    outcome = played((2, 2), [gang("s", 1, 3), gang("u", 1, 60), gang("a", 2, 60)], SPREAD)
    assert not moves(outcome), "nobody is moved unless a config says so"
    pieces = {"goals": ["colocate"]}
    outcome = played((1, 1, 2), [gang("b", 2, 3), *jobs[2:]], SPREAD, migration=pieces)
    assert moves(outcome) == [("a", "colocate", ["n2"])]
    assert verdicts(outcome) == [("a", TrialReason.gained)]
    (kept,) = outcome.of(facts.TrialKept)
    assert kept.measured == pytest.approx(1 / 0.6, 1e-3)


@pytest.mark.parametrize(
    ("cost_s", "left", "expected"),
    [
        # It has run for 180 s when it moves, and for 245 when that is judged.
        (10, 0.95, TrialReason.gained),
        (10, 0.97, TrialReason.cost_not_met),
        (18, 0.95, TrialReason.cost_not_met),
    ],
)
def test_a_move_pays_exactly_if_it_gains_more_than_it_costs(
    cost_s: int, left: float, expected: TrialReason
) -> None:
    jobs = [gang("b", 2, 3), gang("a", 2, 60)]
    models = {"m": ModelFactors(shapes={(2, 1): left})}
    migration = {"goals": ["colocate"], "cost": cost_s}
    outcome = played((1, 1, 2), jobs, models, migration=migration)
    assert verdicts(outcome) == [("a", expected)]
    assert len(moves(outcome)) == 1, "it stays, for going back would cost as much again"


def test_what_had_not_paid_is_not_done_again_and_what_had_is_done_at_once() -> None:
    """The second gang of the model is too young to try anything, and knows what the first got."""
    jobs = [gang("b", 2, 3), gang("a", 2, 12), gang("c", 2, 2, at=4), gang("d", 2, 12, at=5)]
    for left, again in ((0.6, True), (0.99, False)):
        models = {"m": ModelFactors(shapes={(2, 1): left})}
        migration = {"goals": ["colocate"]}
        outcome = played((1, 1, 2), jobs, models, migration=migration, height_most=1)
        moved = [name for name, _, _ in moves(outcome)]
        assert moved == (["a", "d"] if again else ["a"])


def test_a_move_to_bad_neighbours_is_undone_and_not_tried_again() -> None:
    """z is alone on n1 once y has ended; on n0 it has a neighbour that halves its speed."""
    models = {"m": ModelFactors(beside={Level.switch: 0.5}), "calm": ModelFactors()}
    jobs = [
        gang("x", 1, 90, model="calm"),
        gang("v", 1, 3, model="calm"),
        gang("y", 1, 3, model="calm"),
        gang("z", 1, 60),
    ]
    migration = {"goals": ["defragment"], "free_most": 2}
    outcome = played((2, 3), jobs, models, migration=migration)
    assert [(name, rule) for name, rule, _ in moves(outcome)] == [
        ("z", "defragment"),
        ("z", "moved_back"),
    ]
    assert verdicts(outcome) == [("z", TrialReason.lost)]


def test_jobs_of_one_gpu_leave_dear_gpus_that_others_wait_for() -> None:
    where = (
        *servers(1, gpu_type="v100"),
        *(node for node in servers(0, 1, gpu_type="k80") if node.configuration.gpus),
    )
    speeds = SpeedModel(
        {node.node: node.configuration for node in where},
        factors=FactorTable({"slow": ModelFactors()}),
    )
    jobs = [gang("a", 1, 30, model="slow")]
    world = World(
        servers=where,
        jobs=(*jobs, trace_job("w", 1, at=3 * MINUTE_US, lasts=MINUTE_US, gpu_types=("v100",))),
        speeds=speeds,
        samples=Samples(15_000_000),
        slicing=Slicing(MINUTE_US),
    )
    params = {
        "height_most": 1,
        "migration": {"goals": ["cheaper_type"], "cheaper": ["k80", "v100"]},
    }
    by = Gandiva.build(Gandiva.Params.model_validate(params), PLACEMENTS["consolidated"]())
    outcome = run(world, by)
    assert moves(outcome) == [("a", "cheaper_type", ["n1"])]
    assert verdicts(outcome) == [("a", TrialReason.no_loss)]
    assert outcome.ends_us()["w"] < 10 * MINUTE_US


def test_who_takes_turns_comes_to_gpus_that_become_free_elsewhere() -> None:
    jobs = [gang("a", 1, 60), gang("b", 1, 60), gang("c", 1, 5)]
    outcome = played((1, 1), [jobs[0], jobs[2], jobs[1]], {"m": ModelFactors()})
    assert not moves(outcome)
    goals = {"goals": ["lower_height"]}
    outcome = played((1, 1), [jobs[0], jobs[2], jobs[1]], {"m": ModelFactors()}, migration=goals)
    assert moves(outcome) == [("b", "lower_height", ["n1"])]
    (kept,) = outcome.of(facts.TrialKept)
    assert (kept.measured, outcome.of(facts.TrialStarted)[0].baseline) == (1.0, 0.5)


def test_who_was_moved_on_trial_is_packed_with_nobody_meanwhile_and_others_are() -> None:
    """a and b do not fit together; b is the first choice beside all others."""
    models = {
        "big": ModelFactors(gpu_utilisation=0.1, gpu_memory_mb=9_000),
        "m": ModelFactors(gpu_utilisation=0.5, gpu_memory_mb=5_000, pairs={"m": 0.8}),
    }
    firsts = [gang("a", 1, 90, model="big"), gang("c", 1, 5), gang("b", 1, 90, model="big")]
    outcome = played(
        (1, 1),
        [*firsts, *[gang(name, 1, 90, at=7) for name in "xyzw"]],
        models,
        migration={"goals": ["lower_height"], "probe": 1800},
        packing={"probe": 60, "gpu_memory_mb": {"v100": 16_000}},
    )
    assert not outcome.of(facts.PlanRejected)
    moved = outcome.of(facts.TrialStarted)[0]
    (kept,) = [event for event in outcome.of(facts.TrialKept) if event.job_id == "b"]
    packed = [
        {str(event.job_id), *map(str, event.partners)}
        for event in outcome.of(facts.TrialStarted)
        if moved.at_us < event.at_us < kept.at_us
    ]
    beside_b = {
        str(event.job_id)
        for event in outcome.of(facts.AllocationChanged)
        if event.allocation.shares and event.allocation.shares[0].node == "n1"
    } - {"b", "c"}
    assert beside_b in packed, "others of its server are tried"
    assert not any("b" in names for names in packed)


def test_a_pair_that_does_not_fit_is_parted_at_once() -> None:
    models = {"m": ModelFactors(pairs={"m": 0.0})}
    jobs = [gang("a", 1, 10), gang("b", 1, 10)]
    outcome = played((1,), jobs, models, packing={"probe": 60})
    started, reverted = outcome.of(facts.TrialStarted)[0], outcome.of(facts.TrialReverted)[0]
    assert reverted.reason == TrialReason.no_progress
    assert reverted.at_us - started.at_us <= 1
    assert len(outcome.of(facts.TrialStarted)) == 1, "a known loser"
    assert outcome.of(facts.SpeedChanged)


def test_a_pair_that_gains_has_the_turns_of_both() -> None:
    models = {"m": ModelFactors(pairs={"m": 0.8}), "n": ModelFactors(pairs={"m": 0.1})}
    models["m"] = ModelFactors(pairs={"m": 0.8, "n": 0.1})
    jobs = [gang("a", 1, 30), gang("b", 1, 30), gang("c", 1, 30, model="n")]
    outcome = played((1,), jobs, models, packing={"probe": 60})
    kept = [event for event in outcome.of(facts.TrialKept) if event.reason == TrialReason.gained]
    assert [(str(event.job_id), event.measured) for event in kept] == [("a", 1.6)]
    turns = [
        str(event.job_id) for event in outcome.of(facts.TurnStarted) if event.at_us > kept[0].at_us
    ]
    ends = outcome.ends_us()
    # a and b have two of three quanta at 0.8 each, so more than half of a GPU; c has a third.
    assert max(ends["a"], ends["b"]) < 61 * MINUTE_US
    assert turns.count("a") == turns.count("b")


def test_memory_that_is_known_keeps_a_pair_from_being_tried() -> None:
    models = {"m": ModelFactors(gpu_utilisation=0.3, gpu_memory_mb=9_000)}
    jobs = [gang("a", 1, 10), gang("b", 1, 10)]
    for room_mb, trials in ((16_000, 0), (18_000, 1)):
        packing = {"probe": 60, "gpu_memory_mb": {"v100": room_mb}}
        outcome = played((1,), jobs, models, packing=packing)
        assert len(outcome.of(facts.TrialStarted)) == trials


def test_those_that_use_their_gpu_least_are_tried_first() -> None:
    models = {
        name: ModelFactors(gpu_utilisation=used)
        for name, used in (("low", 0.2), ("mid", 0.5), ("high", 0.9))
    }
    jobs = [
        gang("h", 1, 30, model="high"),
        gang("m", 1, 30, model="mid"),
        gang("l", 1, 30, model="low"),
    ]
    outcome = played((1,), jobs, models, packing={"probe": 60})
    first = outcome.of(facts.TrialStarted)[0]
    assert (str(first.job_id), first.partners) == ("l", ("m",))
    assert configuration(1).gpu_type == first.key.gpu_type


def test_a_pack_ends_with_the_job_whose_gpu_one_of_it_is_given_for_its_own() -> None:
    models = {
        name: ModelFactors(gpu_utilisation=used, pairs=dict.fromkeys(("low", "mid", "high"), 0.9))
        for name, used in (("low", 0.2), ("mid", 0.5), ("high", 0.9))
    }
    jobs = [
        gang("a", 1, 60, model="low"),
        gang("b", 1, 15, model="high"),
        gang("c", 1, 60, model="mid"),
    ]
    outcome = played((2,), jobs, models, packing={"probe": 60})
    started, kept, parted = outcome.of(facts.TrialStarted, facts.TrialKept, facts.TrialReverted)
    assert (str(started.job_id), started.partners, kept.reason) == ("a", ("c",), "gained")
    (rehomed,) = outcome.of(facts.JobReshaped)
    assert (str(rehomed.job_id), rehomed.at_us) == ("c", outcome.ends_us()["b"])
    assert parted.reason == TrialReason.room
    assert parted.at_us - rehomed.at_us <= MINUTE_US, "with the next news of the cluster"
