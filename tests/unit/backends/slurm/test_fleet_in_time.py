"""What a fleet of pilots asks Slurm for over days, and when: in virtual time, before a queue.

All but Slurm is what the daemon runs: fleet, decisions, certificates, listener.
"""

import dataclasses
import pwd
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.streams.tls import TLSStream

from shunter import clock
from shunter.backends.node import PILOT_VERSION
from shunter.backends.slurm import (
    SETTLED_S,
    AllocationLimits,
    ClusterAuthority,
    GpuRequest,
    JobsOn,
    ListenerSettings,
    NodeService,
    PilotFleet,
    PilotHello,
    PilotListener,
    PilotStream,
    PilotTransport,
    QueuedJob,
    Slurm,
    SlurmServer,
    SlurmSettings,
    SubmitRefusals,
    name_in,
)
from shunter.errors import SlurmRefusedError, SlurmUnknownError
from shunter.events import NodeName
from tests.doubles.virtual_clock import VirtualClock

USER = "ana"
DAY_S, HOUR_S = 86_400.0, 3600.0
POLL_S, CALL_S = 60.0, 1.0
LATE_S = POLL_S + 2 * CALL_S  # a decision is made at the next look at the queue
N0 = NodeName("n0")
ONE_JOB = (GpuRequest(4),)


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account of this process, which has none in some containers."""
    account = (USER, "x", 1000, 1000, "", "/", "/bin/sh")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(account))


class MemoryJob:
    """A job of Slurm, from its submission to its end."""

    def __init__(self, number: int, name: str, limit_s: float, start_s: float) -> None:
        self.number, self.name, self.limit_s = number, name, limit_s
        self.submit_s, self.start_s = clock.wall_s(), start_s
        self.end_s = start_s + limit_s

    def queued(self) -> QueuedJob:
        now_s = clock.wall_s()
        has_started, has_ended = now_s >= self.start_s, now_s >= self.end_s
        state = "TIMEOUT" if has_ended else "RUNNING" if has_started else "PENDING"
        start_s = int(self.start_s) if has_started else None
        return QueuedJob(
            id=self.number,
            name=self.name,
            user=USER,
            state=state,
            reason="None" if has_started else "Resources",
            nodes=("n0",),
            submit_s=int(self.submit_s),
            start_s=start_s,
            end_s=None,
            time_limit_s=int(self.limit_s),
            restarts=0,
        )


class MemorySlurm(Slurm):
    """A queue before one node; each command takes a second.

    A submission waits for `wait_s`, and for the end of the job that has the node. `told` is what
    was asked for, with its instant in seconds of the run; `fails` raises what submissions meet.
    """

    def __init__(self, wait_s: float, fails: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.wait_s, self.fails = wait_s, fails
        self.jobs: list[MemoryJob] = []
        self.told: list[tuple[float, str]] = []
        self.looks = 0
        self.begun_s = clock.wall_s()

    async def queue(self) -> tuple[QueuedJob, ...]:
        self.looks += 1
        await anyio.sleep(CALL_S)
        return tuple(job.queued() for job in self.jobs)

    async def submit(self, script: str, options: Sequence[str]) -> int:
        self.tell("submit")
        await anyio.sleep(CALL_S)
        self.fails()
        said = dict(option.partition("=")[::2] for option in options)
        free_s = max([clock.wall_s() + self.wait_s, *(job.end_s for job in self.jobs)])
        job = MemoryJob(len(self.jobs), said["--job-name"], float(said["--time"]) * 60, free_s)
        self.jobs.append(job)
        return job.number

    async def cancel(
        self,
        jobs: Sequence[int],
        *,
        name: str = "",
        signal: str = "",
        batch_only: bool = False,
    ) -> None:
        for number in jobs:
            self.tell(f"{signal or 'cancel'} {number}")
            if not signal:
                self.jobs[number].end_s = clock.wall_s()

    def dials_in(self, process: str) -> PilotStream:
        """Return the connection of the first pilot, of a process of it; nothing is read there."""
        name = name_in("c1", USER, self.jobs[0].queued())
        assert name is not None
        hello = PilotHello(PILOT_VERSION, "serve", process)
        return PilotStream(cast("TLSStream", None), name, hello, b"")

    async def connect(self, fleet: PilotFleet) -> None:
        """Connect the first pilot soon after its start, for ever."""
        await anyio.sleep(10 * CALL_S)
        await fleet.connected(self.dials_in("process"))

    async def tell_drains(self, fleet: PilotFleet) -> None:
        """Tell of drains of nodes, for ever."""
        while True:
            await fleet.drains_changed.wait()
            self.tell(f"drains: {list(fleet.drains.values())}")

    def tell(self, what: str) -> None:
        self.told.append((clock.wall_s() - self.begun_s, what))


def fleet_of(root: Path, slurm: Slurm, jobs_on: JobsOn) -> PilotFleet:
    """Return a fleet of one node, before it runs."""
    server = SlurmServer(N0, ("0", "1", "2", "3"), (0,), "v100", "gpu:4", 0)
    settings = SlurmSettings(
        root=str(root),
        nodes=(server,),
        cluster_id="c1",
        term=1,
        holder="h",
        partition="gpu",
        addresses=("127.0.0.1",),
        poll_s=POLL_S,
    )
    transports = {N0: PilotTransport(server, str(root))}
    service = NodeService(slurm, settings.nodes, least_s=600.0)
    fleet = PilotFleet(settings, slurm, transports, service, jobs_on)
    authority = ClusterAuthority.load(root, clock.wall_s())
    fleet.recall(authority, PilotListener(authority, fleet, ListenerSettings()))
    fleet.open(7000)
    return fleet


@asynccontextmanager
async def running(fleet: PilotFleet, *, wants: bool = True) -> AsyncIterator[TaskGroup]:
    """Have a fleet run, and other tasks beside it, until what is within has been done."""
    if wants:
        fleet.want(ONE_JOB)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fleet.run)
        yield tasks
        tasks.cancel_scope.cancel()


def days(
    root: Path,
    until_s: float,
    *,
    wait_s: float = 0.0,
    busy_s: tuple[float, float] = (0.0, 0.0),
    fails: Callable[[], None] = lambda: None,
    connects: bool = False,
) -> list[tuple[float, str]]:
    """Return what a fleet of one node has told Slurm in so long.

    A job waits from the start; it runs from the first instant of `busy_s` to the second. Where the
    first pilot `connects`, its node's drains are told as well.
    """

    async def main() -> list[tuple[float, str]]:
        slurm = MemorySlurm(wait_s, fails)

        def jobs_on(node: NodeName) -> tuple[int, int]:
            is_busy = busy_s[0] <= clock.wall_s() - slurm.begun_s < busy_s[1]
            return (1, 4) if is_busy else (0, 0)

        fleet = fleet_of(root, slurm, jobs_on)
        async with running(fleet) as tasks:
            if connects:
                tasks.start_soon(slurm.tell_drains, fleet)
                tasks.start_soon(slurm.connect, fleet)
            await anyio.sleep(busy_s[0] or until_s)
            fleet.want(())
            await anyio.sleep(until_s - (busy_s[0] or until_s))
        return slurm.told

    return VirtualClock().run(main)


def test_pilot_is_awaited_renewed_drained_and_given_back_in_time(tmp_path: Path) -> None:
    """Goal: each thing is asked for at the instant that time alone makes it due.

    Method: the node comes after half an hour in the queue. A job has it for longer than the day
    that a pilot has, so a successor is asked for an hour before its end, and the pilot is drained
    five minutes before it. The successor is given back when it was idle for ten minutes.
    """
    began_s = time.monotonic()
    told = days(tmp_path, 3 * DAY_S, wait_s=1800.0, busy_s=(1900.0, 32 * HOUR_S))
    assert time.monotonic() - began_s < 20.0
    ends_s = 2 * CALL_S + 1800 + DAY_S
    due_s = {
        "submit": ends_s - HOUR_S,
        "USR1 0": ends_s - 300,
        "cancel 1": 32 * HOUR_S + 600,
    }
    assert told[0] == (CALL_S, "submit"), "what jobs wait for is asked for at once"
    assert [what for _, what in told[1:]] == list(due_s)
    for at_s, what in told[1:]:  # a look may be needed to see what another one counts from
        assert due_s[what] <= at_s <= due_s[what] + 2 * LATE_S


def test_connected_pilot_drains_before_it_is_told_to_suspend_or_given_back(tmp_path: Path) -> None:
    """Whoever plans knows of it when the pilot is told, or before."""
    why = "the pilot on node n0 (Slurm job 0) is about to end: "
    told = days(tmp_path, 2 * DAY_S, busy_s=(100.0, DAY_S - 200), connects=True)
    late = [(at_s, what) for at_s, what in told if what != "submit"]
    assert sorted(what for _, what in late[:2]) == [
        "USR1 0",
        f"drains: ['{why}its time limit of 1 d in Slurm ends in 4 min']",
    ]
    assert late[0][0] == late[1][0] < late[2][0]
    assert late[2][1] == "cancel 0"
    (tmp_path / "idle").mkdir()
    told = days(tmp_path / "idle", DAY_S, busy_s=(100.0, HOUR_S), connects=True)
    assert [what for _, what in told] == [
        "submit",
        f"drains: ['{why}nothing has needed node n0 for 10 min']",
        "cancel 0",
    ]
    assert told[1][0] < told[2][0] <= told[1][0] + 2 * CALL_S, "at the next look"


def test_pilot_that_drains_still_does_when_it_connects_again(tmp_path: Path) -> None:
    """Its signal may be on the way; only another process of it is another run by Slurm."""

    async def main() -> list[list[str]]:
        slurm, drains = MemorySlurm(0.0), list[list[str]]()
        fleet = fleet_of(tmp_path, slurm, lambda _: (1, 4))
        async with running(fleet) as tasks:
            await anyio.sleep(3 * CALL_S)
            for process in ("one", "one", "another"):
                stream = slurm.dials_in(process)
                tasks.start_soon(fleet.connected, stream)
                await anyio.sleep(CALL_S)
                fleet.note_up(N0)
                drains.append(sorted(fleet.drains))
                fleet.draining(stream.name, "SIGUSR1", 100.0)
                stream.over.set()
                await anyio.sleep(CALL_S)
        return drains

    assert VirtualClock().run(main) == [[], ["n0"], []]


class OldAnswer(MemorySlurm):
    """A queue that answers what was so when it was asked, if an answer is set."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.answer: Callable[[QueuedJob], QueuedJob] | None = None

    async def queue(self) -> tuple[QueuedJob, ...]:
        found = await super().queue()
        return found if self.answer is None else tuple(map(self.answer, found))


@pytest.mark.parametrize(
    "of_the_run_before",
    [
        {"state": "PENDING", "start_s": None},
        {"state": "COMPLETED"},
        {"state": "RUNNING", "start_s": 0, "end_s": 60, "time_limit_s": 3600},  # preempted
    ],
    ids=["waits", "has ended", "is preempted"],
)
def test_answer_about_the_run_before_changes_nothing_of_a_pilot_that_has_dialled_in(
    tmp_path: Path, of_the_run_before: dict[str, object]
) -> None:
    """The question was asked before another process of the pilot dialled in."""

    async def main() -> list[tuple[list[NodeName], frozenset[NodeName], int]]:
        slurm, is_busy = OldAnswer(), [True]
        fleet = fleet_of(tmp_path, slurm, lambda _: (1, 4) if is_busy[0] else (0, 0))
        found = []

        def note() -> None:
            fleet.note_up(N0)
            found.append((sorted(fleet.drains), fleet.unheld, len(slurm.told)))

        async with running(fleet):
            await anyio.sleep(3 * CALL_S)
        is_busy[0] = False
        old = cast("dict[str, Any]", of_the_run_before)
        slurm.answer = lambda job: dataclasses.replace(job, **old)
        stream = slurm.dials_in("of run 1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet.look)
            await anyio.sleep(CALL_S / 2)
            tasks.start_soon(fleet.connected, stream)
            await anyio.sleep(CALL_S)
            note()
            fleet.draining(stream.name, "SIGUSR1", 100.0)
            slurm.answer = lambda job: dataclasses.replace(job, restarts=1)
            await fleet.look()
            note()
            tasks.cancel_scope.cancel()
        return found

    only_submitted = (frozenset[NodeName](), 1)
    assert VirtualClock().run(main) == [([], *only_submitted), (["n0"], *only_submitted)]


def test_queue_is_asked_for_once_a_poll_however_often_the_demand_changes(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[tuple[float, str]]]:
        slurm = MemorySlurm(0.0)
        fleet = fleet_of(tmp_path, slurm, lambda _: (0, 0))
        async with running(fleet, wants=False):
            for turn in range(400):
                fleet.want(ONE_JOB * (1 + turn % 2))
                await anyio.sleep(3 * CALL_S)
        return slurm.looks, slurm.told

    looks, told = VirtualClock().run(main)
    assert told == [(CALL_S, "submit")]
    assert 1200 * CALL_S / LATE_S <= looks <= 1 + 1200 * CALL_S / POLL_S


def test_change_of_the_demand_is_acted_upon_before_the_next_poll(tmp_path: Path) -> None:
    async def main() -> list[tuple[float, str]]:
        slurm = MemorySlurm(0.0)
        fleet = fleet_of(tmp_path, slurm, lambda _: (0, 0))
        async with running(fleet, wants=False):
            await anyio.sleep(POLL_S / 2)
            assert fleet.unheld == {N0}
            fleet.want(ONE_JOB)
            await anyio.sleep(POLL_S)
            assert fleet.unheld == set()
        return slurm.told

    assert VirtualClock().run(main) == [(POLL_S / 2, "submit")]


def test_refusals_are_met_with_longer_and_longer_pauses(tmp_path: Path) -> None:
    def refuse() -> None:
        raise SlurmRefusedError("QOSMaxSubmitJobPerUserLimit")

    told = days(tmp_path, DAY_S, fails=refuse)
    limits = AllocationLimits(pilots_max=1)
    assert DAY_S / (limits.backoff_s_max + LATE_S) < len(told) < DAY_S / 300
    for count, ((at_s, _), (next_s, _)) in enumerate(pairwise(told), 1):
        refused_s = at_s + CALL_S
        due_s = limits.retry_at_s(N0, SubmitRefusals(count, refused_s, ""))
        assert due_s - 1e-6 <= next_s <= due_s + LATE_S


def test_answer_that_is_lost_is_asked_for_again_once_the_queue_is_believed(tmp_path: Path) -> None:
    lost = [True]

    def lose() -> None:
        if lost:
            lost.pop()
            raise SlurmUnknownError("sbatch did not answer", "")

    told = days(tmp_path, HOUR_S, fails=lose)
    (first_s, _), (again_s, _) = told
    assert SETTLED_S <= again_s - first_s <= SETTLED_S + LATE_S


def test_two_runs_of_days_are_the_same(tmp_path: Path) -> None:
    def run(name: str) -> list[tuple[float, str]]:
        (tmp_path / name).mkdir()
        busy_s = (HOUR_S + 100, 1.2 * DAY_S)  # longer than a pilot has
        return days(tmp_path / name, 1.3 * DAY_S, wait_s=HOUR_S, busy_s=busy_s)

    told = run("one")
    assert len(told) > 2
    assert run("other") == told
