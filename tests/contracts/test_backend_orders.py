"""What orders do that come twice, too late, or for an attempt that is over: nothing.

Every order is idempotent on its key (job, attempt). A live scheduler repeats the orders whose
answers were lost, and an order can meet an end on its way.
"""

import pytest

from shunter.core import (
    AttemptExited,
    Fence,
    Launch,
    Migrate,
    ReshapeAttempt,
    Resume,
    SuspendAttempt,
    Terminate,
)
from shunter.events import Allocation, AttemptStarted, GpusReleased, JobSuspended, NodeName, Share
from tests.contracts.backends import ON_N0, ON_N1, BackendKind, Program, driven, ended_us
from tests.factories import job_id, job_spec

pytestmark = pytest.mark.asyncio

J0 = job_id(0)

LATE_ORDERS = [
    pytest.param(Launch(J0, 1, ON_N0, job_spec()), id="launch"),
    pytest.param(SuspendAttempt(J0, 1), id="suspend"),
    pytest.param(Migrate(J0, 1, ON_N1), id="migrate"),
    pytest.param(Terminate(J0, 1), id="terminate"),
    pytest.param(Fence(J0, 1), id="fence"),
]
Order = Launch | SuspendAttempt | Migrate | Terminate | Fence


@pytest.mark.parametrize("order", LATE_ORDERS)
async def test_order_for_an_earlier_attempt_has_no_effect(kind: BackendKind, order: Order) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.leaves(SuspendAttempt(J0, 1))
        resumed_us = await driver.starts(on=ON_N1, attempt=2)
        await driver.passes(2)
        await driver.orders(order)
        exited = await driver.ends(attempt=2)
        assert exited.exit_code == 0
        # With 3 ticks of work done or almost, 5 and what was lost are left.
        assert ended_us(exited) <= resumed_us + driver.ticks(6) + kind.slack_us
        assert driver.of(JobSuspended, J0, 2) == []
        assert len(driver.of(AttemptExited, J0)) == 1


@pytest.mark.parametrize("order", LATE_ORDERS)
async def test_order_for_a_job_that_has_gone_has_no_effect(kind: BackendKind, order: Order) -> None:
    async with driven(kind, Program(work_ticks=3)) as driver:
        await driver.starts()
        await driver.ends()
        told = driver.about(J0)
        await driver.orders(order)
        await driver.passes(10)
        assert driver.about(J0) == told


async def test_launch_of_a_running_attempt_changes_nothing(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        started_us = await driver.starts()
        await driver.passes(4)
        await driver.orders(driver.launching())
        exited = await driver.ends()
        assert ended_us(exited) <= started_us + driver.ticks(8) + kind.slack_us
        assert len(driver.of(AttemptStarted, J0)) == (0 if driver.instant else 1)


async def test_resumption_of_a_running_attempt_changes_nothing(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=12)) as driver:
        await driver.starts()
        await driver.passes(4)
        await driver.leaves(SuspendAttempt(J0, 1))
        resumed_us = await driver.starts(attempt=2)
        await driver.passes(4)
        await driver.orders(Resume(J0, 2, ON_N0, driver.stage.spec(J0)))
        exited = await driver.ends(attempt=2)
        # 8 are left of 12, and what was lost with the suspension.
        assert ended_us(exited) <= resumed_us + driver.ticks(9) + kind.slack_us
        assert len(driver.of(AttemptStarted, J0, 2)) == (0 if driver.instant else 1)


@pytest.mark.parametrize(
    "order", [SuspendAttempt(J0, 1), Migrate(J0, 1, ON_N1)], ids=["suspend", "move"]
)
async def test_job_told_twice_to_leave_leaves_once(
    kind: BackendKind, order: SuspendAttempt | Migrate
) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.orders(order)
        await driver.orders(order)
        await driver.passes(10)
        times = 0 if driver.instant else 1
        assert len(driver.of(JobSuspended, J0)) == times
        assert len(driver.of(GpusReleased, J0)) == times


async def test_running_job_gets_other_shares_and_works_on(kind: BackendKind) -> None:
    """Once, again, for another attempt, and too late: it starts once and ends once."""

    def reshaping(cpus_milli: int, attempt: int = 1) -> ReshapeAttempt:
        return ReshapeAttempt(J0, attempt, sized(cpus_milli))

    async with driven(kind, Program(work_ticks=8)) as driver:
        started_us = await driver.starts(on=sized(500))
        await driver.passes(2)
        await driver.orders(reshaping(1000), reshaping(1000), reshaping(300, attempt=2))
        await driver.passes(2)
        await driver.orders(reshaping(700))
        exited = await driver.ends()
        assert exited.exit_code == 0
        assert ended_us(exited) <= started_us + driver.ticks(8) + kind.slack_us
        told = driver.about(J0)
        await driver.orders(reshaping(500))
        await driver.passes(2)
        assert driver.about(J0) == told
        assert len(driver.of(AttemptStarted, J0)) == (0 if driver.instant else 1)
        assert driver.of(JobSuspended, J0) == []


def sized(cpus_milli: int) -> Allocation:
    """Return a GPU with CPUs and memory."""
    return Allocation((Share(NodeName("n0"), 0b0001, cpus_milli, 500),))


async def test_job_terminated_twice_exits_once(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=30)) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.orders(Terminate(J0, 1), Terminate(J0, 1))
        await driver.orders(Terminate(J0, 1))
        await driver.passes(10)
        assert len(driver.of(AttemptExited, J0)) == 1


async def test_fence_of_an_attempt_that_left_lets_the_job_come_back(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.leaves(SuspendAttempt(J0, 1))
        await driver.orders(Fence(J0, 1))
        await driver.starts(attempt=2)
        assert (await driver.ends(attempt=2)).exit_code == 0
