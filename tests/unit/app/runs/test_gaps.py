"""How far runs were from what was aimed at: target shares, and bounds of sizes."""

import pytest

from shunter.core import NO_GUARDS, State, View
from shunter.core.planning import PLACEMENTS
from shunter.events import SizesSet
from shunter.policies.gavel import Gavel
from shunter.run import ShareGaps, SizeGaps
from tests.factories import World, node_added, policy, run, trace_job

MINUTE_US = 60_000_000


def gaps_of(world: World, objective: str = "max_min_fairness") -> ShareGaps:
    params = Gavel.Params.model_validate({"turn": "1m", "objective": objective})
    gaps = ShareGaps()
    by = Gavel.build(params, PLACEMENTS["consolidated"]())
    run(world, by, listeners=[gaps.observers()])
    return gaps


def test_job_alone_has_all_it_should() -> None:
    world = World(
        servers=(node_added(gpus=1),),
        jobs=(trace_job(0, lasts=3 * MINUTE_US),),
        round_us=MINUTE_US,
    )

    assert gaps_of(world).document() == {
        "one_gpu": {"jobs": 1, "gap_mean": 0.0, "gap_max": 0.0},
        "gangs": {"jobs": 0, "gap_mean": None, "gap_max": None},
    }


def test_jobs_that_take_turns_are_owed_a_turn_at_most() -> None:
    """Turns 0 and 3 to 4 are the first job's, the others the second's: it ends half owed."""
    world = World(
        servers=(node_added(gpus=1),),
        jobs=tuple(trace_job(number, lasts=3 * MINUTE_US) for number in range(2)),
        round_us=MINUTE_US,
    )

    gaps = gaps_of(world)

    assert len(gaps.alone) == 2
    assert max(gaps.alone) <= 0.5 / 5


def test_gang_that_never_fits_beside_others_is_owed_its_share() -> None:
    """Three GPUs, and two gangs of two: each should have all of its time on 1.5."""
    world = World(
        servers=(node_added(gpus=3),),
        jobs=tuple(trace_job(number, 2, lasts=4 * MINUTE_US) for number in range(2)),
        round_us=MINUTE_US,
    )

    gaps = gaps_of(world)

    # Targets are 0.75 each, and they take turns: half of the time.
    assert gaps.gangs[0] == pytest.approx(0.25, abs=0.1)


def test_policy_without_targets_has_no_gaps() -> None:
    gaps = ShareGaps()
    world = World(servers=(node_added(gpus=1),), jobs=(trace_job(0),))

    run(world, policy("fifo"), listeners=[gaps.observers()])

    assert gaps.document() is None


def test_gaps_are_those_of_the_rounds_in_which_jobs_were_sized() -> None:
    gaps, view = SizeGaps(), View(State(), NO_GUARDS, oracle=False, all_reasons=False)
    assert gaps.document() is None
    (note,) = gaps.observers().values()
    note(SizesSet(0, (), 3.0, 4.0), view)
    note(SizesSet(9, (), 5.0, 5.0, 0.5, "nothing was found for 2 jobs"), view)
    assert gaps.document() == {
        "rounds": 2,
        "unsolved": 1,
        "speed_mean": 4.0,
        "bound_mean": 4.5,
        "gap_mean": pytest.approx(0.125),
        "gap_max": 0.25,
        "search_gap_max": 0.5,
    }
