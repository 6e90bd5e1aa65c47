"""What the index policies put first, in worlds small enough to read."""

from typing import Any

import pytest
from pydantic import ValidationError

from shunter.backends.simulated import Costs
from shunter.core import Guards
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import Aged, RankedPolicy, rank_of
from shunter.core.speeds import SpeedModel
from shunter.events import AllocationChanged, GpuType, RoundPlanned
from shunter.policies import fairness, las, shortest, tiresias
from tests.factories import (
    Outcome,
    World,
    configuration,
    job_id,
    node_name,
    run,
    servers,
    trace_job,
)


def played(index: Any, *jobs: Any, gpus: int = 1, **world: Any) -> Outcome:
    chosen = RankedPolicy(index, PLACEMENTS["consolidated"]())
    return run(World(servers=servers(gpus), jobs=jobs, **world), chosen)


def starts(outcome: Outcome) -> list[tuple[int, str]]:
    return [(e.at_us, str(e.job_id)) for e in outcome.of(AllocationChanged) if e.allocation.shares]


def test_smallest_gang_preempts_a_larger_one() -> None:
    outcome = played(
        shortest.GangSize(), trace_job(0, 4, lasts=10), trace_job(1, 1, at=2, lasts=3), gpus=4
    )
    assert starts(outcome) == [(0, "j0"), (2, "j1"), (5, "j0")]


def test_shortest_gpu_weighs_time_by_gpus() -> None:
    # At 1 the wide job needs 4 x 5 = 20 GPU-us still, the narrow one 1 x 19: it preempts.
    wide, narrow = trace_job(0, 4, lasts=6), trace_job(1, 1, at=1, lasts=19)
    outcome = played(shortest.RemainingService(), wide, narrow, gpus=4)
    assert starts(outcome) == [(0, "j0"), (1, "j1"), (20, "j0")]
    # By time alone the wide one has 5 us to go, and stays.
    assert starts(played(shortest.RemainingTime(), wide, narrow, gpus=4)) == [(0, "j0"), (6, "j1")]


def test_worst_off_job_goes_first() -> None:
    # When j0 ends at 10, j1 (10 of work) has waited 10, rho 2; j2 (1 of work) 8 so far, rho 9.
    jobs = (
        trace_job(0, lasts=10),
        trace_job(1, lasts=10),
        trace_job(2, at=2, lasts=1),
    )
    outcome = played(fairness.FinishTimeFairness(), *jobs, guards=Guards(min_runtime_us=50))
    assert starts(outcome) == [(0, "j0"), (10, "j2"), (11, "j1")]


def test_job_on_quick_gpus_is_ranked_again_each_quantum_only() -> None:
    # Each gets 2 us of work done in 1 us, so whoever runs soon is better off than who waits.
    jobs = (trace_job(0, lasts=2_000_000), trace_job(1, lasts=2_000_000))
    speeds = SpeedModel({node_name(): configuration(1)}, {GpuType("v100"): 2.0})
    index = fairness.FinishTimeFairness(quantum_us=250_000)
    outcome = played(index, *jobs, speeds=speeds, until_us=5_000_000)
    assert outcome.ended.keys() == {job_id(0), job_id(1)}
    assert outcome.state.rounds_planned < 50


@pytest.mark.parametrize("speed", [2.0, 0.999])
def test_no_round_is_planned_while_no_step_of_rho_is_passed(speed: float) -> None:
    """j1 has waited for long, and j2 is none that it gives way to: nothing changes in its run."""
    second = 1_000_000
    jobs = (
        trace_job(0, lasts=1000 * second),
        trace_job(1, at=1, lasts=400 * second),
        trace_job(2, at=2, lasts=100_000 * second),
    )
    speeds = SpeedModel({node_name(): configuration(1)}, {GpuType("v100"): speed})
    index = fairness.FinishTimeFairness(fairness.QUANTUM_US)
    outcome = played(index, *jobs, speeds=speeds, guards=Guards(min_runtime_us=10**12))
    first, last = (at_us for at_us, job in starts(outcome) if job in ("j1", "j2"))
    while_it_ran = [each for each in outcome.of(RoundPlanned) if first < each.at_us < last]
    assert last - first == pytest.approx(400 * second / speed, abs=1)
    assert len(while_it_ran) < 60, "steps of a sixteenth"


def test_expected_rest_prefers_a_new_job_to_one_that_outlived_the_short_ones() -> None:
    index = tiresias.ShortestExpected.build(
        tiresias.HistoryParams(history=(2e-6, 2e-6, 1e-4)),  # type: ignore[arg-type]  # in seconds
        PLACEMENTS["consolidated"](),
    ).index
    # j0 passes 2 us and is expected to need 98 more then; j1 needs 34 by the mean.
    assert starts(played(index, trace_job(0, lasts=50), trace_job(1, lasts=1))) == [
        (0, "j0"),
        (2, "j1"),
        (3, "j0"),
    ]


def test_higher_index_runs_first_and_not_the_lower() -> None:
    rules = tiresias.Gittins.build(
        tiresias.GittinsParams(
            history=(2e-6, 2e-6, 1e-4),  # type: ignore[arg-type]  # in seconds
            queues_gpu_s=(),
        ),
        PLACEMENTS["consolidated"](),
    ).index
    # Past 2 us a job's index falls from 2/6 to 1/98: the new one goes first.
    assert starts(played(rules, trace_job(0, lasts=50), trace_job(1, lasts=1)))[1] == (2, "j1")


def test_policy_learns_from_the_jobs_that_finish() -> None:
    rules = tiresias.Gittins.build(
        tiresias.GittinsParams(history="log", queues_gpu_s=()), PLACEMENTS["consolidated"]()
    )
    jobs = (
        trace_job(0, lasts=4),
        trace_job(1, at=10, lasts=30),
        trace_job(2, at=12, lasts=4),
    )
    outcome = run(World(servers=servers(1), jobs=jobs), rules)
    # Nothing is known until j0 ends. Then j1 is like any other up to 4 us, and hopeless after.
    assert starts(outcome) == [(0, "j0"), (10, "j1"), (14, "j2"), (18, "j1")]
    assert outcome.core.memory.notes.finished == [4, 4, 30]


def test_aged_job_goes_before_all_that_have_waited_less() -> None:
    index = Aged(las.AttainedService((5,)), 10, 2)
    # j0 is in the second queue from 5 on; new jobs of 5 us come just in time to keep it out.
    jobs = [trace_job(0, lasts=30)]
    jobs += [trace_job(number, at=5 * number, lasts=5) for number in range(1, 12)]
    outcome = played(index, *jobs)
    # It waits from 5 on, and has risen a level at 15, when j3 comes and j2 ends.
    assert (15, "j0") in starts(outcome)
    assert (15, "j3") in starts(played(las.AttainedService((5,)), *jobs))


def test_aged_job_that_loses_what_it_had_not_begun_to_use_has_waited_all_the_time() -> None:
    index = Aged(shortest.RemainingTime(), 10, 2)
    jobs = [
        trace_job(0, lasts=90),
        trace_job(1, at=12, lasts=5),  # gets the GPU of j0, which takes 30 to leave it
        trace_job(2, at=24, lasts=1),  # is shorter, so that j1 loses it; but that is older
    ]
    outcome = played(index, *jobs, costs=Costs(suspend_us=30))
    assert starts(outcome)[:4] == [(0, "j0"), (12, "j1"), (24, "j2"), (25, "j1")]


@pytest.mark.parametrize("history", [[], [3.0, 2.0], [0.0, 1.0], "weibull:1", "no-such.csv"])
def test_wrong_history_is_refused(history: Any) -> None:
    given = tuple(history) if isinstance(history, list) else history
    with pytest.raises(ValidationError, match="history"):
        tiresias.GittinsParams(history=given)


def test_numbers_of_ranks_fit_into_json() -> None:
    jobs = [trace_job(0, lasts=30)]
    jobs += [trace_job(number, at=5 * number, lasts=5) for number in range(1, 12)]
    aged = Aged(tiresias.FeedbackQueues((5,)), 10, 2)
    chosen = RankedPolicy(aged, PLACEMENTS["consolidated"]())
    outcome = run(World(servers=servers(1), jobs=tuple(jobs), until_us=40), chosen)
    standing = outcome.core.memory.entries.values()
    told = [chosen.numbers(rank_of(entry.key)) for entry in standing]
    told += [event.because.scores for event in outcome.of(AllocationChanged)]
    # The level is told first, and the queue and the instant of entry below the last one.
    assert {len(numbers) for numbers in told} == {1, 3}
    assert all(abs(number) < 2**63 for numbers in told for number in numbers)
