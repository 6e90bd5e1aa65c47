"""CPUs and memory that other people's Slurm jobs hold, as a daemon in per-job mode plans with them.

The stranger is another user's job as far as anybody can tell: it has no name of ours.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.api import nodes_of, queue_document
from shunter.core import JobPhase
from shunter.daemon import Site
from shunter.events import AllocationChanged, AttemptStarted, GpusTaken, JobId, NodeName, Outcome
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.site import assert_all_well, job_of, served, until, worker

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm-jobs"),
]
N1, N2 = NodeName("n1"), NodeName("n2")


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[JobBench]:
    """A cluster, and a folder that is empty."""
    found = JobBench(slurm, tmp_path)
    yield found
    found.clean()


def stranger(bench: JobBench, node: str, *options: str) -> int:
    """Have somebody else's job run on a node, and return its number."""
    number = bench.slurm.submit("exec sleep 300", f"--nodelist={node}", *options)
    bench.slurm.wait_for(lambda: bench.slurm.state_of(number) == "RUNNING", "the stranger")
    return number


def ours(bench: JobBench, *states: str) -> list[str]:
    """Return the numbers of the Slurm jobs of a daemon in some states."""
    words = ("squeue", "-h", "-t", ",".join(states), "-o", "%i %j")
    rows = [line.split() for line in bench.slurm.command(*words).splitlines()]
    return [number for number, name in rows if name.startswith("shunter:")]


def has_ended(site: Site, job_id: JobId) -> bool:
    return job_id not in site.state.jobs


async def events(bench: JobBench, *kinds: type[Any]) -> list[Any]:
    """Return what the log has of some kinds."""
    async with read_log(str(bench.folder / "log.db")) as reader:
        return [event async for event in reader.events() if isinstance(event, kinds)]


async def test_first_plan_knows_what_others_hold(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One holds all CPUs of n1 and none of its GPUs; nothing else is told before the first plan.

    Polls are so rare that only what is asked at the start can have told it.
    """
    stranger(bench, "n1", "--cpus-per-task=16")
    served_rarely = served(bench, monkeypatch, "n1", "n2", mode="per-job", poll=600.0)
    async with served_rarely as site:
        one = await site.submit(worker(bench, "one", 0.1, gpus=1, cpus_milli=2000), NOBODY)
        await until(site, lambda: has_ended(site, one), "one ends")
        node = next(node for node in nodes_of(site.state) if node["name"] == N1)
        assert (node["cpus"], node["cpus_free"], node["cpus_taken"]) == (4, 0, 4)
    await assert_all_well(bench)
    (found,) = await events(bench, GpusTaken)
    assert (found.node, found.gpu_mask, found.cpus_milli) == (N1, 0, 4000)
    starts = await events(bench, AllocationChanged)
    assert [[share.node for share in each.allocation.shares] for each in starts] == [[N2]]


async def test_job_that_waits_in_slurm_for_cpus_others_took_goes_elsewhere(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after its plan: Slurm has it in its queue, and there it would stay.

    Polls are so rare that it is planned before anybody has looked at nodes since the start.
    """
    async with served(bench, monkeypatch, "n1", "n2", mode="per-job", poll=12.0) as site:
        number = stranger(bench, "n1", "--cpus-per-task=15")
        one = await site.submit(worker(bench, "one", 0.1, gpus=1, cpus_milli=2000), NOBODY)
        assert [share.node for share in job_of(site, one).allocation.shares] == [N1]
        await until(site, lambda: has_ended(site, one), "one ends")
        assert bench.slurm.state_of(number) == "RUNNING"
        assert ours(bench, "PENDING") == [], "its first attempt left Slurm"
    await assert_all_well(bench)
    changes = [
        (each.because.rule, [share.node for share in each.allocation.shares])
        for each in await events(bench, AllocationChanged)
    ]
    assert [nodes for _, nodes in changes] == [[N1], [], [N2]]
    assert changes[1][0] == "displaced"


async def test_job_waits_here_for_cpus_that_others_hold_everywhere_and_starts_once_they_leave(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not submitted again and again meanwhile; `queue` and `why` say for what it waits."""
    holders = [stranger(bench, node, "--cpus-per-task=14") for node in (N1, N2)]
    async with served(bench, monkeypatch, "n1", "n2", mode="per-job") as site:
        one = await site.submit(worker(bench, "one", 0.1, gpus=1, cpus_milli=4000), NOBODY)
        await anyio.sleep(6.0)
        assert job_of(site, one).phase is JobPhase.waiting
        found = queue_document(site.state, site.state.jobs.values(), str, now="", ranks={one: 1})
        (row,) = found["jobs"]
        print(row["reason"])
        assert row["reason"]["name"] == "cpu_or_memory_short"
        assert row["reason"]["detail"] == "others hold 2 CPUs of n1, 2 CPUs of n2"
        bench.slurm.command("scancel", str(holders[0]))
        await until(site, lambda: has_ended(site, one), "one ends")
    await assert_all_well(bench)
    assert [event.attempt for event in await events(bench, AttemptStarted)] == [1]


async def test_job_that_names_no_cpus_is_booked_what_slurm_is_asked_for(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one that needs more than is left beside it waits here, and not in Slurm's queue."""
    sizes = {"cpus": 16, "memory_gb": 64.0}
    async with served(bench, monkeypatch, "n1", mode="per-job", sizes=sizes) as site:
        one = await site.submit(worker(bench, "one", 1.0, code=-1, gpus=2), NOBODY)
        two = await site.submit(worker(bench, "two", 0.1, gpus=1, cpus_milli=9000), NOBODY)
        await until(site, lambda: job_of(site, one).phase is JobPhase.running, "one runs")
        (number,) = ours(bench, "RUNNING")
        shown = bench.slurm.command("scontrol", "show", "job", number)
        assert "NumCPUs=8" in shown
        assert "mem=32000M" in shown
        (node,) = nodes_of(site.state)
        assert (node["cpus_free"], node["memory_mb_free"]) == (8, 32_000)
        assert job_of(site, two).phase is JobPhase.waiting
        await site.tell(site.commands.cancel(one, NOBODY))
        await until(site, lambda: has_ended(site, two), "two ends")
    await assert_all_well(bench, Outcome.cancelled, Outcome.finished)
    assert all(not each.cpus_milli for each in await events(bench, GpusTaken)), "all was ours"


async def test_time_in_slurms_queue_counts_neither_to_the_limit_nor_as_service(
    bench: JobBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits there for twice as long as it may run."""
    bench.slurm.command("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        async with served(bench, monkeypatch, "n1", mode="per-job") as site:
            job = worker(bench, "one", 0.5, gpus=1, time_limit_us=10_000_000)
            one = await site.submit(job, NOBODY)
            await anyio.sleep(20.0)
            assert job_of(site, one).phase is JobPhase.launching
            bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
            await until(site, lambda: job_of(site, one).phase is JobPhase.running, "one runs")
            assert job_of(site, one).service_us(site.now_us()) < 10_000_000
            await until(site, lambda: has_ended(site, one), "one ends")
    finally:
        bench.slurm.command("scontrol", "update", "PartitionName=main", "State=UP")
    await assert_all_well(bench)
