"""Links that are cut while jobs are packed: none is lost, none runs twice, packs go on and end.

Three jobs share the GPU of a host, two of them in a pack. Each notes in a ledger what it does, and
who is beside it. What was done is counted, and printed.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from shunter.backends.node import alive_below
from shunter.daemon import Site
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    Event,
    JobFinished,
    JobId,
    NodeReachable,
    NodeUnreachable,
    TrialKept,
    TrialStarted,
    TurnStarted,
)
from shunter.events.log import read_log
from tests.live.site.sites import NOBODY, at_work, events_until, of, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.namespaces import Namespaces
from tests.live.ssh.site import cluster
from tests.live.turns.ledger import batches_in, beside_in, doubles_in, goes_on, noting
from tests.live.turns.packs import pairs_in, shared_unpacked
from tests.live.turns.pairs import POLICY

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

CUT_S = 2.0


@dataclass
class Links:
    """A cluster whose link is cut, and what was done to it."""

    site: Site
    farm: Namespaces
    root: Path
    done: Counter[str] = field(default_factory=Counter)

    async def sees(self, kind: type[Event], count: int = 1) -> None:
        """Wait until so many facts of a kind have come."""
        await events_until(self.site, lambda seen: len(of(seen, kind)) >= count)

    @asynccontextmanager
    async def cut(self) -> AsyncIterator[None]:
        """Cut the link for some seconds."""
        self.done["cuts"] += 1
        self.farm.cut("n0")
        await self.sees(NodeUnreachable, self.done["cuts"])
        yield
        await anyio.sleep(CUT_S)
        self.farm.heal("n0")
        await self.sees(NodeReachable, self.done["cuts"])

    async def go_on(self, *jobs: JobId) -> None:
        await to_thread.run_sync(goes_on, self.root, *jobs)

    def kill_supervisor(self, job: JobId) -> None:
        (root,) = sorted((self.root / "n0").glob("clusters/*"))
        (pid,) = alive_below(str(root))[(job, 1)].supervisors
        os.kill(pid, signal.SIGKILL)
        self.done["supervisors killed"] += 1


async def events_of(root: Path) -> list[Event]:
    async with read_log(str(root / "log.db")) as reader:
        return [event async for event in reader.events()]


@pytest.mark.long
async def test_packs_outlive_links_that_are_cut(network: tuple[Bench, Namespaces]) -> None:
    """The link is cut in the trial, and when the pack is kept; then one of it is lost."""
    bench, farm = network
    root = bench.folder
    policy = {**POLICY, "slicing": {"quantum": 0.5}}
    async with at_work(cluster(farm, root, nodes=("n0",), policy=policy)) as site:
        jobs = [await site.submit(noting(root, str(number)), NOBODY) for number in range(3)]
        links = Links(site, farm, root)
        await links.sees(TrialStarted)
        async with links.cut():
            await links.go_on(*jobs)
        await links.sees(TrialKept)
        killed = next(job for job in jobs if site.state.jobs[job].packed_with)
        async with links.cut():
            before = beside_in(root)
            await links.go_on(*jobs)
            links.done["beside another in a cut"] = beside_in(root) - before
            links.kill_supervisor(killed)
            await links.go_on(*[job for job in jobs if job != killed])
        await links.sees(AttemptLost)
        await links.go_on(*jobs)
        (root / "enough").touch()
        await links.sees(JobFinished, len(jobs))
    events = await events_of(root)
    doubles, shared = doubles_in(root, pairs_in(events).keys()), shared_unpacked(events)
    counts = {
        **links.done,
        "attempts": len(of(events, AttemptStarted)),
        "turns": len(of(events, TurnStarted)),
        "trials": len(of(events, TrialStarted)),
        "mini-batches": batches_in(root).total(),
        "beside another": beside_in(root),
        "doubles": len(doubles) + len(shared),
    }
    print(counts)
    assert links.done["beside another in a cut"]
    assert (doubles, shared) == ([], [])
    assert len(of(events, AttemptStarted)) == len(jobs) + 1
    assert (await verified(root)).divergence is None
