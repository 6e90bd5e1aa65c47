"""Checkpoints on hosts that do not answer: the job waits, for the host or for its owner.

Method: a job saves on one host and leaves; the host is cut off; the job may start elsewhere.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from shunter.ask import job_state, wait_of
from shunter.ask.why import document, explain
from shunter.core import LAUNCHING
from shunter.daemon import Caller, Site
from shunter.errors import RefusedError
from shunter.events import (
    AttemptStarted,
    CheckpointDiscarded,
    Event,
    GpusReleased,
    JobFinished,
    JobHeld,
    JobId,
    LaunchFailed,
    NodeLost,
    NodeName,
    NodeReachable,
    NodeUnreachable,
)
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.live.site.sites import NOBODY, at_work, events_until, of, verified, wait_for
from tests.live.ssh.bench import Bench
from tests.live.ssh.namespaces import Namespaces
from tests.live.ssh.site import cluster, worker

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

ADMIN = Caller("root", None, is_admin=True)
SOMEBODY = Caller("eve", None)
STAYS_S = 4.0  # twice the time within which the old code went on without the checkpoint


@asynccontextmanager
async def saved_on_n0(bench: Bench, **changes: object) -> AsyncIterator[tuple[Site, JobId]]:
    """Run a cluster whose only job has saved on n0, left it, and is held."""
    async with at_work(cluster(bench.farm, bench.folder, **changes)) as site:
        for node in ("n1", "n2"):
            await site.tell(site.commands.drain(NodeName(node), ADMIN))
        job_id = await site.submit(worker(bench.folder, "w", 0.3, code=-1), NOBODY)
        await seen_of(site, AttemptStarted)
        await site.tell(site.commands.suspend(job_id, NOBODY))
        await seen_of(site, GpusReleased)
        await site.tell(site.commands.restore(NodeName("n1"), ADMIN))
        yield site, job_id


async def seen_of(site: Site, kind: type[Event], times: int = 1) -> list[Event]:
    """Wait until so many events of a kind have come; return all up to there."""
    return await events_until(site, lambda seen: len(of(seen, kind)) >= times)


def went_on(bench: Bench) -> list[str]:
    """Return which attempts began, and which of them with what was saved, as 2 or 2+."""
    resumed = bench.resumed()
    return [f"{key.split('.')[1]}{'+' * (key in resumed)}" for key in sorted(bench.runs())]


async def why(bench: Bench, job_id: JobId, site: Site) -> str:
    """Return what `why` says of a job now, in one text."""
    async with read_log(str(bench.folder / "log.db")) as reader:
        found = await explain(reader, job_id, site.committed, site.now_us(), rebuild)
    told = document(found)
    return "\n".join([told["headline"], *told["details"], *told["needs_at_least"]])


async def test_job_waits_until_the_host_with_its_checkpoint_answers_again(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    async with saved_on_n0(bench) as (site, job_id):
        farm.cut("n0")
        await seen_of(site, NodeUnreachable)
        await site.tell(site.commands.resume(job_id, NOBODY))
        await anyio.sleep(STAYS_S)
        assert went_on(bench) == ["1"]
        job = site.state.jobs[job_id]
        assert job_state(job) == "suspended"
        wait = wait_of(job, site.state)
        assert wait is not None
        assert (wait.reason, wait.detail) == ("checkpoint_unreachable", "n0")
        told = await why(bench, job_id, site)
        assert "checkpoint_unreachable" in told
        assert "was saved by attempt 1 on n0, and n0 does not answer" in told
        assert f"shunter admin discard-checkpoint {job_id}" in told
        farm.heal("n0")
        await seen_of(site, NodeReachable)
        await site.tell(
            site.commands.drain(NodeName("n0"), ADMIN)
        )  # it is known to answer, and need not run anything
        seen = await seen_of(site, JobFinished)
    assert of(seen, CheckpointDiscarded) == []
    assert went_on(bench) == ["1", "2+"]
    assert (await verified(bench.folder)).divergence is None


async def test_owner_gives_a_checkpoint_up_and_the_log_says_so(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    async with saved_on_n0(bench) as (site, job_id):
        with pytest.raises(RefusedError, match="nothing is to discard"):
            await site.tell(site.commands.discard_checkpoint(job_id, NOBODY))
        farm.cut("n0")
        await seen_of(site, NodeUnreachable)
        await site.tell(site.commands.resume(job_id, NOBODY))
        held = (await seen_of(site, JobHeld, 2))[-1]
        assert isinstance(held, JobHeld)
        assert held.by == "checkpoint"
        with pytest.raises(RefusedError, match="discard-checkpoint"):
            await site.tell(site.commands.resume(job_id, NOBODY))
        with pytest.raises(RefusedError, match="eve is no admin"):
            await site.tell(site.commands.discard_checkpoint(job_id, SOMEBODY))
        await site.tell(site.commands.discard_checkpoint(job_id, NOBODY))
        seen = await seen_of(site, AttemptStarted, 2)
        (given_up,) = of(seen, CheckpointDiscarded)
        assert (given_up.attempt, given_up.nodes, given_up.cause) == (1, ("n0",), "given_up")
        assert "attempt 1 saved on n0 was discarded" in await why(bench, job_id, site)
        await anyio.to_thread.run_sync(wait_for, lambda: went_on(bench) == ["1", "2"])
        await site.tell(site.commands.cancel(job_id, NOBODY))
    assert (await verified(bench.folder)).divergence is None


async def test_checkpoint_on_a_lost_host_is_discarded_when_the_job_goes_on(
    network: tuple[Bench, Namespaces],
) -> None:
    bench, farm = network
    async with saved_on_n0(bench, heartbeat_deadline=2.0) as (site, job_id):
        farm.power_off("n0")
        await seen_of(site, NodeUnreachable)
        await site.tell(site.commands.resume(job_id, NOBODY))
        seen = await seen_of(site, AttemptStarted, 2)
        kinds = [type(event) for event in seen]
        assert kinds.index(NodeLost) < kinds.index(CheckpointDiscarded)
        (discarded,) = of(seen, CheckpointDiscarded)
        assert (discarded.attempt, discarded.nodes, discarded.cause) == (1, ("n0",), "lost")
        assert not site.state.jobs[job_id].is_on_hold
        await anyio.to_thread.run_sync(wait_for, lambda: went_on(bench) == ["1", "2"])
        await site.tell(site.commands.cancel(job_id, NOBODY))
    assert (await verified(bench.folder)).divergence is None


async def test_host_that_goes_silent_while_a_job_is_launched_costs_neither_work_nor_the_job(
    network: tuple[Bench, Namespaces],
) -> None:
    """Goal: a launch that could not reach the checkpoint is none of the job's failures.

    Method: the host is cut off and the job resumed before anybody has noticed.
    """
    bench, farm = network
    async with saved_on_n0(bench) as (site, job_id):
        await site.tell(site.commands.drain(NodeName("n0"), ADMIN))
        farm.cut("n0")
        await site.tell(site.commands.resume(job_id, NOBODY))
        failed = of(await seen_of(site, LaunchFailed), LaunchFailed)[-1]
        assert failed.retryable
        assert failed.checkpoint_on == ("n0",)
        await events_until(site, lambda seen: any(is_held_for_it(event) for event in seen))
        job = site.state.jobs[job_id]
        assert job.phase is not LAUNCHING
        assert job.launches_failed == 0
        farm.heal("n0")
        await seen_of(site, JobFinished)
    assert went_on(bench)[-1].endswith("+")
    assert len(went_on(bench)) == 2
    assert (await verified(bench.folder)).divergence is None


def is_held_for_it(event: Event) -> bool:
    return isinstance(event, JobHeld) and event.by == "checkpoint"
