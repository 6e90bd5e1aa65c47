"""What runs on a host killed at every point it comes to: conversations and supervisors.

Goal: wherever a helper dies (before `started` is written, after it and before a rank is, with ranks
at work, before `status`), its scheduler brings every job to the end it would have had. Method: one
run writes down the points that three hosts come to, then each is tried in a cluster of its own.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from shunter.core import JobPhase
from shunter.daemon import Site
from tests.live.site.daemons import Daemon
from tests.live.site.sites import NOBODY
from tests.live.ssh.conftest import HOSTS
from tests.live.ssh.farm import LACKING, Farm, farm_at
from tests.live.ssh.faults.test_failpoints import Case, runs_of, wrongs
from tests.live.ssh.site import cluster, worker

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.ssh]

POINTS = {  # those the issue names, and what a rank is at then
    "attempt locked": "before its supervisor is",
    "attempt reaper ready": "without its reaper from now on",
    "put started": "before `started` lasts",
    "attempt started": "after that, before any rank",
    "attempt spawned": "its ranks are about to be, or are",
    "attempt replied": "at work",
    "attempt over": "gone, without `status`",
    "put status": "gone, before `status` lasts",
    "attempt ended": "gone, and said so",
}


async def drive(site: Site, root: Path) -> None:
    """Submit the jobs, suspend and resume one, cancel another, until all have ended.

    An attempt that a crash has cost is followed by another, so the first has saved nothing yet.
    """
    requests = [
        worker(root, "suspended", 0.05, code=-1),
        worker(root, "gang", 0.1, gpus=2),
        worker(root, "cancelled", 600.0),
        worker(root, "failed", 0.0, code=3),
    ]
    ids = [await site.submit(request, NOBODY) for request in requests]
    state = site.state
    while any(job_id in state.jobs for job_id in ids):
        one, other = state.jobs.get(ids[0]), state.jobs.get(ids[2])
        if one is not None and one.phase is JobPhase.running and not has_saved(root, ids[0]):
            await site.tell(site.commands.suspend(ids[0], NOBODY))
        elif one is not None and one.is_on_hold and one.held_by == "" and one.since_us is None:
            await site.tell(site.commands.resume(ids[0], NOBODY))
        if other is not None and other.phase is JobPhase.running and not other.end_cause:
            await site.tell(site.commands.cancel(ids[2], NOBODY))
        await anyio.sleep(0.02)


def has_saved(root: Path, job: str) -> bool:
    path = root / "ledger"
    lines = path.read_text().splitlines() if path.exists() else []
    return any(line.split()[0] == job and line.endswith(" saved") for line in lines)


@dataclass
class FarCase(Case):
    """One cluster whose hosts are struck, and a scheduler that nobody touches."""

    def run(self) -> Iterator[Daemon]:
        """Yield the one scheduler process, to be waited for."""
        (point,) = self.points
        self.prepare(f"{point}:{self.marker(point)}")
        daemon = self.start("")
        yield daemon
        self.codes.append(daemon.code)

    def prepare(self, setting: str) -> None:
        """Make its folders, and a Python for its hosts that runs under a setting."""
        (self.root / "daemon").mkdir(parents=True)
        python = self.root / "python"
        python.write_text(f'#!/bin/sh\nSHUNTER_CRASH="{setting}" exec "{sys.executable}" "$@"\n')
        python.chmod(0o755)

    def start(self, setting: str) -> Daemon:
        """Start a scheduler process."""
        root = self.root

        async def deed(site: Site) -> None:
            await drive(site, root)

        def quiet() -> None:
            said = os.open(root / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(said, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 of this process

        return Daemon(cluster(self.farm, root, python=str(root / "python")), deed, quiet)


def all_points(farm: Farm, root: Path) -> list[str]:
    """Return the points that hosts come to in a run which nobody disturbs."""
    case = FarCase(farm, root / "undisturbed", ())
    case.prepare(f":{root / 'points'}")
    assert case.start("").wait() == 0, (case.root / "stderr").read_text()
    assert case.faults() == []
    return list(dict.fromkeys((root / "points").read_text().splitlines()))


@pytest.mark.rotating(among="crash points over hosts")
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_helpers_killed_anywhere_leave_three_hosts_in_order() -> None:
    root = Path(tempfile.mkdtemp(prefix="ssh"))
    with farm_at(root / "farm", *HOSTS) as farm:
        points = all_points(farm, root)
        cases = [
            FarCase(farm, root / f"case{number}", (name,)) for number, name in enumerate(points)
        ]
        wrong, runs = wrongs(cases), runs_of(cases)
    struck = [point for case in cases for point in case.struck]
    print(f"points of helpers: {len(points)}, struck: {len(struck)}, wrong: {len(wrong)}")
    print(f"runs of ranks: {runs}; {', '.join(points)}")
    assert wrong == {}
    assert set(POINTS) <= set(struck)
    shutil.rmtree(root)
