"""Clusters on Slurm whose scheduler is killed at point after point, and what must come of them."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from shunter.backends.node import arm_failpoint
from shunter.core import JobPhase
from shunter.daemon import Site
from shunter.events import Outcome
from tests.live.site.daemons import Daemon
from tests.live.site.sites import NOBODY
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import assert_all_well, cluster, worker

ENDS = (Outcome.finished, Outcome.finished, Outcome.cancelled, Outcome.failed)


async def drive(site: Site, bench: PilotBench) -> None:
    """Submit the jobs, suspend and resume one, cancel another, until all have ended."""
    requests = [
        worker(bench, "suspended", 0.05, code=-1),
        worker(bench, "finished", 0.1),
        worker(bench, "cancelled", 600.0),
        worker(bench, "failed", 0.0, code=3),
    ]
    ids = [await site.submit(request, NOBODY) for request in requests]
    state = site.state
    while any(job_id in state.jobs for job_id in ids):
        one, other = state.jobs.get(ids[0]), state.jobs.get(ids[2])
        has_saved = any(line[0] == ids[0] and line[4] == "saved" for line in bench.ledger())
        if one is not None and one.phase is JobPhase.running and not has_saved:
            await site.tell(site.commands.suspend(ids[0], NOBODY))
        elif one is not None and one.is_on_hold and one.held_by == "" and one.since_us is None:
            await site.tell(site.commands.resume(ids[0], NOBODY))
        if other is not None and other.phase is JobPhase.running and not other.end_cause:
            await site.tell(site.commands.cancel(ids[2], NOBODY))
        await anyio.sleep(0.02)


@dataclass
class Case:
    """One cluster on a node, and the points at which its scheduler is struck.

    `mode` is that of the backend.
    """

    bench: PilotBench
    node: str
    points: Sequence[str]
    mode: str = "pilot"
    codes: list[int] = field(default_factory=list)

    def marker(self, point: str) -> Path:
        """Return the file that is made when a point is struck."""
        return self.bench.folder / f"struck.{self.points.index(point)}"

    @property
    def struck(self) -> list[str]:
        """The points that were struck."""
        return [point for point in self.points if self.marker(point).exists()]

    def run(self) -> Iterator[Daemon]:
        """Yield one scheduler process after the other, each to be waited for."""
        self.bench.folder.mkdir(parents=True)
        for setting in (*(f"{point}:{self.marker(point)}" for point in self.points), ""):
            daemon = self.start(setting)
            yield daemon
            self.codes.append(daemon.code or 0)

    def start(self, setting: str) -> Daemon:
        """Start a scheduler process under a setting of SHUNTER_CRASH."""
        bench = self.bench

        async def deed(site: Site) -> None:
            await drive(site, bench)

        def armed() -> None:
            arm_failpoint(setting)
            said = os.open(bench.folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(said, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 of this process

        return Daemon(cluster(bench, self.node, mode=self.mode), deed, armed)

    def assert_well(self) -> None:
        """Hold that all came to what it would have."""
        said = self.bench.folder / "stderr"
        assert set(self.codes) <= {0, -9}, said.read_text()
        assert self.codes[-1] == 0, said.read_text()
        anyio.run(assert_all_well, self.bench, *ENDS)
