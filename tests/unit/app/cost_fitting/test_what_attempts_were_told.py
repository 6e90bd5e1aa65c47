"""What a log says that attempts were told: to leave, to share their GPUs, to take turns."""

from pathlib import Path

import pytest

from shunter.ask import Observed, fit_costs, observe_log
from shunter.events import (
    NOTHING,
    Allocation,
    Because,
    ConfigurationSet,
    Event,
    GpuType,
    JobId,
    JobSpec,
    NodeName,
    Share,
    Sharing,
    facts,
)
from shunter.events.log import open_log, read_log

S = 1_000_000
NODE, A, B = NodeName("n1"), JobId("a"), JobId("b")
RULE = Because("x")
OPENING: tuple[Event, ...] = (
    facts.SchedulerStarted(0, 1, "x", "gavel", "1", 0, "{}"),
    facts.NodeAdded(0, NODE, ConfigurationSet("c", GpuType("V100"), 8)),
    facts.JobSubmitted(S, A, JobSpec(gpus=1)),
)


def on(mask: int, sharing: Sharing = Sharing.exclusive) -> Allocation:
    return Allocation((Share(NODE, mask),), sharing=sharing)


async def observed(tmp_path: Path, *events: Event) -> Observed:
    path = str(tmp_path / "log.db")
    async with open_log(path) as log:
        log.append([*OPENING, *events])
    async with read_log(path) as reader:
        return await observe_log(reader)


@pytest.mark.asyncio
async def test_job_that_is_opened_to_a_partner_is_not_told_to_leave(tmp_path: Path) -> None:
    found = await observed(
        tmp_path,
        facts.JobSubmitted(S, B, JobSpec(gpus=1)),
        facts.AllocationChanged(2 * S, A, on(1), RULE),
        facts.AttemptStarted(3 * S, A, 1),
        facts.AllocationChanged(100 * S, A, on(1, Sharing.packed), RULE),
        facts.AllocationChanged(100 * S, B, on(1, Sharing.packed), RULE),
        facts.AttemptStarted(101 * S, B, 1),
        facts.AllocationChanged(5000 * S, A, NOTHING, RULE),
        facts.JobSuspended(5002 * S, A, 1),
        facts.GpusReleased(5002 * S, A, 1),
    )
    (attempt,) = next(job for job in found.jobs if job.job_id == A).seen
    assert attempt.told_us == 5000 * S
    assert attempt.allocation.sharing is Sharing.packed


@pytest.mark.asyncio
async def test_job_that_is_moved_before_it_is_seen_to_start_takes_turns_again(
    tmp_path: Path,
) -> None:
    found = await observed(
        tmp_path,
        facts.AllocationChanged(2 * S, A, on(1, Sharing.sliced), RULE),
        facts.AllocationChanged(3 * S, A, on(2, Sharing.sliced), RULE),
        facts.AttemptStarted(4 * S, A, 1),
        facts.JobSuspended(5 * S, A, 1),
        facts.GpusReleased(5 * S, A, 1),
        facts.AttemptStarted(6 * S, A, 2),
    )
    first, second = found.jobs[0].seen
    assert first.turns is not None
    assert second.turns is not None
    assert [first.allocation, second.allocation] == [on(1, Sharing.sliced), on(2, Sharing.sliced)]
    assert (first.asked_us, second.asked_us) == (3 * S, None)


@pytest.mark.asyncio
async def test_start_that_was_seen_after_the_order_to_leave_was_before_it(tmp_path: Path) -> None:
    """How long it took to leave is known; that of the next one, which began later, is not."""
    found = await observed(
        tmp_path,
        facts.AllocationChanged(2 * S, A, on(1), RULE),
        facts.AllocationChanged(10 * S, A, on(2), RULE),
        facts.AttemptStarted(11 * S, A, 1, started_us=9 * S),
        facts.JobSuspended(12 * S, A, 1),
        facts.GpusReleased(13 * S, A, 1),
        facts.AllocationChanged(14 * S, A, NOTHING, RULE),
        facts.AttemptStarted(20 * S, A, 2, started_us=15 * S),
        facts.JobSuspended(21 * S, A, 2),
        facts.GpusReleased(21 * S, A, 2),
    )
    assert [each.told_us for each in found.jobs[0].seen] == [10 * S, None]
    assert fit_costs(found).suspend_us == 3 * S
