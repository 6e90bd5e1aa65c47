"""Every marked point, with a real SIGKILL of whoever comes to it: nothing is lost or run twice.

Goal: wherever scheduler or supervisor die during launch, suspension, resumption, termination and
end, the next start brings every job to the end it would have had. Method: one run writes down all
the points it comes to. Then each is tried, some that lie far apart in one cluster: whoever comes to
it is killed, a scheduler that is gone is started again, and the jobs are driven on to their ends.
What jobs leave behind tells whether one ran twice or two shared a GPU: they hold a lock for each.
"""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

import shunter
import shunter.daemon.policy as product
from shunter.backends.node import arm_failpoint
from shunter.config import LoadedConfig
from shunter.core import Job, JobPhase
from shunter.daemon import Site, Submission
from shunter.events import JobId, Outcome, SuspendMode
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.live.site.daemons import STRIKES, Daemon, far_apart, together
from tests.live.site.sites import NOBODY, config, verified
from tests.live.site.witnesses import marks, witness, wrongs
from tests.policy_forks import AS_THE_PRODUCT_DOES

pytestmark = [pytest.mark.live, pytest.mark.long]

POINTS_LEAST = 40
SUPERVISORS = ("attempt ", "put started", "put status")
# Comes about where a machine is slow, and then not again: it is struck if it is come to.
SLOWNESS = re.compile("(append|durable) (NodeUnreachable|NodeReachable|PolicySetAside)")
PARTS, TOGETHER = 4, 3
TRIES = 4
JOB = """
def await_trimmed():  # until its supervisor has heard that the note is durable, if it lives
    journal = os.path.dirname(os.environ["SHUNTER_CHANNEL"]) + "/journal"
    until_s = time.monotonic() + 2.0
    while time.monotonic() < until_s:
        if os.path.exists(journal) and "trimmed" in open(journal).read():
            return
        time.sleep(0.01)
works_s, code = float(sys.argv[2]), int(sys.argv[3])
path = os.environ["SHUNTER_CHECKPOINT_DIR"] + "/done"
done_s = float(open(path).read()) if os.path.exists(path) else 0.0
saves = code < 0  # works until it was suspended, and goes on from there
while done_s < works_s or (saves and not os.path.exists(path)):
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        say("acknowledged")
        await_trimmed()
        with open(path + ".new", "w") as file:
            file.write(str(done_s))
        os.replace(path + ".new", path)
        say("saved")
        mark("left")
        os._exit(75)
    time.sleep(0.01)
    done_s += 0.01
mark("worked")
os._exit(max(0, code))
"""
# Works until it was stopped and goes on.
STANDS = """
def go_on(*_):
    mark("worked")
    os._exit(0)
signal.signal(signal.SIGCONT, go_on)
mark("stands")
while True:
    time.sleep(1)
"""
ENDS = {
    "suspended": Outcome.finished,
    "cancelled": Outcome.cancelled,
    "finished": Outcome.finished,
    "failed": Outcome.failed,
    "overdue": Outcome.timeout,
    "stopped": Outcome.finished,
}
MARKED = re.compile(r'failpoint\("([^"]+)"\)')
STARTS = (
    "term taken",
    "backend taken over",
    "append SchedulerStarted",
    "durable SchedulerStarted",
    "adopted",
    "settled",
)
BEFORE = ("order SuspendAttempt", "order Terminate")


def cluster(root: Path) -> LoadedConfig:
    """Return a cluster of two GPUs, so that jobs wait for each other."""
    nodes = [{"name": "n0", "gpus": 2}]
    short = {"snapshot_every": 15, "seal_after": 20}
    return config(root, cluster={"nodes": nodes}, log=short)


def job(root: Path, key: str, works_s: float, code: int = 0, **fields: object) -> Submission:
    return witness(root, JOB, str(works_s), str(code), key=key, **fields)


def jobs(root: Path) -> list[Submission]:
    return [
        job(root, "suspended", 0.05, code=-1),
        job(root, "cancelled", 600),
        job(root, "finished", 0.05, environment={"SECRET": "value"}),
        job(root, "failed", 0.0, code=3),
        job(root, "overdue", 60, time_limit_us=150_000),
        witness(root, STANDS, key="stopped", suspend_mode=SuspendMode.stop),
    ]


async def drive(site: Site, root: Path) -> None:
    """Submit the jobs, suspend and resume two, cancel another, until all have ended."""
    ids = [await site.submit(request, NOBODY) for request in jobs(root)]
    state = site.state
    while any(job_id in state.jobs for job_id in ids):
        one, other = state.jobs.get(ids[0]), state.jobs.get(ids[1])
        has_saved = (root / f"attempts/jobs/{ids[0]}/checkpoints/done").exists()
        if one is not None and works(one) and not has_saved:
            await site.tell(site.commands.suspend(ids[0], NOBODY))
        elif one is not None and one.held_by == "" and one.is_on_hold and one.since_us is None:
            await site.tell(site.commands.resume(ids[0], NOBODY))
        if other is not None and works(other) and not other.end_cause:
            await site.tell(site.commands.cancel(ids[1], NOBODY))
        await stop_and_go_on(site, root, ids[-1])
        await anyio.sleep(0.01)


async def stop_and_go_on(site: Site, root: Path, job_id: JobId) -> None:
    """Stop a job in place once in an attempt, and let it go on once it stands still.

    One stopped before it stands would never be told that it goes on.
    """
    one = site.state.jobs.get(job_id)
    if one is None or one.end_cause:
        return
    stands = f"{job_id}.{one.attempt} stands" in marks(root)
    if not one.is_on_hold and works(one) and stands and not one.notes:
        await site.tell(site.commands.suspend(job_id, NOBODY))
    elif one.is_on_hold and one.held_by == "" and (one.speed == 0 or one.since_us is None):
        await site.tell(site.commands.resume(job_id, NOBODY))


def works(one: Job) -> bool:
    return one.phase is JobPhase.running


@dataclass
class Case:
    """One cluster, and the points at which it is to be struck, one after the other."""

    root: Path
    points: Sequence[str]
    struck: list[str] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)

    def run(self) -> Iterator[Daemon]:
        """Yield one scheduler process after the other, each to be waited for."""
        self.root.mkdir()
        self.codes.clear()
        for number, point in enumerate((*self.points, "")):
            marker = self.root / f"struck.{number}"
            daemon = self.start(f"{point}:{marker}" if point else "")
            yield daemon
            self.codes.append(daemon.code)
            if point and marker.exists():
                self.struck.append(point)

    def start(self, setting: str) -> Daemon:
        """Start a scheduler process under a setting of SHUNTER_CRASH."""
        root = self.root

        async def deed(site: Site) -> None:
            await drive(site, root)

        def armed() -> None:
            os.environ["SHUNTER_CRASH"] = setting
            arm_failpoint(setting)
            said = os.open(root / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(said, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 of this process

        return Daemon(cluster(root), deed, armed)

    @property
    def missed(self) -> list[str]:
        """The points that it was not come to, and should have been."""
        missed = [point for point in self.points if point not in self.struck]
        return [point for point in missed if not SLOWNESS.fullmatch(point)]

    def faults(self) -> list[str]:
        """Return what is wrong with what came of it."""
        if self.codes and (self.codes[-1] or set(self.codes) - {0, -signal.SIGKILL}):
            said = (self.root / "stderr").read_text()
            return [f"{' then '.join(self.points)}: schedulers ended with {self.codes}: {said}"]
        faults = wrongs(self.root)
        outcomes, divergence = anyio.run(self._told)
        if outcomes != list(ENDS.values()):
            faults.append(f"jobs ended otherwise: {outcomes}")
        if divergence is not None:
            faults.append(f"decided again otherwise: {divergence}")
        return [f"{' then '.join(self.points)}: {fault}" for fault in faults]

    async def _told(self) -> tuple[list[Outcome | None], object]:
        verdict = await verified(self.root)
        async with read_log(str(self.root / "log.db")) as reader:
            await reader.verify()
        names = [JobId(name) for name in verdict.past.keys.values()]
        return [verdict.past.outcome(name) for name in names], verdict.divergence


def all_points(root: Path) -> list[str]:
    """Return the points that a run comes to which nobody disturbs."""
    traced = root / "points"
    case = Case(root / "undisturbed", ())
    case.root.mkdir()
    daemon = case.start(f":{traced}")
    assert daemon.wait() == 0
    assert case.faults() == []
    return list(dict.fromkeys(traced.read_text().splitlines()))


def marked_points() -> list[str]:
    """Return the points marked by a fixed name in what a cluster of one machine runs.

    Those of remote hosts are struck by tests/live/ssh/faults/test_helper_crashes.py, those of Slurm
    by tests/live/slurm/crashes/test_pilot_failpoints.py.
    """
    package = Path(shunter.__file__).parent
    elsewhere = {package / "backends" / "node" / "host", package / "backends" / "slurm"}
    assert all(folder.is_dir() for folder in elsewhere)
    paths = [path for path in sorted(package.rglob("*.py")) if not elsewhere & {*path.parents}]
    sources = [path.read_text() for path in paths]
    return [name for text in sources for name in MARKED.findall(text)]


def in_groups(points: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the points by cluster; a scheduler whose supervisor dies goes on to its end."""
    alone = [point for point in points if point.startswith(SUPERVISORS)]
    return [
        *far_apart([point for point in points if point not in alone], STRIKES),
        *((point,) for point in alone),
    ]


@pytest.mark.rotating("part")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_crash_point_is_survived(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part == 0:  # these meet policies that are slow to start, as all do outside of tests
        monkeypatch.setattr(product, "start_process", AS_THE_PRODUCT_DOES)
    points = all_points(tmp_path)
    assert marked_points()
    assert set(marked_points()) <= set(points)
    pairs: list[Sequence[str]] = [(before, start) for before in BEFORE for start in STARTS]
    groups = [*in_groups(points), *pairs][part::PARTS]
    cases = [Case(tmp_path / f"case{number}", each) for number, each in enumerate(groups)]
    begun_s = time.monotonic()
    try:
        together([case.run() for case in cases], TOGETHER)
        # Whether it comes to a point may hang on who is quicker, and on an earlier strike: what was
        # missed is tried again, alone or with its pair.
        missed = [case.points for case in cases if case.missed and case.points in pairs]
        missed += [(point,) for case in cases if case.points not in pairs for point in case.missed]
        for turn in range(TRIES):
            again = [
                Case(tmp_path / f"{turn}.{number}", each) for number, each in enumerate(missed)
            ]
            cases += again
            together([case.run() for case in again], 1)
            missed = [case.points for case in again if case.missed]
    finally:
        for case in cases:
            empty(str(case.root / "attempts"))
    faults = [fault for case in cases for fault in case.faults()]
    faults += [f"{' then '.join(points)}: was not come to" for points in missed]
    took_s = time.monotonic() - begun_s
    tried = len(cases) - len(groups)
    print(f"crash points: {len(points)}; clusters: {len(cases)}, {tried} of them again")
    print(f"faults: {len(faults)}; {took_s:.0f} s")
    assert faults == []
    assert len(points) >= POINTS_LEAST
    shutil.rmtree(tmp_path)
