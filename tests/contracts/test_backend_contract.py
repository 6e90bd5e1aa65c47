"""What every backend does, wherever jobs really run: one suite, run over every kind.

What repeated, late and outdated orders do stands in test_backend_orders.py.
"""

import pytest

from shunter.core import AttemptExited, Migrate, SuspendAttempt, Terminate
from shunter.events import AttemptStarted, GpusReleased, JobSuspended, NodeName
from tests.contracts.backends import ON_N0, ON_N1, BackendKind, Driver, Program, driven, ended_us
from tests.factories import allocation, job_id, packed

pytestmark = pytest.mark.asyncio

J0, J1 = job_id(0), job_id(1)
WINDOWS_MOST = 20  # of three seconds with real processes, on a machine that is busy
SHARED = packed(n0=0b0001)


async def test_launch_leads_to_the_start_of_that_attempt(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(4)
        started = driver.of(AttemptStarted, J0)
        assert [(seen.attempt, seen.migrated_from) for seen in started] == (
            [] if driver.instant else [(1, ())]
        )


async def test_nothing_is_observed_of_a_job_that_was_not_launched(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        assert await driver.passes(10) == []


@pytest.mark.parametrize("code", [0, 1])
async def test_end_is_an_exit_with_its_code_and_told_once(kind: BackendKind, code: int) -> None:
    async with driven(kind, Program(exit_code=code)) as driver:
        await driver.starts()
        await driver.ends()
        await driver.passes(10)
        exits = driver.of(AttemptExited, J0)
        assert [(seen.attempt, seen.exit_code) for seen in exits] == [(1, code)]
        assert_released_once(driver, "j0", 1)


async def test_job_ends_when_its_work_is_done(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        ordered_us = driver.now_us
        started_us = await driver.starts()
        end_us = ended_us(await driver.ends())
        assert end_us >= ordered_us + driver.ticks(8)
        assert end_us <= started_us + driver.ticks(8) + kind.slack_us


async def test_end_is_not_seen_before_it_comes(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        await driver.starts()
        await driver.passes(6)
        assert driver.of(AttemptExited, J0) == []


async def test_suspension_stops_the_job_and_then_frees_its_gpus(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(3)
        before = len(driver.about(J0))
        await driver.leaves(SuspendAttempt(J0, 1))
        await driver.passes(20)
        told = driver.about(J0)[before:]
        left = [(JobSuspended, 1), (GpusReleased, 1)]
        assert [(type(seen), getattr(seen, "attempt", None)) for seen in told] == (
            [] if driver.instant else left
        )


async def test_resumed_job_does_the_rest_of_its_work_elsewhere(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        ordered_us = driver.now_us
        started_us = await driver.starts(on=ON_N0)
        await driver.passes(4)
        left_us = await driver.leaves(SuspendAttempt(J0, 1))
        await driver.passes(20)
        ordered_again_us = driver.now_us
        resumed_us = await driver.starts(on=ON_N1, attempt=2)
        exited = await driver.ends(attempt=2)
        assert exited.exit_code == 0
        # All of it, and but once: doing the first half again would take 4 ticks more.
        held_us = left_us - ordered_us + ended_us(exited) - ordered_again_us
        worked_us = left_us - started_us + ended_us(exited) - resumed_us
        assert held_us >= driver.ticks(8)
        assert worked_us <= driver.ticks(8) + 2 * kind.slack_us


async def test_resumed_attempt_starts_once(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.leaves(SuspendAttempt(J0, 1))
        await driver.starts(attempt=2)
        await driver.ends(attempt=2)
        started = driver.of(AttemptStarted, J0)
        assert [(seen.attempt, seen.migrated_from) for seen in started] == (
            [] if driver.instant else [(1, ()), (2, ())]
        )


async def test_exit_of_a_resumed_job_has_the_code_of_the_job(kind: BackendKind) -> None:
    async with driven(kind, Program(exit_code=1)) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.leaves(SuspendAttempt(J0, 1))
        await driver.starts(attempt=2)
        await driver.ends(attempt=2)
        exits = [(seen.attempt, seen.exit_code) for seen in driver.of(AttemptExited, J0)]
        assert exits == [(2, 1)]


async def test_job_can_be_suspended_again_and_again(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=16)) as driver:
        worked_us = 0
        for attempt in (1, 2, 3):
            started_us = await driver.starts(attempt=attempt)
            await driver.passes(3)
            worked_us += await driver.leaves(SuspendAttempt(J0, attempt)) - started_us
        resumed_us = await driver.starts(attempt=4)
        exited = await driver.ends(attempt=4)
        worked_us += ended_us(exited) - resumed_us
        assert worked_us <= driver.ticks(16) + 4 * kind.slack_us


async def test_moved_job_says_where_it_came_from_and_does_the_rest(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=8)) as driver:
        ordered_us = driver.now_us
        started_us = await driver.starts(on=ON_N0)
        await driver.passes(4)
        left_us = await driver.leaves(Migrate(J0, 1, ON_N1))
        ordered_again_us = driver.now_us
        moved_us = await driver.starts(on=ON_N1, attempt=2)
        exited = await driver.ends(attempt=2)
        came_from = [seen.migrated_from for seen in driver.of(AttemptStarted, J0, 2)]
        assert came_from == ([] if driver.instant else [(NodeName("n0"),)])
        assert exited.exit_code == 0
        assert left_us - ordered_us + ended_us(exited) - ordered_again_us >= driver.ticks(8)
        worked_us = left_us - started_us + ended_us(exited) - moved_us
        assert worked_us <= driver.ticks(8) + 2 * kind.slack_us


async def test_gang_runs_across_servers(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts(on=allocation(n0=0b0001, n1=0b0001))
        exited = await driver.ends()
        assert exited.exit_code == 0
        assert_released_once(driver, "j0", 1)


async def test_terminated_job_is_gone_and_did_not_end_well(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=30)) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.orders(Terminate(J0, 1))
        await driver.ends()
        await driver.passes(40)
        exits = driver.of(AttemptExited, J0)
        assert [(seen.attempt, seen.exit_code == 0) for seen in exits] == [(1, False)]
        assert_released_once(driver, "j0", 1)


@pytest.mark.parametrize("attempt", [0, 1])
async def test_termination_of_a_waiting_job_is_not_answered(
    kind: BackendKind, attempt: int
) -> None:
    async with driven(kind) as driver:
        await driver.orders(Terminate(J0, attempt))
        assert await driver.passes(10) == []


async def test_termination_of_a_suspended_job_is_not_answered(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.leaves(SuspendAttempt(J0, 1))
        told = driver.about(J0)
        await driver.orders(Terminate(J0, 1))
        await driver.passes(20)
        assert driver.about(J0) == told


async def test_job_terminated_while_it_leaves_frees_its_gpus_once(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=30)) as driver:
        await driver.starts()
        await driver.passes(3)
        await driver.orders(SuspendAttempt(J0, 1), Terminate(J0, 1))
        await driver.passes(40)
        assert driver.of(AttemptStarted, J0, 2) == []
        if not driver.instant:
            assert_released_once(driver, "j0", 1)


@pytest.mark.parametrize("order", [SuspendAttempt(J1, 1), Migrate(J1, 1, ON_N1), Terminate(J1, 1)])
async def test_jobs_do_not_disturb_each_other(
    kind: BackendKind, order: SuspendAttempt | Migrate | Terminate
) -> None:
    async with driven(kind, Program("j0", 8), Program("j1", 30)) as driver:
        started_us = await driver.starts("j0", ON_N0)
        await driver.starts("j1", allocation(n0=0b0010))
        await driver.passes(2)
        await driver.orders(order)
        exited = await driver.ends("j0")
        assert exited.exit_code == 0
        assert ended_us(exited) <= started_us + driver.ticks(8) + kind.slack_us
        assert driver.of(JobSuspended, J0) == []


async def test_jobs_that_share_a_gpu_both_run_to_their_ends(kind: BackendKind) -> None:
    """How fast is for each kind to say: alone it is 8 ticks, in turns up to 16."""
    async with driven(kind, Program("j0", 8), Program("j1", 8, exit_code=1)) as driver:
        for job in ("j0", "j1"):
            await driver.orders(driver.launching(job, SHARED))
        codes = [(await driver.ends(job)).exit_code for job in ("j0", "j1")]
        assert codes == [0, 1]
        assert_released_once(driver, "j0", 1)
        assert_released_once(driver, "j1", 1)


@pytest.mark.parametrize("order", [SuspendAttempt(J1, 1), Migrate(J1, 1, ON_N1), Terminate(J1, 1)])
async def test_partner_that_leaves_a_shared_gpu_leaves_the_other_at_work(
    kind: BackendKind, order: SuspendAttempt | Migrate | Terminate
) -> None:
    async with driven(kind, Program("j0", 8), Program("j1", 30)) as driver:
        await driver.starts("j0", SHARED)
        await driver.starts("j1", SHARED)
        await driver.passes(2)
        await driver.orders(order)
        assert (await driver.ends("j0")).exit_code == 0
        assert driver.of(JobSuspended, J0) == []
        assert_released_once(driver, "j0", 1)


async def test_failure_of_a_job_is_its_own(kind: BackendKind) -> None:
    async with driven(kind, Program("j0", 16), Program("j1", 3, exit_code=1)) as driver:
        await driver.starts("j0", ON_N0)
        await driver.starts("j1", allocation(n0=0b0010))
        # In this order, for what one kind starts at once another starts a second later.
        exits = [(await driver.ends(job)).exit_code for job in ("j1", "j0")]
        assert exits == [1, 0]
        assert driver.of(JobSuspended, J0) == []


async def test_orders_given_together_are_all_carried_out(kind: BackendKind) -> None:
    async with driven(kind, Program("j0", 30), Program("j1", 30), Program("j2", 4)) as driver:
        await driver.starts("j0", ON_N0)
        await driver.starts("j1", ON_N1)
        await driver.passes(2)
        on_second = allocation(n1=0b0010)
        await driver.orders(
            SuspendAttempt(J0, 1), Terminate(J1, 1), driver.launching("j2", on_second)
        )
        await driver.ends("j2")
        assert (await driver.ends("j1")).exit_code != 0
        assert len(driver.of(GpusReleased, J0, 1)) == (0 if driver.instant else 1)
        assert driver.of(AttemptExited, J0) == []


async def test_gpus_of_one_that_left_serve_the_next(kind: BackendKind) -> None:
    async with driven(kind, Program("j0", 30), Program("j1", 4)) as driver:
        await driver.starts("j0", ON_N0)
        await driver.passes(2)
        await driver.leaves(SuspendAttempt(J0, 1))
        await driver.starts("j1", ON_N0)
        assert (await driver.ends("j1")).exit_code == 0


async def test_observation_with_nothing_to_see_ends_at_its_deadline(kind: BackendKind) -> None:
    async with driven(kind) as driver:
        until_us = driver.now_us + driver.ticks(3) + 1
        for _ in range(2):
            assert not await driver.observes(until_us)
            assert driver.now_us == until_us


async def test_observation_of_a_working_job_ends_at_its_deadline(kind: BackendKind) -> None:
    async with driven(kind, Program(work_ticks=30)) as driver:
        await driver.starts()
        until_us = driver.now_us + driver.ticks(3) + 1
        while await driver.observes(until_us):
            pass
        assert driver.now_us == until_us
        assert driver.of(AttemptExited, J0) == []


@pytest.mark.parametrize("gather_ticks", [1, 4])
async def test_gathering_loses_and_doubles_nothing_and_keeps_the_deadline(
    kind: BackendKind, gather_ticks: int
) -> None:
    async with driven(kind, Program("j0", 3), Program("j1", 7), Program("j2", 11)) as driver:
        for number in range(3):
            await driver.orders(driver.launching(f"j{number}", allocation(n0=1 << number)))
        backend, now_us = driver.stage.backend, driver.now_us
        exits: list[str] = []
        windows = 0
        while len(exits) < 3 and windows < WINDOWS_MOST:
            windows += 1
            until_us = now_us + driver.ticks(31) // 2
            while now_us < until_us:
                now_us, inputs = await backend.observe(until_us, driver.ticks(gather_ticks))
                exits += [seen.job_id for seen in inputs if isinstance(seen, AttemptExited)]
                assert all(seen.at_us <= now_us for seen in inputs)
            assert now_us == until_us
        assert sorted(exits) == [J0, J1, job_id(2)]
        assert windows == 1 or not driver.instant, "what works eleven ticks has ended by then"


def assert_released_once(driver: Driver, job: str, attempt: int) -> None:
    """Hold that the GPUs of an attempt were said to be free once, in one way or the other."""
    exits = [seen for seen in driver.of(AttemptExited, job, attempt) if seen.released]
    assert len(exits) + len(driver.of(GpusReleased, job, attempt)) == 1
