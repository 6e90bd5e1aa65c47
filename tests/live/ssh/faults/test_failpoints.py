"""The scheduler killed at every point it comes to, with jobs on three hosts.

Goal: wherever it dies, the next start brings every job to the end it would have had; nothing is
lost, runs twice or shares a GPU. Method: as for this machine alone (tests/live/site): one run
writes down the points, then each is tried, some that lie far apart in one cluster, on the same
three hosts.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from shunter.backends.node import arm_failpoint
from shunter.core import JobPhase
from shunter.daemon import Site
from shunter.events import JobId, Outcome
from tests.contracts.local_backends import empty
from tests.live.site.daemons import STRIKES, Daemon, far_apart, together
from tests.live.site.sites import NOBODY, outcome, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.conftest import HOSTS
from tests.live.ssh.farm import LACKING, Farm, farm_at
from tests.live.ssh.site import cluster, worker
from tests.slices import THOROUGH, slice_number

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.ssh]

POINTS_LEAST, PARTS = 40, 4
TOGETHER = 4
GANG_POINTS = ("supervisors answered", "ask send", "asked send", "answered send")
"""From the last answer of a start on to that to the order which lets the ranks run."""
RANK_BEGINS_S = 0.5
ENDS = [Outcome.finished, Outcome.finished, Outcome.cancelled, Outcome.failed]


async def drive(site: Site, root: Path) -> None:
    """Submit the jobs, suspend and resume one, cancel another, until all have ended."""
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
        if one is not None and one.attempt < 2 and one.phase is JobPhase.running:
            await site.tell(site.commands.suspend(ids[0], NOBODY))
        elif one is not None and one.is_on_hold and one.held_by == "" and one.since_us is None:
            await site.tell(site.commands.resume(ids[0], NOBODY))
        if other is not None and other.phase is JobPhase.running and not other.end_cause:
            await site.tell(site.commands.cancel(ids[2], NOBODY))
        await anyio.sleep(0.02)


@dataclass
class Case:
    """One cluster on the hosts of a farm, and the points at which its scheduler is struck."""

    farm: Farm
    root: Path
    points: Sequence[str]
    codes: list[int | None] = field(default_factory=list)
    ends: ClassVar[Sequence[Outcome]] = ENDS

    def marker(self, point: str) -> Path:
        """Return the file that is made when a point is struck."""
        return self.root / f"struck.{self.points.index(point)}"

    @property
    def struck(self) -> list[str]:
        """The points that were struck."""
        return [point for point in self.points if self.marker(point).exists()]

    def run(self) -> Iterator[Daemon]:
        """Yield one scheduler process after the other, each to be waited for."""
        self.root.mkdir()
        (self.root / "daemon").mkdir()
        for setting in (*(f"{point}:{self.marker(point)}" for point in self.points), ""):
            daemon = self.start(setting)
            yield daemon
            self.codes.append(daemon.code)

    async def drive(self, site: Site) -> None:
        """Do with a scheduler what the jobs need, until all have ended."""
        await drive(site, self.root)

    def start(self, setting: str) -> Daemon:
        """Start a scheduler process under a setting of SHUNTER_CRASH."""
        root = self.root

        def armed() -> None:
            arm_failpoint(setting)
            said = os.open(root / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(said, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 of this process

        return Daemon(cluster(self.farm, root), self.drive, armed)

    def faults(self) -> list[str]:
        """Return what is wrong with what came of it."""
        if self.codes and (self.codes[-1] or set(self.codes) - {0, -signal.SIGKILL}):
            return [f"schedulers ended with {self.codes}: {(self.root / 'stderr').read_text()}"]
        faults = []
        bench = Bench(self.farm, self.root)
        twice = [rank for rank, count in bench.runs().items() if count > 1]
        doubles = [line for line in bench.ledger() if line[4] == "double"]
        if twice or doubles:
            faults.append(f"ran twice: {twice}, {doubles}")
        verdict = anyio.run(verified, self.root)
        names = [JobId(name) for name in verdict.past.keys.values()]
        outcomes = [verdict.past.outcome(name) for name in names]
        if outcomes != list(self.ends):
            faults.append(f"jobs ended otherwise: {outcomes}")
        if verdict.divergence is not None:
            faults.append(f"decided again otherwise: {verdict.divergence}")
        return faults


def wrongs(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Carry cases out, and return by point what is wrong with what came of it."""
    try:
        together([case.run() for case in cases], TOGETHER)
    finally:
        for case in cases:
            for name in HOSTS:
                for place in sorted((case.root / name).glob("clusters/*")):
                    empty(str(place))
    faults = {", ".join(case.points): case.faults() for case in cases}
    return {point: found for point, found in faults.items() if found}


def runs_of(cases: Sequence[Case]) -> int:
    """Return how often ranks ran in all of them."""
    return sum(sum(Bench(case.farm, case.root).runs().values()) for case in cases)


def all_points(farm: Farm, root: Path) -> list[str]:
    """Return the points that a run comes to which nobody disturbs."""
    case = Case(farm, root / "undisturbed", ())
    case.root.mkdir()
    (case.root / "daemon").mkdir()
    daemon = case.start(f":{root / 'points'}")
    assert daemon.wait() == 0, (case.root / "stderr").read_text()
    assert case.faults() == []
    return list(dict.fromkeys((root / "points").read_text().splitlines()))


@pytest.mark.rotating(among="crash points over hosts")
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_scheduler_killed_anywhere_leaves_three_hosts_in_order() -> None:
    root = Path(tempfile.mkdtemp(prefix="ssh"))
    with farm_at(root / "farm", *HOSTS) as farm:
        points = all_points(farm, root)
        groups = far_apart(points, STRIKES)
        if not THOROUGH:  # on this machine alone too they are tried by parts (tests/live/site)
            # By pairs of commits: at every other one the helpers are killed in its place.
            groups = groups[slice_number() // 2 % PARTS :: PARTS]
        cases = [Case(farm, root / f"case{number}", each) for number, each in enumerate(groups)]
        wrong = wrongs(cases)
        # Which job goes where depends on what is quicker, and on an earlier strike.
        missed = [point for case in cases for point in case.points if point not in case.struck]
        again = [Case(farm, root / f"again{number}", (name,)) for number, name in enumerate(missed)]
        wrong |= wrongs(again)
        runs = runs_of([*cases, *again])
    struck = sum(len(case.struck) for case in (*cases, *again))
    print(f"crash points: {len(points)}, struck: {struck}, clusters: {len(cases)} + {len(again)}")
    print(f"wrong: {len(wrong)}; runs of ranks: {runs}")
    assert wrong == {}
    assert len(points) >= POINTS_LEAST
    assert struck >= (POINTS_LEAST if THOROUGH else POINTS_LEAST // PARTS)
    shutil.rmtree(root)


@dataclass
class GangCase(Case):
    """A gang on three hosts whose scheduler is struck between its start and its first rank."""

    ends: ClassVar[Sequence[Outcome]] = (Outcome.finished,)

    def run(self) -> Iterator[Daemon]:
        """Yield the scheduler that is struck, and the one after it."""
        (point,) = self.points
        (self.root / "daemon").mkdir(parents=True)
        for setting in (f"{point}:{self.marker(point)}", ""):
            daemon = self.start(setting)
            yield daemon
            self.codes.append(daemon.code)
            time.sleep(RANK_BEGINS_S)  # a rank that nothing holds back begins meanwhile
            with (self.root / "ledger").open("a") as ledger:
                ledger.write("j1 1 none none ended\n")

    async def drive(self, site: Site) -> None:
        """Submit a gang, and wait until it has ended."""
        job = await site.submit(worker(self.root, "gang", 0.1, gpus=3), NOBODY)
        await outcome(site, job)


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_gang_goes_on_whole_where_its_scheduler_dies_before_any_rank_runs() -> None:
    root = Path(tempfile.mkdtemp(prefix="ssh"))
    with farm_at(root / "farm", *HOSTS) as farm:
        cases = [GangCase(farm, root / f"case{n}", (name,)) for n, name in enumerate(GANG_POINTS)]
        assert wrongs(cases) == {}
    for case in cases:
        bench = Bench(farm, case.root)
        assert case.struck == list(case.points)
        assert bench.runs() == {f"j1.1.{rank}": 1 for rank in range(len(HOSTS))}, case.points
        told = [line[4] for line in bench.ledger()]
        # Nothing was sent yet. Agents tell of a start beside their answers, so ranks may be let run
        # before the scheduler comes to "supervisors answered".
        if case.points[0] == "ask send":
            assert told[0] == "ended", f"a rank ran before {case.points[0]}"
    shutil.rmtree(root)
