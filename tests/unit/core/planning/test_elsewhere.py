"""A retry after a failure in its first seconds goes elsewhere, where there is an elsewhere."""

from typing import Any

from shunter.core import AttemptExited, SubmitJob
from shunter.core.fold import EARLY_US
from shunter.events import AttemptStarted
from tests.factories import World, job_id, job_spec, policy, servers

J0 = job_id(0)
Places = list[dict[str, int]]


def places(
    *gpus: int, after_us: int = 1_000, is_on: bool = True, tries: int = 3, **spec: Any
) -> Places:
    """Return where the attempts of a job start that fails so soon each time."""
    world = World(servers=servers(*gpus), is_live=True, retries_elsewhere=is_on)
    core, _ = world.scheduler(policy(), instant=False)
    found, now_us = Places(), 0
    core.step(now_us, [SubmitJob(now_us, J0, job_spec(retries=9, **spec))])
    for attempt in range(1, tries + 1):
        shares = core.state.jobs[J0].allocation.shares
        found.append({share.node: share.gpu_mask for share in shares})
        core.step(now_us, [AttemptStarted(now_us, J0, attempt)])
        now_us += after_us
        core.step(now_us, [AttemptExited(now_us, J0, attempt, 1, released=True)])
        now_us = core.deadline_us(now_us) or now_us
        core.step(now_us, ())
    return found


def test_retry_avoids_the_servers_of_early_failures_and_then_their_gpus() -> None:
    assert places(4, 4) == [{"n0": 0b1}, {"n1": 0b1}, {"n0": 0b10}]


def test_retry_on_the_only_server_gets_other_gpus() -> None:
    assert places(4) == [{"n0": 0b1}, {"n0": 0b10}, {"n0": 0b100}]


def test_retry_stays_where_there_is_no_elsewhere() -> None:
    assert places(2, gpus=2) == [{"n0": 0b11}] * 3


def test_retry_of_an_attempt_that_lived_longer_goes_where_the_policy_says() -> None:
    assert places(4, 4, after_us=EARLY_US + 1) == [{"n0": 0b1}] * 3


def test_logs_of_before_are_decided_as_they_were() -> None:
    assert places(4, 4, is_on=False) == [{"n0": 0b1}] * 3
