"""Why a job waited is read without the jobs around it, where these have no part in it."""

from pathlib import Path
from typing import Any, NoReturn

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
OPENING: tuple[Event, ...] = (
    facts.SchedulerStarted(0, 1, "x", "fifo", "1", 0, "{}"),
    *(facts.NodeAdded(0, node, ConfigurationSet("c", GpuType("V100"), 8)) for node in NODES),
)
CANCELLED = (facts.JobCancelRequested(9 * S, OWN, "me"), facts.JobCancelled(9 * S, OWN, "me"))


def submitted(at_s: int, job_id: JobId, gpus: int = 1, **fields: Any) -> Event:
    return facts.JobSubmitted(at_s * S, job_id, JobSpec(gpus=gpus, **fields))


def given(at_s: int, job_id: JobId, node: int | None = None) -> Event:
    """Return that a job gets all GPUs of a server; None: it gives up what it has."""
    there = NOTHING if node is None else Allocation((Share(NODES[node], 255),))
    return facts.AllocationChanged(at_s * S, job_id, there, RULE)


def started(at_s: int, job_id: JobId, attempt: int = 1, **fields: Any) -> Event:
    return facts.AttemptStarted(at_s * S, job_id, attempt, **fields)


def suspended(at_s: int, job_id: JobId) -> tuple[Event, ...]:
    return facts.JobSuspended(at_s * S, job_id, 1), facts.GpusReleased(at_s * S, job_id, 1)


def ended(at_s: int, job_id: JobId, attempt: int = 1) -> tuple[Event, ...]:
    return (
        facts.AttemptEnded(at_s * S, job_id, attempt, 0),
        facts.GpusReleased(at_s * S, job_id, attempt),
        facts.JobFinished(at_s * S, job_id),
    )


def lost(at_s: int, job_id: JobId) -> tuple[Event, ...]:
    return facts.NodeLost(at_s * S, NODES[1], "c"), facts.AttemptLost(at_s * S, job_id, 1, "n2")


def discarded(at_s: int) -> Event:
    return facts.CheckpointDiscarded(at_s * S, DEP, 1, (NODES[1],), None, "lost")


OWN_CAME = submitted(2, OWN, depends_on=(Dependency(DEP),))


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
    sizes = (Size(OTHER, 1000, 10), Size(DEP, 1000, 10))
    sized = facts.SizesSet(3 * S, sizes, 1.0, 1.0)
    events = (*OPENING, submitted(1, OTHER), submitted(1, DEP), OWN_CAME, sized, *CANCELLED)
    assert await reasons(tmp_path, events) == [(2, Reason.dependency)]


@pytest.mark.asyncio
async def test_how_a_job_ran_on_which_it_depends_is_no_part_of_it(tmp_path: Path) -> None:
    events = (
        *(*OPENING, submitted(1, OTHER, 8), submitted(1, DEP, 8)),
        *(given(1, OTHER, 0), started(1, OTHER), OWN_CAME, given(3, OTHER)),
        *(given(3, DEP, 0), given(4, DEP)),  # the other has yet to leave
        *(given(5, DEP, 1), started(6, DEP, checkpoints_stay=True), *lost(7, DEP), discarded(8)),
        *CANCELLED,
    )
    assert await reasons(tmp_path, events) == [(2, Reason.dependency)]


@pytest.mark.asyncio
async def test_job_with_a_learnt_floor_needs_what_others_measured(tmp_path: Path) -> None:
    v100 = GpuType("V100")
    events: tuple[Event, ...] = (
        *OPENING,
        submitted(1, OTHER, 2, model="m"),
        submitted(2, OWN, 2, model="m", min_speed=0.9),
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


RUNS = (given(1, DEP, 1), started(1, DEP, checkpoints_stay=True))
FAILS = facts.LaunchFailed(4 * S, DEP, 1, "c")
SAVED = facts.CheckpointSaved(S, DEP, 1, "c", 1, 1, (NODES[1],))
LEAVES: dict[str, tuple[tuple[Event, ...], tuple[Event, ...]]] = {
    "it waits": ((), (given(3, DEP, 1), FAILS)),
    "it is launched": ((given(1, DEP, 1),), (FAILS,)),
    "it runs": (RUNS, lost(3, DEP)),
    "it leaves": ((given(1, DEP, 1), started(1, DEP), given(1, DEP)), suspended(3, DEP)),
    "it is to have what another holds": (
        (given(1, OTHER, 1), started(1, OTHER), given(1, OTHER), given(1, DEP, 1)),
        (given(3, DEP), *suspended(3, OTHER)),
    ),
    "it can resume on that server alone": (
        (*RUNS, SAVED, given(1, DEP), *suspended(1, DEP)),
        (discarded(4),),
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
    attempt = 1 if case.endswith("another holds") else 2
    start = (*OPENING, submitted(1, OTHER, 8), submitted(1, DEP, 8), *before)
    events = (
        *(*start, OWN_CAME, *leaves, facts.NodeRemoved(5 * S, NODES[1])),
        *(given(6, DEP, 0), started(6, DEP, attempt), *ended(7, DEP, attempt)),
        *CANCELLED,
    )
    found = await reasons(tmp_path, events, len(start) if is_from_snapshot else None)
    assert found == [(2, Reason.dependency), (7, Reason.waiting_for_round)]


@pytest.mark.parametrize("snapshot_at", [None, 5, 6])
@pytest.mark.asyncio
async def test_jobs_that_the_awaited_one_awaits_are_no_part_of_it(
    tmp_path: Path, snapshot_at: int | None
) -> None:
    events = (
        *(*OPENING, submitted(1, OTHER, 8), given(1, OTHER, 1)),
        *(submitted(1, DEP, 8, depends_on=(Dependency(OTHER),)), OWN_CAME, started(3, OTHER)),
        *(*ended(4, OTHER), facts.NodeRemoved(5 * S, NODES[1])),
        *(given(6, DEP, 0), started(6, DEP), *ended(7, DEP)),
        *CANCELLED,
    )
    found = await reasons(tmp_path, events, snapshot_at)
    assert found == [(2, Reason.dependency), (7, Reason.waiting_for_round)]


@pytest.mark.asyncio
async def test_round_that_records_nothing_looks_at_who_has_left(tmp_path: Path) -> None:
    """Of rounds in a row that record nothing, the first one after an event of its own counts."""
    there = Allocation((Share(NODES[0], 1),))
    events = (
        *(*OPENING, submitted(1, OWN), planned(2), planned(3)),
        facts.WaitReasonChanged(3 * S, OWN, Wait(Reason.quota, 1)),
        *(planned(4), facts.AllocationChanged(4 * S, OWN, there, RULE, instant=True)),
        *(planned(5), planned(6), *suspended(6, OWN), planned(7), planned(8), *CANCELLED),
    )
    unseen, quota = Reason.waiting_for_round, Reason.quota
    expected = [(1, unseen), (3, quota), (6, unseen), (7, quota)]
    assert await reasons(tmp_path, events) == expected


def planned(at_s: int) -> Event:
    """Return a round that only counts itself."""
    return facts.RoundPlanned(at_s * S, at_s, 0, 0)
