"""Gangs that come back: with as many processes as have saved their checkpoint."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import wait_of
from shunter.ask.why import document, explain
from shunter.daemon import Caller, Site, Submission
from shunter.events import (
    AttemptStarted,
    CheckpointSaved,
    Event,
    GpusReleased,
    JobId,
    JobResized,
    JobSpec,
    Level,
    NodeName,
    Outcome,
    RoundPlanned,
)
from shunter.events.log import read_log
from shunter.run import rebuild
from tests.live.site.sites import NOBODY, at_work, events_until, of, outcome, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

ADMIN = Caller("root", None, is_admin=True)
# Trains until it is told to leave; a later attempt does three more steps.
TRAINS = """
import os, time
from shunter import train
class Model:
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
run = train.start(model=Model())
more = 3 if os.environ["SHUNTER_ATTEMPT"] != "1" else 10**6
print("from", run.steps_done, "of", os.environ["WORLD_SIZE"], flush=True)
for _ in range(more):
    time.sleep(0.01)
    run.step()
"""


def training(*command: str, **fields: Any) -> Submission:
    """Return a job on two GPUs that trains, or runs another command."""
    trains = (sys.executable, "-c", TRAINS)
    return Submission(JobSpec(command=command or trains, gpus=2, **fields))


@asynccontextmanager
async def saved_by_one(bench: Bench, job: Submission) -> AsyncIterator[tuple[Site, JobId]]:
    """Run a cluster whose only job has saved with two GPUs of n0, which is drained."""
    loaded = cluster(bench.farm, bench.folder, {"n0": 2})
    async with at_work(loaded) as site:
        job_id = await site.submit(job, NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        await site.tell(site.commands.suspend(job_id, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, GpusReleased)))
        assert len(of(seen, CheckpointSaved)) == 1
        await site.tell(site.commands.drain(NodeName("n0"), ADMIN))
        yield site, job_id


async def printed(site: Site, job_id: JobId) -> str:
    said, _ = await site.read_output(job_id, 2, "stdout.0", 0, 1000)
    return said.decode()


async def test_sdk_job_keeps_the_split_it_began_with(bench: Bench) -> None:
    async with saved_by_one(bench, training()) as (site, job_id):
        await site.tell(site.commands.resume(job_id, NOBODY))
        await events_until(site, is_looked_at)
        wait = wait_of(site.state.jobs[job_id], site.state)
        assert wait is not None
        assert (wait.reason, wait.needed, wait.free) == ("split_kept", 2, 2)
        async with read_log(str(bench.folder / "log.db")) as reader:
            told = document(await explain(reader, job_id, site.committed, site.now_us(), rebuild))
        assert told["reason"]["name"] == "split_kept"
        assert "but not as 2 a server" in told["details"][0]
        assert told["planned_again"]["agrees"]
        await site.tell(site.commands.restore(NodeName("n0"), ADMIN))
        assert await outcome(site, job_id) == Outcome.finished
        said = await printed(site, job_id)
    assert said.startswith("from ")
    assert said.endswith(" of 1\n")
    assert said != "from 0 of 1\n"
    assert (await verified(bench.folder)).divergence is None


def is_looked_at(seen: list[Event]) -> bool:
    """Say whether a round has told why somebody waits."""
    return any(one.waits for one in of(seen, RoundPlanned))


async def test_job_that_says_so_goes_on_in_another_split(bench: Bench) -> None:
    program = 'test "$SHUNTER_ATTEMPT" = 2 || { while ! test -e $SHUNTER_SUSPEND; do sleep 0.01; '
    program += "done; exit 75; }; echo of $WORLD_SIZE"
    plain = training("sh", "-c", program, split_may_change=True)
    loaded = cluster(bench.farm, bench.folder, {"n0": 2})
    async with at_work(loaded) as site:
        job_id = await site.submit(plain, NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        await site.tell(site.commands.suspend(job_id, NOBODY))
        await events_until(site, lambda seen: bool(of(seen, GpusReleased)))
        await site.tell(site.commands.drain(NodeName("n0"), ADMIN))
        await site.tell(site.commands.resume(job_id, NOBODY))
        assert await outcome(site, job_id) == Outcome.finished
        assert await printed(site, job_id) == "of 2\n"
    assert (await verified(bench.folder)).divergence is None


@pytest.mark.parametrize(
    ("said", "ranks"),
    [
        ({"shapes": ((1, 1),)}, 2),
        ({"shapes": ((2,), (1, 1))}, 1),
        ({"max_level": Level.server}, 1),
    ],
)
async def test_owner_says_which_split_will_do(
    bench: Bench, said: dict[str, Any], ranks: int
) -> None:
    loaded = cluster(bench.farm, bench.folder, {"n0": 2})
    async with at_work(loaded) as site:
        job = training("sh", "-c", "echo of $WORLD_SIZE", **said)
        job_id = await site.submit(job, NOBODY)
        assert await outcome(site, job_id) == Outcome.finished
        said_by_job, _ = await site.read_output(job_id, 1, "stdout.0", 0, 1000)
    assert said_by_job.decode() == f"of {ranks}\n"


async def test_resized_job_goes_on_with_its_checkpoint_where_as_many_gpus_are(
    bench: Bench,
) -> None:
    """Goal: another size over SSH loses nothing. Method: one GPU, then two, which only n0 has."""
    loaded = cluster(bench.farm, bench.folder, {"n0": 2})
    async with at_work(loaded) as site:
        trains = training()
        spec = replace(trains.spec, gpus=1, gpus_max=2, max_level=Level.server)
        job_id = await site.submit(replace(trains, spec=spec), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        await site.tell(site.commands.resize(job_id, 2, NOBODY))
        seen = await events_until(site, lambda seen: len(of(seen, AttemptStarted)) > 1)
        (saved,) = of(seen, CheckpointSaved)
        assert [event.gpus for event in of(seen, JobResized)] == [2]
        job = site.state.jobs[job_id]
        assert (job.gpus, [share.node for share in job.held.shares]) == (2, ["n0"])
        assert await outcome(site, job_id) == Outcome.finished
        assert await printed(site, job_id) == f"from {saved.step} of 1\n"
    assert (await verified(bench.folder)).divergence is None
