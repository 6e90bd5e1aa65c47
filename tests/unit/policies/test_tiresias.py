"""Tiresias' queues on instants worked out by hand."""

from typing import Any

import pytest
from pydantic import ValidationError

from shunter.core import NO_GUARDS, Job, State, View
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import RankedPolicy
from shunter.events import AllocationChanged, JobId, JobSpec
from shunter.policies import FeedbackQueues, QueueRanks, Tiresias, TiresiasParams
from tests.factories import Outcome, World, run, servers, trace_job

BOUNDS_GPU_US = (40, 120)


def queues(knob: float = 0.0, *, counts_gpus: bool = True) -> RankedPolicy:
    rules = FeedbackQueues(BOUNDS_GPU_US, knob, counts_gpus)
    return RankedPolicy(rules, PLACEMENTS["first_fit"]())


def shifts(outcome: Outcome) -> list[tuple[int, str, int]]:
    """Return who got how many GPUs when."""
    return [
        (event.at_us, str(event.job_id), event.allocation.gpus)
        for event in outcome.of(AllocationChanged)
    ]


def test_wide_job_falls_at_its_threshold_over_its_gpus() -> None:
    # 8 GPUs reach 40 GPU-us after 5 us, whatever anybody's timer says.
    jobs = (trace_job(0, 8, lasts=50), trace_job(1, 8, at=1, lasts=3))
    outcome = run(World(servers=servers(8), jobs=jobs), queues())
    assert shifts(outcome) == [(0, "j0", 8), (5, "j0", 0), (5, "j1", 8), (8, "j0", 8)]
    assert outcome.ends_us() == {"j1": 8, "j0": 53}


def test_threshold_between_two_instants_is_reached_at_the_later_one() -> None:
    # 3 GPUs have 39 GPU-us after 13 us, and 42 after 14.
    jobs = (trace_job(0, 3, lasts=50), trace_job(1, 3, at=1, lasts=2))
    assert shifts(run(World(servers=servers(3), jobs=jobs), queues()))[1] == (14, "j0", 0)


def test_one_dimension_counts_time_and_not_gpus() -> None:
    jobs = (trace_job(0, 8, lasts=50), trace_job(1, 8, at=1, lasts=3))
    outcome = run(World(servers=servers(8), jobs=jobs), queues(counts_gpus=False))
    assert shifts(outcome)[1] == (40, "j0", 0)


def test_fallen_job_stands_behind_those_that_fell_before() -> None:
    jobs = tuple(trace_job(number, 1, lasts=60) for number in range(2))
    outcome = run(World(servers=servers(1), jobs=jobs), queues())
    # j0 falls at 40, j1 at 80; then j0 entered the second queue first, and keeps it to its end.
    assert shifts(outcome) == [
        (0, "j0", 1),
        (40, "j0", 0),
        (40, "j1", 1),
        (80, "j1", 0),
        (80, "j0", 1),
        (100, "j1", 1),
    ]


def test_job_that_waits_too_long_is_promoted_and_starts_anew() -> None:
    jobs = (
        trace_job(0, 8, lasts=30),
        trace_job(1, 1, at=10, lasts=200),
        trace_job(2, 8, at=41, lasts=4),
    )
    outcome = run(World(servers=servers(8), jobs=jobs), queues(knob=2.0))
    assert shifts(outcome)[:10] == [
        # j0 falls at 5 and has to leave for j1, which is in the first queue.
        (0, "j0", 8),
        (10, "j0", 0),
        (10, "j1", 1),
        # It ran 10, so it is promoted after 20 more, at 30. When j1 falls, it stands before j2.
        (50, "j1", 0),
        (50, "j0", 8),
        # Its service counts from zero again: 40 GPU-us take it 5 us. Then it is behind j1.
        (55, "j0", 0),
        (55, "j2", 8),
        (59, "j1", 1),
        # It ran 5 since its promotion, so the next one comes after 10.
        (65, "j1", 0),
        (65, "j0", 8),
    ]


def test_knob_of_zero_never_promotes() -> None:
    jobs = (
        trace_job(0, 8, lasts=30),
        trace_job(1, 1, at=10, lasts=200),
        trace_job(2, 8, at=41, lasts=4),
    )
    outcome = run(World(servers=servers(8), jobs=jobs), queues())
    # j2 runs from 50, when j1 falls, to 54; j0 goes on for 5 us, falls behind j1, which falls
    # at 59 + 80, and runs its last 15 us.
    assert outcome.ends_us() == {"j2": 54, "j0": 154, "j1": 234}


def test_waiting_before_the_first_run_does_not_count() -> None:
    jobs = (trace_job(0, 1, lasts=100), trace_job(1, 1, lasts=100))
    outcome = run(World(servers=servers(1), jobs=jobs), queues(knob=1.0))
    # They take turns of 40 us, each promoted when it has waited for 40. Had the 40 us counted that
    # j1 waited for its first turn, it would stand in the first queue at 80, as j0 does.
    assert shifts(outcome)[3:6] == [(80, "j1", 0), (80, "j0", 1), (120, "j0", 0)]
    assert outcome.ends_us() == {"j0": 180, "j1": 200}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"queues_gpu_s": [0, 5]}, "thresholds above 0 that strictly rise"),
    ({"queues_gpu_s": [5, 5]}, "thresholds above 0 that strictly rise"),
    ({"queues": 2}, "2 queues need 1 thresholds, but queues_gpu_s has 2"),
    ({"promote_knob": -1}, "greater than or equal to 0"),
    ({"promote_knob": float("nan")}, "finite"),
    ({"attained": "gpus"}, "'gpu_time' or 'time'"),
]


@pytest.mark.parametrize(("table", "message"), BAD, ids=[str(table) for table, _ in BAD])
def test_wrong_parameter_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TiresiasParams.model_validate(
            {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in table.items()
            }
        )


def test_parameters_are_in_gpu_seconds() -> None:
    table = {"queues_gpu_s": (3250, "2h"), "queues": 3, "promote_knob": 8}
    params = TiresiasParams.model_validate(table)
    index = Tiresias.build(params, PLACEMENTS["spread"]()).index
    assert index == FeedbackQueues((3_250_000_000, 7_200_000_000), 8.0)


def standing(ranks: QueueRanks, job: Job, now_us: int) -> tuple[int, int, int | None]:
    """Return a job's queue, when it entered it, and when it changes next."""
    view = View(State(), NO_GUARDS, oracle=False, all_reasons=False)
    view.now_us = now_us
    rank, changes_at = ranks.standing(job, view)
    return rank >> 56, rank & (1 << 56) - 1, changes_at


def waiting(*, held_us: int, since_us: int) -> Job:
    """Return a job that has held one GPU for a while and waits again."""
    spec = JobSpec(1)
    job = Job(JobId("j0"), 0, spec, spec.demand(), 0)
    job.held_us, job.waiting_since_us = held_us, since_us
    return job


def test_promotion_while_nobody_looks_is_made_when_the_job_is_launched() -> None:
    """As of a job that was given GPUs which others have yet to leave."""
    ranks = QueueRanks(FeedbackQueues((10,), 2.0, counts_gpus=False), {})
    job = waiting(held_us=12, since_us=20)
    assert standing(ranks, job, 20) == (1, 18, 44)
    job.since_us, job.waiting_since_us = 50, None
    assert standing(ranks, job, 50) == (0, 44, 60)


def test_job_that_had_waited_for_long_enough_is_promoted_just_after_it_fell() -> None:
    """Not in the round that makes it leave, so that the next one finds it promoted."""
    ranks = QueueRanks(FeedbackQueues((20,), 1.0, counts_gpus=False), {})
    job = waiting(held_us=19, since_us=30)
    assert standing(ranks, job, 30) == (0, 0, None)
    job.since_us, job.waiting_since_us = 51, None
    assert standing(ranks, job, 51) == (0, 0, 52)
    job.since_us, job.waiting_since_us, job.held_us = None, 52, 20
    assert standing(ranks, job, 52) == (1, 52, 53)
    assert standing(ranks, job, 53) == (0, 53, None)
