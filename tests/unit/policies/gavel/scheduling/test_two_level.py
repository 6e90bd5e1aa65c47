"""Fairness across groups, and an index policy inside each."""

from typing import Any

import pytest

from shunter.config import completed
from shunter.core import Policy
from shunter.core.planning import PLACEMENTS
from shunter.errors import ConfigError
from shunter.events import AllocationChanged, JobId, PlanRejected, Reason, Wait, WaitReasonChanged
from shunter.policies.gavel import TwoLevel
from shunter.workloads import TraceJob
from tests.factories import Outcome, World, node_added, quota, run, trace_job

TURN_US = 60_000_000
PLACEMENT = PLACEMENTS["consolidated"]()


def two_level(**params: Any) -> Policy[Any]:
    found = TwoLevel.Params.model_validate({"turn": "1m", **params})
    return completed(TwoLevel.build(found, PLACEMENT), PLACEMENT)


def job(name: int, user: str, minutes: int = 1, **fields: Any) -> TraceJob:
    return trace_job(name, lasts=minutes * TURN_US, user=user, **fields)


def played(gpus: int, *jobs: TraceJob, **params: Any) -> Outcome:
    world = World(servers=(node_added(gpus=gpus),), jobs=jobs, round_us=TURN_US)
    outcome = run(world, two_level(**params))
    assert outcome.of(PlanRejected) == []
    return outcome


def ends(outcome: Outcome) -> dict[str, int]:
    return {name: end_us // TURN_US for name, end_us in outcome.ends_us().items()}


def test_user_with_many_jobs_gets_no_more_than_one_with_few() -> None:
    jobs = [job(number, "a", 4) for number in range(4)]

    outcome = played(2, *jobs, job(9, "b", 4))

    assert ends(outcome)["j9"] == 4


def test_gpus_go_by_weight() -> None:
    jobs = [job(number, "a", 4) for number in range(4)] + [job(9, "b", 3)]

    outcome = played(4, *jobs, weights={"a": 3.0})

    assert ends(outcome) == {"j0": 4, "j1": 4, "j2": 4, "j3": 7, "j9": 3}


def test_equal_jobs_that_cannot_all_run_are_seldom_preempted_by_default() -> None:
    day = 24 * 60
    jobs = [job(number, user, day * 2 // 3) for number, user in enumerate("abc")]
    world = World(servers=(node_added(gpus=2),), jobs=tuple(jobs), round_us=TURN_US)
    usual = completed(TwoLevel.build(TwoLevel.Params(), PLACEMENT), PLACEMENT)

    outcome = run(world, usual)

    assert max(ends(outcome).values()) <= day + 1
    taken = [each for each in outcome.of(AllocationChanged) if not each.allocation.shares]
    assert 0 < len(taken) <= 48


def test_gpu_that_does_not_divide_goes_round() -> None:
    outcome = played(1, job(0, "a", 3), job(1, "b", 3))

    assert sorted(ends(outcome).values()) == [5, 6]


def test_shortest_job_of_each_user_goes_first_with_srtf_inside() -> None:
    jobs = job(0, "a", 3), job(1, "a", 1), job(2, "b", 3), job(3, "b", 1)

    outcome = played(2, *jobs, inside="srtf")

    assert ends(outcome) == {"j0": 4, "j1": 1, "j2": 4, "j3": 1}


def test_what_one_user_cannot_use_goes_to_others() -> None:
    outcome = played(4, job(0, "a", 2), *(job(number, "b", 2) for number in (1, 2, 3)))

    assert set(ends(outcome).values()) == {2}


def test_queues_share_as_users_do() -> None:
    jobs = [job(number, "a", 2, queue="big") for number in range(4)]

    outcome = played(2, *jobs, job(9, "a", 2, queue="small"), by="queue")

    assert ends(outcome)["j9"] == 2


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
