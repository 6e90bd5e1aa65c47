"""Faults while jobs take turns: none is lost, none runs twice, no GPU works for two at once.

Where jobs are packed it works for those two at once, and for nobody else. Each job notes in a
ledger what it does, and who is beside it. What was done is counted, and printed.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from shunter.backends.node import attempts, pids_of, processes, rotating_in, slices_of
from shunter.config import LoadedConfig
from shunter.daemon import Site
from shunter.events import (
    AttemptStarted,
    Event,
    JobFinished,
    TrialKept,
    TrialReverted,
    TrialStarted,
    TurnStarted,
)
from shunter.events.log import read_log
from tests.contracts.local_backends import empty
from tests.faults.supervised import wait_for
from tests.live.site.daemons import Daemon
from tests.live.site.sites import NOBODY, config, events_until, of, verified
from tests.live.turns.ledger import batches_in, beside_in, doubles_in, goes_on, ledger, noting
from tests.live.turns.packs import pairs_in, shared_unpacked

pytestmark = [pytest.mark.live, pytest.mark.long]

JOBS, QUANTUM_S = 6, 0.5
# GPUs, and what the policy tries. Six on two GPUs are three packs, which take turns.
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "sliced": (4, {}),
    "packed": (2, {"gandiva": {"packing": {"probe": 6.0}}}),
}


@dataclass
class Machine:
    """A cluster on this machine, its jobs, and what was done to them."""

    root: Path
    loaded: LoadedConfig
    daemon: Daemon
    done: Counter[str] = field(default_factory=Counter)

    def go_on(self) -> None:
        """Wait until every job has done more mini-batches."""
        goes_on(self.root, *[f"j{number + 1}" for number in range(JOBS)])

    def are_packed(self) -> None:
        """Wait until some jobs are at work beside each other."""
        before = beside_in(self.root)
        wait_for(lambda: beside_in(self.root) > before, "a pack")

    def running(self) -> list[tuple[str, int, int]]:
        """Return the attempts that run: job, number, supervisor."""
        return [
            (known["job"], known["attempt"], known["started"]["pid"])
            for known in attempts.inventory(str(self.root / "attempts"))
            if known["state"] == "running" and known["started"]
        ]

    def victim(self, number: int) -> tuple[str, int, int]:
        """Return the attempt whose supervisor rotates, or one that was on a GPU with another."""
        running = self.running()
        beside = [job for job, _, what, *_ in ledger(self.root) if what == "beside"]
        rotates = rotating_in(slices_of(str(self.root / "attempts"), "n0"))
        for each in running:
            if (each[:2] == rotates) if number % 2 else (each[0] in beside[-1:]):
                self.done["of these, who rotated" if number % 2 else "of these, packed"] += 1
                return each
        return running[number % len(running)]

    def kill_supervisor(self, number: int) -> None:
        job, _, pid = self.victim(number)
        os.kill(pid, signal.SIGKILL)
        self.done["supervisors killed"] += 1
        wait_for(lambda: pid not in {each[2] for each in self.running()}, f"the end of {job}")

    def freeze_supervisor(self, number: int) -> None:
        """Stop a supervisor for some quanta."""
        _, _, pid = self.victim(number)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(3 * QUANTUM_S)
        os.kill(pid, signal.SIGCONT)
        self.done["supervisors stopped"] += 1

    def kill_rank(self, number: int) -> None:
        job, attempt, _ = self.victim(number)
        for pid in pids_of(str(self.root / "attempts"), (job, attempt), processes()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.done["jobs killed"] += 1

    def kill_daemon(self, number: int) -> None:
        """Kill the daemon; turns go on, and the next one begins some quanta later."""
        self.daemon.kill()
        self.done["daemons killed"] += 1
        if number % 2:
            self.go_on()
        self.daemon = Daemon(self.loaded, submitting(self.root))


def submitting(root: Path) -> Callable[[Site], Awaitable[None]]:
    """Return what a daemon does: it takes each job once, and waits for their ends."""

    async def deed(site: Site) -> None:
        for number in range(JOBS):
            await site.submit(noting(root, f"job {number}"), NOBODY)
        await events_until(site, lambda seen: len(of(seen, JobFinished)) == JOBS)

    return deed


async def events_of(root: Path) -> list[Event]:
    async with read_log(str(root / "log.db")) as reader:
        return [event async for event in reader.events()]


@pytest.mark.rotating("kind")
@pytest.mark.parametrize("kind", KINDS)
def test_jobs_in_turns_outlive_what_happens_to_them_and_to_who_gives_the_turns(
    kind: str, tmp_path: Path
) -> None:
    gpus, params = KINDS[kind]
    slicing = {"quantum": QUANTUM_S, "boundary_most": 60.0}
    policy = {"name": "gandiva", "slicing": slicing, "trigger": "event", "params": params}
    cluster = {"nodes": [{"name": "n0", "gpus": gpus}]}
    loaded = config(tmp_path, policy=policy, cluster=cluster)
    machine = Machine(tmp_path, loaded, Daemon(loaded, submitting(tmp_path)))
    faults = [
        *(machine.kill_supervisor, machine.freeze_supervisor, machine.kill_daemon),
        *(machine.kill_rank, machine.kill_supervisor, machine.kill_daemon),
        *(machine.freeze_supervisor, machine.kill_supervisor, machine.kill_rank),
    ]
    try:
        machine.go_on()
        for number, fault in enumerate(faults):
            if params:
                machine.are_packed()
            fault(number)
            machine.go_on()
        (tmp_path / "enough").touch()
        assert machine.daemon.wait() == 0
    finally:
        if machine.daemon.code is None:
            machine.daemon.kill()
        empty(str(tmp_path / "attempts"))
    events = anyio.run(events_of, tmp_path)
    doubles, shared = doubles_in(tmp_path, pairs_in(events).keys()), shared_unpacked(events)
    counts = {
        **machine.done,
        "attempts": len(of(events, AttemptStarted)),
        "turns": len(of(events, TurnStarted)),
        "trials": len(of(events, TrialStarted)),
        "kept": len(of(events, TrialKept)),
        "reverted": len(of(events, TrialReverted)),
        "mini-batches": batches_in(tmp_path).total(),
        "beside another": beside_in(tmp_path),
        "doubles": len(doubles) + len(shared),
    }
    print(kind, counts)
    assert (doubles, shared) == ([], [])
    assert len(of(events, JobFinished)) == JOBS
    assert anyio.run(verified, tmp_path).divergence is None
