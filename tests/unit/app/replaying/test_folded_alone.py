"""Why a job waited is read without the jobs around it, where these have no part in it."""

from pathlib import Path
from typing import NoReturn

import pytest

from shunter.ask.why import explain
from shunter.core.fold import replay
from shunter.errors import ConfigError
from shunter.events import (
    NOTHING,
    Allocation,
    Because,
    ClassWait,
    ConfigurationSet,
    Dependency,
    Event,
    GpuType,
    JobId,
    JobSpec,
    Level,
    NodeName,
    Reason,
    Share,
    Size,
    Wait,
    facts,
)
from shunter.events.log import open_log, read_log
from shunter.run import snapshot_of_state

S = 1_000_000
NODES = (NodeName("n1"), NodeName("n2"))
OWN, DEP, OTHER = JobId("own"), JobId("dep"), JobId("other")
RULE = Because("fifo")
WAITS_FOR_DEP = JobSpec(gpus=1, depends_on=(Dependency(DEP),))
OPENING: tuple[Event, ...] = (
    facts.SchedulerStarted(0, 1, "x", "fifo", "1", 0, "{}"),
    *(facts.NodeAdded(0, node, ConfigurationSet("c", GpuType("V100"), 8)) for node in NODES),
)
CANCELLED = (facts.JobCancelRequested(9 * S, OWN, "me"), facts.JobCancelled(9 * S, OWN, "me"))


def whole(node: NodeName) -> Allocation:
    return Allocation((Share(node, 255),))


def no_policy(started: facts.SchedulerStarted) -> NoReturn:
    raise ConfigError("the policy of this log is not to be had")


async def reasons(
    tmp_path: Path, events: tuple[Event, ...], snapshot_at: int | None = None
) -> list[tuple[int, Reason]]:
    """Return since when the job waited for what, by its log; with a snapshot after some events."""
    replay(events)  # no such log is refused
    path = str(tmp_path / "log.db")
    async with open_log(path) as log:
        log.append(list(events))
        if snapshot_at is not None:
            await log.flush()
            await log.save_snapshot(snapshot_of_state(replay(events[:snapshot_at]), b"[]"))
    async with read_log(path) as reader:
        found = await explain(reader, OWN, len(events), 9 * S, no_policy)
    return [(each.from_us // S, each.wait.reason) for each in found.reasons]


@pytest.mark.asyncio
async def test_sizes_of_other_jobs_are_no_part_of_it(tmp_path: Path) -> None:
    events = (
        *OPENING,
        facts.JobSubmitted(S, OTHER, JobSpec(gpus=1)),
        facts.JobSubmitted(S, DEP, JobSpec(gpus=1)),
        facts.JobSubmitted(2 * S, OWN, WAITS_FOR_DEP),
        facts.SizesSet(3 * S, (Size(OTHER, 1000, 10), Size(DEP, 1000, 10)), 1.0, 1.0),
        *CANCELLED,
    )
    assert await reasons(tmp_path, events) == [(2, Reason.dependency)]


@pytest.mark.asyncio
async def test_how_a_job_ran_on_which_it_depends_is_no_part_of_it(tmp_path: Path) -> None:
    events = (
        *OPENING,
        facts.JobSubmitted(S, OTHER, JobSpec(gpus=8)),
        facts.JobSubmitted(S, DEP, JobSpec(gpus=8)),
        facts.AllocationChanged(S, OTHER, whole(NODES[0]), RULE),
        facts.AttemptStarted(S, OTHER, 1),
        facts.JobSubmitted(2 * S, OWN, WAITS_FOR_DEP),
        facts.AllocationChanged(3 * S, OTHER, NOTHING, RULE),
        facts.AllocationChanged(3 * S, DEP, whole(NODES[0]), RULE),  # the other has yet to leave
        facts.AllocationChanged(4 * S, DEP, NOTHING, RULE),
        facts.AllocationChanged(5 * S, DEP, whole(NODES[1]), RULE),
        facts.AttemptStarted(6 * S, DEP, 1, checkpoints_stay=True),
        facts.NodeLost(7 * S, NODES[1], "c"),
        facts.AttemptLost(7 * S, DEP, 1, "n2"),
        facts.CheckpointDiscarded(8 * S, DEP, 1, (NODES[1],), None, "lost"),
        *CANCELLED,
    )
    assert await reasons(tmp_path, events) == [(2, Reason.dependency)]


@pytest.mark.asyncio
async def test_job_with_a_learnt_floor_needs_what_others_measured(tmp_path: Path) -> None:
    v100 = GpuType("V100")
    events: tuple[Event, ...] = (
        *OPENING,
        facts.JobSubmitted(S, OTHER, JobSpec(gpus=2, model="m")),
        facts.JobSubmitted(2 * S, OWN, JobSpec(gpus=2, model="m", min_speed=0.9)),
        facts.ToleranceLearnt(3 * S, OTHER, "m", v100, Level.server, (2,), 100_000, 50),
        facts.ToleranceLearnt(3 * S, OTHER, "m", v100, Level.cluster, (1, 1), 200_000, 50),
    )
    demand = replay(events).jobs[OWN].demand
    wait = ClassWait(demand, Wait(Reason.locality_not_met, 2, 4))
    planned = facts.RoundPlanned(4 * S, 1, 0, 6, waits=(wait,))
    assert await reasons(tmp_path, (*events, planned, *CANCELLED)) == [
        (2, Reason.waiting_for_round),
        (4, Reason.locality_not_met),
    ]


LEAVES = {
    "it waits": (
        (),
        (
            facts.AllocationChanged(3 * S, DEP, whole(NODES[1]), RULE),
            facts.LaunchFailed(4 * S, DEP, 1, "c"),
        ),
    ),
    "it is launched": (
        (facts.AllocationChanged(S, DEP, whole(NODES[1]), RULE),),
        (facts.LaunchFailed(4 * S, DEP, 1, "c"),),
    ),
    "it runs": (
        (
            facts.AllocationChanged(S, DEP, whole(NODES[1]), RULE),
            facts.AttemptStarted(S, DEP, 1, checkpoints_stay=True),
        ),
        (
            facts.NodeLost(3 * S, NODES[1], "c"),
            facts.AttemptLost(3 * S, DEP, 1, "n2"),
        ),
    ),
    "it leaves": (
        (
            facts.AllocationChanged(S, DEP, whole(NODES[1]), RULE),
            facts.AttemptStarted(S, DEP, 1),
            facts.AllocationChanged(S, DEP, NOTHING, RULE),
        ),
        (facts.JobSuspended(3 * S, DEP, 1), facts.GpusReleased(3 * S, DEP, 1)),
    ),
    "it is to have what another holds": (
        (
            facts.AllocationChanged(S, OTHER, whole(NODES[1]), RULE),
            facts.AttemptStarted(S, OTHER, 1),
            facts.AllocationChanged(S, OTHER, NOTHING, RULE),
            facts.AllocationChanged(S, DEP, whole(NODES[1]), RULE),
        ),
        (
            facts.AllocationChanged(3 * S, DEP, NOTHING, RULE),
            facts.JobSuspended(3 * S, OTHER, 1),
            facts.GpusReleased(3 * S, OTHER, 1),
        ),
    ),
    "it can resume on that server alone": (
        (
            facts.AllocationChanged(S, DEP, whole(NODES[1]), RULE),
            facts.AttemptStarted(S, DEP, 1, checkpoints_stay=True),
            facts.CheckpointSaved(S, DEP, 1, "c", 1, 1, (NODES[1],)),
            facts.AllocationChanged(S, DEP, NOTHING, RULE),
            facts.JobSuspended(S, DEP, 1),
            facts.GpusReleased(S, DEP, 1),
        ),
        (facts.CheckpointDiscarded(4 * S, DEP, 1, (NODES[1],), None, "lost"),),
    ),
}
"""What a snapshot shows of a job on a server, and how the job leaves it for good after that."""


@pytest.mark.parametrize("is_from_snapshot", [False, True], ids=["whole", "snapshot"])
@pytest.mark.parametrize("case", LEAVES)
@pytest.mark.asyncio
async def test_removed_server_is_none_on_which_the_job_that_is_awaited_still_runs(
    tmp_path: Path, case: str, *, is_from_snapshot: bool
) -> None:
    """The snapshot has GPUs of it, and how it left them is not folded."""
    before, leaves = LEAVES[case]
    start = (
        *OPENING,
        facts.JobSubmitted(S, OTHER, JobSpec(gpus=8)),
        facts.JobSubmitted(S, DEP, JobSpec(gpus=8)),
        *before,
    )
    events = (
        *start,
        facts.JobSubmitted(2 * S, OWN, WAITS_FOR_DEP),
        *leaves,
        facts.NodeRemoved(5 * S, NODES[1]),
        facts.AllocationChanged(6 * S, DEP, whole(NODES[0]), RULE),
        facts.AttemptStarted(6 * S, DEP, 1 if case.endswith("another holds") else 2),
        *_ended(7 * S, DEP, 1 if case.endswith("another holds") else 2),
        *CANCELLED,
    )
    found = await reasons(tmp_path, events, len(start) if is_from_snapshot else None)
    assert found == [(2, Reason.dependency), (7, Reason.waiting_for_round)]


def _ended(at_us: int, job_id: JobId, attempt: int) -> tuple[Event, ...]:
    return (
        facts.AttemptEnded(at_us, job_id, attempt, 0),
        facts.GpusReleased(at_us, job_id, attempt),
        facts.JobFinished(at_us, job_id),
    )


@pytest.mark.parametrize("snapshot_at", [None, 5, 6])
@pytest.mark.asyncio
async def test_jobs_that_the_awaited_one_awaits_are_no_part_of_it(
    tmp_path: Path, snapshot_at: int | None
) -> None:
    events = (
        *OPENING,
        facts.JobSubmitted(S, OTHER, JobSpec(gpus=8)),
        facts.AllocationChanged(S, OTHER, whole(NODES[1]), RULE),
        facts.JobSubmitted(S, DEP, JobSpec(gpus=8, depends_on=(Dependency(OTHER),))),
        facts.JobSubmitted(2 * S, OWN, WAITS_FOR_DEP),
        facts.AttemptStarted(3 * S, OTHER, 1),
        *_ended(4 * S, OTHER, 1),
        facts.NodeRemoved(5 * S, NODES[1]),
        facts.AllocationChanged(6 * S, DEP, whole(NODES[0]), RULE),
        facts.AttemptStarted(6 * S, DEP, 1),
        *_ended(7 * S, DEP, 1),
        *CANCELLED,
    )
    found = await reasons(tmp_path, events, snapshot_at)
    assert found == [(2, Reason.dependency), (7, Reason.waiting_for_round)]
