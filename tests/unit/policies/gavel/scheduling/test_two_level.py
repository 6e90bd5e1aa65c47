"""Fairness across groups, and an index policy inside each."""

from typing import Any

import pytest

from shunter.config import completed
from shunter.core import Policy
from shunter.core.planning import PLACEMENTS
from shunter.errors import ConfigError
from shunter.events import AllocationChanged, JobId, Reason, Wait, WaitReasonChanged
from shunter.policies.gavel import TwoLevel
from shunter.workloads import TraceJob
from tests.factories import Outcome, World, node_added, quota, run, trace_job
from tests.unit.policies.plays import Play, plays

TURN_US = 60_000_000
PLACEMENT = PLACEMENTS["consolidated"]()


def two_level(**params: Any) -> Policy[Any]:
    found = TwoLevel.Params.model_validate({"turn": "1m", **params})
    return completed(TwoLevel.build(found, PLACEMENT), PLACEMENT)


def job(name: int, user: str, minutes: int = 1, **fields: Any) -> TraceJob:
    return trace_job(name, lasts=minutes * TURN_US, user=user, **fields)


POLICIES = {
    "two_level": two_level(),
    "weights": two_level(weights={"a": 3.0}),
    "srtf inside": two_level(inside="srtf"),
    "queues": two_level(by="queue"),
}
FOUR = "; ".join(f"j{number}: 1 GPU for 4m, user=a" for number in range(4))
TABLE = plays(
    f"""
a user with many jobs gets no more than one with few
    under two_level; rounds of 1m; servers 2; {FOUR}; j9: 1 GPU for 4m, user=b
    => 0: j0 gets 1, j9 gets 1; 4: j0 ends, j9 ends, j1 gets 1, j2 gets 1;
       8: j1 ends, j2 ends, j3 gets 1; 12: j3 ends
GPUs go by weight
    under weights; rounds of 1m; servers 4; {FOUR}; j9: 1 GPU for 3m, user=b
    => 0: j0 gets 1, j1 gets 1, j2 gets 1, j9 gets 1; 3: j9 ends, j3 gets 1;
       4: j0 ends, j1 ends, j2 ends; 7: j3 ends
a GPU that does not divide goes round
    under two_level; rounds of 1m; servers 1; j0: 1 GPU for 3m, user=a; j1: 1 GPU for 3m, user=b
    => 0: j0 gets 1; 1: j0 leaves, j1 gets 1; 2: j1 leaves, j0 gets 1; 3: j0 leaves, j1 gets 1;
       4: j1 leaves, j0 gets 1; 5: j0 ends, j1 gets 1; 6: j1 ends
the shortest job of each user goes first with srtf inside
    under srtf inside; rounds of 1m; servers 2; j0: 1 GPU for 3m, user=a;
    j1: 1 GPU for 1m, user=a; j2: 1 GPU for 3m, user=b; j3: 1 GPU for 1m, user=b
    => 0: j1 gets 1, j3 gets 1; 1: j1 ends, j3 ends, j0 gets 1, j2 gets 1; 4: j0 ends, j2 ends
what one user cannot use goes to others
    under two_level; rounds of 1m; servers 4; j0: 1 GPU for 2m, user=a; j1: 1 GPU for 2m, user=b;
    j2: 1 GPU for 2m, user=b; j3: 1 GPU for 2m, user=b
    => 0: j0 gets 1, j1 gets 1, j2 gets 1, j3 gets 1; 2: j0 ends, j1 ends, j2 ends, j3 ends
queues share as users do
    under queues; rounds of 1m; servers 2; j9: 1 GPU for 2m, user=a, queue=small;
    {FOUR.replace("4m", "2m").replace("user=a", "user=a, queue=big")}
    => 0: j9 gets 1, j0 gets 1; 2: j9 ends, j0 ends, j1 gets 1, j2 gets 1;
       4: j1 ends, j2 ends, j3 gets 1; 6: j3 ends
""",
    POLICIES,
    TURN_US,
)


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_groups_share_as_the_row_says(case: Play) -> None:
    assert case.seen() == case.sees


def ends(outcome: Outcome) -> dict[str, int]:
    return {name: end_us // TURN_US for name, end_us in outcome.ends_us().items()}


def test_equal_jobs_that_cannot_all_run_are_seldom_preempted_by_default() -> None:
    day = 24 * 60
    jobs = [job(number, user, day * 2 // 3) for number, user in enumerate("abc")]
    world = World(servers=(node_added(gpus=2),), jobs=tuple(jobs), round_us=TURN_US)
    usual = completed(TwoLevel.build(TwoLevel.Params(), PLACEMENT), PLACEMENT)

    outcome = run(world, usual)

    assert max(ends(outcome).values()) <= day + 1
    taken = [each for each in outcome.of(AllocationChanged) if not each.allocation.shares]
    assert 0 < len(taken) <= 48


def test_job_whose_queue_may_use_no_more_waits_for_its_quota() -> None:
    jobs = [job(number, "a", 3, gpus=2, queue="small") for number in range(2)]
    jobs += [job(2, "b", 3, gpus=1, queue="small"), job(3, "b", 3, gpus=5)]
    world = World(
        servers=(node_added(gpus=5),),
        queues=(quota("small", 3),),
        jobs=tuple(jobs),
        round_us=TURN_US,
        until_us=TURN_US,
    )

    outcome = run(world, two_level())

    waits = {event.job_id: event.wait for event in outcome.of(WaitReasonChanged)}
    assert waits[JobId("j1")] == Wait(Reason.quota, 2, 0)
    assert {job_id for job_id, wait in waits.items() if wait.reason is Reason.quota} == {"j1"}


def test_oracle_inside_makes_an_oracle() -> None:
    assert two_level(inside="srtf").oracle
    assert not two_level(inside="las").oracle


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"inside": "nix"}, "policy.params.two_level.inside: there is no policy 'nix'"),
        ({"inside": "gavel"}, "policy 'gavel' has no index to order jobs by"),
        ({"inside_params": {"a": 1}}, "policy.params.two_level.inside_params.a: Extra inputs"),
    ],
)
def test_what_is_inside_must_be_an_index_policy(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        two_level(**params)
