"""Jobs that share a GPU in turns, over every way in which agents are reached."""

from itertools import pairwise

import pytest

from shunter.core import ShareTurns, Terminate, Weigh
from shunter.events import Allocation, LaunchFailed, Sharing, TurnEnded, TurnStarted
from tests.contracts.backends import ON_N0, BackendKind, Driver, Program, driven
from tests.contracts.conftest import SUPERVISED_KINDS
from tests.contracts.simulated_nodes import NODES_KINDS
from tests.factories import job_id

pytestmark = pytest.mark.asyncio

SHARED = Allocation(ON_N0.shares, Sharing.sliced)
TWO = (Program("j0", work_ticks=600), Program("j1", work_ticks=600))
GAVE_UP_TICKS = 120
NODES = len(NODES_KINDS)
TAKING_TURNS = SUPERVISED_KINDS[NODES:-1]
"""All but simulated nodes, and the jobs of Slurm, which have GPUs of their own."""


def spans(driver: Driver, job: str) -> list[tuple[int, int]]:
    """Return the turns of a job up to now, by the instants that its supervisor noted."""
    found: list[tuple[int, int]] = []
    for seen in driver.about(job):
        if isinstance(seen, TurnStarted):
            assert not found or found[-1][1] < driver.now_us, "two turns at once"
            found.append((seen.began_us or seen.at_us, driver.now_us))
        elif isinstance(seen, TurnEnded):
            found[-1] = found[-1][0], seen.ended_us or seen.at_us
    return found


def had(driver: Driver, job: str, since_us: int) -> int:
    return sum(max(0, end - max(began, since_us)) for began, end in spans(driver, job))


def both_us(driver: Driver, one: str, other: str, since_us: int) -> int:
    """Return for how long two jobs have had their turns at once since an instant."""
    return sum(
        max(0, min(end, until) - max(began, later, since_us))
        for began, end in spans(driver, one)
        for later, until in spans(driver, other)
    )


async def turns(driver: Driver, count: int) -> int:
    """Let time pass until both have had so many more turns; return from when on."""
    since_us = driver.now_us
    goals = {job: len(spans(driver, job)) + count for job in ("j0", "j1")}
    for _ in range(GAVE_UP_TICKS):
        if all(len(spans(driver, job)) >= goal for job, goal in goals.items()):
            return since_us
        await driver.passes(1)
    raise AssertionError(f"{count} more turns did not come: {driver.seen}")


@pytest.mark.parametrize("kind", TAKING_TURNS)
async def test_two_jobs_share_a_gpu_by_their_weights_until_one_ends(kind: BackendKind) -> None:
    async with driven(kind, *TWO) as driver:
        await driver.starts("j0", SHARED)
        await driver.starts("j1", SHARED)
        await turns(driver, 2)
        first, second = spans(driver, "j0"), spans(driver, "j1")
        both = sorted([*first, *second])
        assert all(end <= began for (_, end), (began, _) in pairwise(both))
        await driver.orders(Weigh(job_id(1), 1, 8.0))
        await turns(driver, 1)
        since_us = await turns(driver, 2)
        assert had(driver, "j1", since_us) > 2 * had(driver, "j0", since_us)
        await driver.orders(Terminate(job_id(1), 1))
        assert (await driver.ends("j1")).exit_code
        alone = len(spans(driver, "j0"))
        await driver.passes(8)
        assert len(spans(driver, "j0")) <= alone + 1
        assert spans(driver, "j0")[-1][1] == driver.now_us, "it has its turn, and keeps it"


@pytest.mark.parametrize("kind", TAKING_TURNS)
async def test_two_that_are_packed_have_their_turns_at_once_and_a_third_has_its_own(
    kind: BackendKind,
) -> None:
    async with driven(kind, *TWO, Program("j2", work_ticks=600)) as driver:
        for job in ("j0", "j1", "j2"):
            await driver.starts(job, SHARED)
        await driver.orders(ShareTurns(job_id(0), 1, (job_id(1),)))
        await turns(driver, 2)
        since_us = await turns(driver, 2)
        packed = both_us(driver, "j0", "j1", since_us)
        print("together", packed, "of", had(driver, "j0", since_us), had(driver, "j1", since_us))
        assert packed >= 0.9 * max(had(driver, job, since_us) for job in ("j0", "j1")) > 0
        assert not any(both_us(driver, job, "j2", 0) for job in ("j0", "j1"))
        await driver.orders(ShareTurns(job_id(1), 1, ()))
        await turns(driver, 2)
        since_us = await turns(driver, 2)
        assert not both_us(driver, "j0", "j1", since_us)


@pytest.mark.parametrize("kind", [*SUPERVISED_KINDS[:NODES], *SUPERVISED_KINDS[-1:]])
async def test_where_no_turns_are_taken_such_a_launch_fails(kind: BackendKind) -> None:
    async with driven(kind, *TWO) as driver:
        await driver.orders(driver.launching("j0", SHARED))
        failed = list[LaunchFailed]()
        for _ in range(GAVE_UP_TICKS):
            failed = [each for each in driver.about("j0") if isinstance(each, LaunchFailed)]
            if failed:
                break
            await driver.passes(1)
        assert ["turns" in each.cause for each in failed] == [True]
