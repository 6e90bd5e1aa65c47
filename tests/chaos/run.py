"""One seed carried out: the cluster is built, ill-used, left in peace, and asked what it did."""

import heapq
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from shunter.client import Client
from shunter.errors import ShunterError, UnreachableError
from tests.chaos.checks import violations
from tests.chaos.daemon import Daemon, commands, write_config
from tests.chaos.forks import Commands
from tests.chaos.history import History, read_events, read_processes
from tests.chaos.hosts import Hosts, fill, small_disk, unmount
from tests.chaos.people import People
from tests.chaos.scenario import HOSTS, Fault, JobPlan, Scenario

__all__ = ["Result", "carried_out"]

SETTLE_S = 150.0
LAST_S = 60.0
GONE_S = 10.0
LAST = JobPlan("c99", "plain", 6, 3, 0.05, 0, 0.0, "cooperative")
"""A gang of all GPUs, which must find each of them free when everything is over."""


@dataclass(slots=True)
class Result:
    """What came of a seed."""

    violations: list[str]
    took_s: float
    counts: dict[str, int] = field(default_factory=dict)


def carried_out(scenario: Scenario, folder: Path) -> Result:
    """Carry a scenario out in a folder, and check what came of it."""
    begun_s = time.monotonic()
    run_commands = Commands()
    with Hosts(scenario.cluster, folder / "farm") as hosts:
        trial = _Trial(scenario, folder, hosts, run_commands)
        try:
            trial.work()
            history = trial.history()
        finally:
            trial.close()
            run_commands.close()
    found = violations(history)
    return Result(found, time.monotonic() - begun_s, _counts(history, trial))


class _Trial:
    """A run under way."""

    def __init__(
        self, scenario: Scenario, folder: Path, hosts: Hosts, run_commands: Commands
    ) -> None:
        self.daemon = Daemon(run_commands, folder / "shunter.toml", folder / "daemon.txt")
        self._commands = run_commands
        self.complaints: list[tuple[str, str]] = []
        self._scenario = scenario
        self._folder = folder
        self._hosts = hosts
        self._own = folder / "daemon"
        self._witnesses = folder / "witnesses"
        for each in (self._own, self._witnesses / "locks", folder / "shared"):
            each.mkdir(parents=True)
        self._has_disk = "daemon" in scenario.cluster.small_disks
        if self._has_disk:
            small_disk(self._own)
        self._url = f"unix:{folder}/socket"
        write_config(
            folder / "shunter.toml",
            scenario.cluster,
            hosts,
            folder=self._own,
            socket=folder / "socket",
            shared=folder / "shared",
        )

    def work(self) -> None:
        """Submit, do all faults and undo them, and wait for the end of everything."""
        self.daemon.start()
        self._until_up()
        begin_s = time.monotonic()
        seed = self._scenario.seed
        self.people = People(self._url, self._witnesses, seed, self.daemon.look)
        self.people.begin(self._scenario.jobs, self._scenario.faults, begin_s)
        self._do_faults(begin_s)
        self._recover()
        self.people.finish(LAST_S)
        self.people.release(HOSTS)
        self._until_ended(SETTLE_S)
        self.people.submit(LAST)
        self._until_ended(LAST_S)
        self._until_gone()
        self.daemon.stop()

    def history(self) -> History:
        """Return what is known now."""
        exported = self._folder / "events.jsonl"
        wrong = commands(self._commands, self._own / "log.db", exported)
        people, plans = self.people, (*self._scenario.jobs, LAST)
        lines = exported.read_text().splitlines() if exported.exists() else []
        with closing(sqlite3.connect(self._own / "log.db")) as log:
            rows = log.execute("SELECT seq FROM head").fetchone()[0]
        return History(
            plans={plan.key: plan for plan in plans},
            ids=dict(people.ids),
            events=read_events(lines),
            processes=read_processes(self._witnesses),
            freezes=tuple(self._hosts.freezes),
            cancelled=frozenset(people.cancelled),
            has_shared_checkpoints=self._scenario.cluster.has_shared_checkpoints,
            rows=rows,
            complaints=(
                *self.complaints,
                *people.complaints,
                *self.daemon.complaints,
                *self.daemon.tracebacks(),
                *wrong,
            ),
        )

    def close(self) -> None:
        """Leave nothing running; keep what the daemon wrote."""
        self.daemon.kill()
        if self._has_disk:
            unmount(self._own)

    def _until_up(self) -> None:
        until_s = time.monotonic() + LAST_S
        while time.monotonic() < until_s:
            try:
                with Client(self._url) as client:
                    client.daemon()
            except UnreachableError:
                self.daemon.look()
                time.sleep(0.05)
            else:
                return
        self.complaints.append(("daemon", "did not take commands"))

    def _do_faults(self, begin_s: float) -> None:
        numbers = count()
        due = [
            (fault.at_s, next(numbers), fault, False)
            for fault in self._scenario.faults
            if fault.what not in ("suspend", "cancel", "drain")
        ]
        heapq.heapify(due)
        while due:
            at_s, _, fault, is_done = due[0]
            if begin_s + at_s > time.monotonic():
                self.daemon.look()
                time.sleep(0.01)
                continue
            heapq.heappop(due)
            if is_done:
                self._undo(fault)
            else:
                self._do(fault)
                until_s = fault.at_s + fault.lasting_s
                heapq.heappush(due, (until_s, next(numbers), fault, True))

    def _do(self, fault: Fault) -> None:
        if fault.what == "kill":
            self.daemon.kill()
        elif fault.what == "terminate":
            self.daemon.stop()
        elif fault.whom == "daemon":
            self.daemon.has_had_full_disk = True
            fill(self._own / "filler")
        else:
            self._hosts.do(fault)

    def _undo(self, fault: Fault) -> None:
        if fault.what in ("kill", "terminate"):
            self.daemon.start()
        elif fault.whom == "daemon":
            (self._own / "filler").unlink(missing_ok=True)
        else:
            self._hosts.undo(fault)

    def _recover(self) -> None:
        self._hosts.recover()
        (self._own / "filler").unlink(missing_ok=True)
        self.daemon.start()
        self._until_up()

    def _until_ended(self, within_s: float) -> None:
        """Wait until no job is left; say of those that are what the scheduler says of them."""
        left: list[str] = []
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            self.daemon.look()
            try:
                with Client(self._url) as client:
                    left = [job["id"] for job in client.queue()["jobs"]]
                    if not left:
                        return
            except ShunterError as error:
                left = [str(error)]
            time.sleep(0.3)
        for job in left:
            try:
                with Client(self._url) as client:
                    said = client.why(job)["headline"]
            except ShunterError as error:
                said = error
            self.complaints.append(("stuck", f"{job} after {within_s:.0f} s of peace: {said}"))

    def _until_gone(self) -> None:
        """Wait until nothing of any job is on any host."""
        until_s = time.monotonic() + GONE_S
        left = self._hosts.left()
        while left and time.monotonic() < until_s:
            time.sleep(0.2)
            left = self._hosts.left()
        self.complaints += [("left", line) for line in left]


def _counts(history: History, trial: _Trial) -> dict[str, int]:
    kinds = ("JobSubmitted", "AttemptStarted", "AttemptLost", "JobSuspended", "NodeLost")
    return {
        "kills": trial.daemon.kills,
        "processes": len(history.processes),
        **{kind: len(history.of_kind(kind)) for kind in kinds},
    }
