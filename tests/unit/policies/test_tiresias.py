"""Tiresias' queues on instants worked out by hand."""

from typing import Any

import pytest
from pydantic import ValidationError

from shunter.core import NO_GUARDS, Job, Policy, State, View
from shunter.core.planning import PLACEMENTS
from shunter.events import JobId, JobSpec
from shunter.policies import FeedbackQueues, QueueRanks, Tiresias, TiresiasParams
from tests.unit.policies.plays import Play, plays, ranked

BOUNDS_GPU_US = (40, 120)


def queues(knob: float = 0.0, *, counts_gpus: bool = True) -> Policy[Any]:
    return ranked(FeedbackQueues(BOUNDS_GPU_US, knob, counts_gpus), "first_fit")


WIDE = "servers 8; j0: 8 GPUs for 50; j1: 8 GPUs for 3 at 1"
LATE = "servers 8; j0: 8 GPUs for 30; j1: 1 GPU for 200 at 10; j2: 8 GPUs for 4 at 41"
POLICIES = {
    "queues": queues(),
    "time": queues(counts_gpus=False),
    "knob 1": queues(1.0),
    "knob 2": queues(2.0),
}
# With a knob of 2 j0 falls at 5 and has to leave for j1, which is in the first queue. It ran 10, so
# it is promoted after 20 more, at 30. When j1 falls, it stands before j2. Its service counts from
# zero again: 40 GPU-us take it 5 us. It ran 5 since its promotion, so the next one comes after 10.
# With a knob of 1 they take turns of 40 us, each promoted when it has waited for 40. Had the 40 us
# counted that j1 waited for its first turn, it would stand in the first queue at 80, as j0 does.
TABLE = plays(
    f"""
8 GPUs reach 40 GPU-us after 5 us, whatever anybody's timer says
    under queues; {WIDE}
    => 0: j0 gets 8; 5: j0 leaves, j1 gets 8; 8: j1 ends, j0 gets 8; 53: j0 ends
a threshold between two instants is reached at the later one: 39 GPU-us at 13, 42 at 14
    under queues; servers 3; j0: 3 GPUs for 50; j1: 3 GPUs for 2 at 1
    => 0: j0 gets 3; 14: j0 leaves, j1 gets 3; 16: j1 ends, j0 gets 3; 52: j0 ends
one dimension counts time and not GPUs
    under time; {WIDE}
    => 0: j0 gets 8; 40: j0 leaves, j1 gets 8; 43: j1 ends, j0 gets 8; 53: j0 ends
one that fell stands behind those that fell before: j0 at 40, j1 at 80
    under queues; servers 1; j0: 1 GPU for 60; j1: 1 GPU for 60
    => 0: j0 gets 1; 40: j0 leaves, j1 gets 1; 80: j1 leaves, j0 gets 1; 100: j0 ends, j1 gets 1;
       120: j1 ends
one that waits too long is promoted and starts anew
    under knob 2; {LATE}
    => 0: j0 gets 8; 10: j0 leaves, j1 gets 1; 50: j1 leaves, j0 gets 8; 55: j0 leaves, j2 gets 8;
       59: j2 ends, j1 gets 1; 65: j1 leaves, j0 gets 8; 70: j0 leaves, j1 gets 1;
       80: j1 leaves, j0 gets 8; 85: j0 leaves, j1 gets 1; 95: j1 leaves, j0 gets 8;
       100: j0 ends, j1 gets 1; 234: j1 ends
a knob of zero never promotes: j0 goes on for 5 us, and falls behind j1, which falls at 59 + 80
    under queues; {LATE}
    => 0: j0 gets 8; 10: j0 leaves, j1 gets 1; 50: j1 leaves, j2 gets 8; 54: j2 ends, j0 gets 8;
       59: j0 leaves, j1 gets 1; 139: j1 leaves, j0 gets 8; 154: j0 ends, j1 gets 1; 234: j1 ends
waiting before the first run does not count
    under knob 1; servers 1; j0: 1 GPU for 100; j1: 1 GPU for 100
    => 0: j0 gets 1; 40: j0 leaves, j1 gets 1; 80: j1 leaves, j0 gets 1; 120: j0 leaves, j1 gets 1;
       160: j1 leaves, j0 gets 1; 180: j0 ends, j1 gets 1; 200: j1 ends
""",
    POLICIES,
)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_queues_run_jobs_as_the_row_says(case: Play) -> None:
    assert case.seen() == case.sees


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
