"""What the index policies put first, in worlds small enough to read."""

from typing import Any

import pytest
from pydantic import ValidationError

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
from tests.unit.policies.plays import Play, plays, ranked


def played(index: Any, *jobs: Any, **world: Any) -> Outcome:
    return run(World(servers=servers(1), jobs=jobs, **world), ranked(index))


def starts(outcome: Outcome) -> list[tuple[int, str]]:
    return [(e.at_us, str(e.job_id)) for e in outcome.of(AllocationChanged) if e.allocation.shares]


HISTORY: Any = (2e-6, 2e-6, 1e-4)  # in seconds
PLACED = PLACEMENTS["consolidated"]()
EXPECTED = tiresias.HistoryParams(history=HISTORY)
WIDE = "servers 4; j0: 4 GPUs for 6; j1: 1 GPU for 19 at 1"
TWO = "servers 1; j0: 1 GPU for 50; j1: 1 GPU for 1"
POLICIES = {
    "gang size": ranked(shortest.GangSize()),
    "service": ranked(shortest.RemainingService()),
    "time": ranked(shortest.RemainingTime()),
    "aged time": ranked(Aged(shortest.RemainingTime(), 10, 2)),
    "fairness": ranked(fairness.FinishTimeFairness()),
    "expected": tiresias.ShortestExpected.build(EXPECTED, PLACED),
    "gittins": tiresias.Gittins.build(
        tiresias.GittinsParams(history=HISTORY, queues_gpu_s=()), PLACED
    ),
}
TABLE = plays(
    f"""
the smallest gang preempts a larger one
    under gang size; servers 4; j0: 4 GPUs for 10; j1: 1 GPU for 3 at 2
    => 0: j0 gets 4; 2: j0 leaves, j1 gets 1; 5: j1 ends, j0 gets 4; 13: j0 ends
by service the wide job needs 4 x 5 still at 1, and the narrow one 19: it preempts
    under service; {WIDE}
    => 0: j0 gets 4; 1: j0 leaves, j1 gets 1; 20: j1 ends, j0 gets 4; 25: j0 ends
by time the wide one has 5 to go, and stays
    under time; {WIDE}
    => 0: j0 gets 4; 6: j0 ends, j1 gets 1; 25: j1 ends
the worst off goes first: at 10 j1 has waited for 10, so its rho is 2, and that of j2 is 9
    under fairness; servers 1; guard min_runtime_us=50; j0: 1 GPU for 10; j1: 1 GPU for 10;
    j2: 1 GPU for 1 at 2
    => 0: j0 gets 1; 10: j0 ends, j2 gets 1; 11: j2 ends, j1 gets 1; 21: j1 ends
past 2 us a job is expected to need 98 more, and a new one needs 34 by the mean
    under expected; {TWO}
    => 0: j0 gets 1; 2: j0 leaves, j1 gets 1; 3: j1 ends, j0 gets 1; 51: j0 ends
past 2 us its index falls from 2/6 to 1/98, so the new one goes first
    under gittins; {TWO}
    => 0: j0 gets 1; 2: j0 leaves, j1 gets 1; 3: j1 ends, j0 gets 1; 51: j0 ends
an aged job that loses what it had not begun to use has waited all the time: it gets the GPU of j0,
which takes 30 to leave it, and loses it to j2, which is shorter; but it is older
    under aged time; servers 1; costs suspend_us=30; j0: 1 GPU for 90; j1: 1 GPU for 5 at 12;
    j2: 1 GPU for 1 at 24; until 25
    => 0: j0 gets 1; 12: j0 leaves, j1 gets 1; 24: j1 leaves, j2 gets 1; 25: j2 leaves, j1 gets 1
""",
    POLICIES,
)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_index_runs_jobs_as_the_row_says(case: Play) -> None:
    assert case.seen() == case.sees


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
