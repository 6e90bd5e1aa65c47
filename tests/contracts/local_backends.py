"""The local backend for the contract suite: real processes that work, save and leave."""

import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shunter.backends.live import LocalBackend, LocalNode, LocalSettings, TurnSettings
from shunter.backends.node import attempts
from shunter.events import JobId, JobSpec, NodeName
from tests.contracts.backends import Program, Stage

TICK_US = 200_000
# Works for so many seconds in all; a checkpoint says how many of them are done.
PROGRAM = """
import os, sys, time
begun, work_s, code = time.monotonic(), float(sys.argv[1]), int(sys.argv[2])
os.makedirs(os.environ["SHUNTER_CHECKPOINT_DIR"], exist_ok=True)
path = os.environ["SHUNTER_CHECKPOINT_DIR"] + "/done." + os.environ["RANK"]
done_s = float(open(path).read()) if os.path.exists(path) else 0.0
while done_s + time.monotonic() - begun < work_s:
    if os.path.exists(os.environ["SHUNTER_SUSPEND"]):
        open(path, "w").write(str(done_s + time.monotonic() - begun))
        sys.exit(75)
    time.sleep(0.005)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class LocalStage:
    """A local backend in a folder of its own."""

    backend: LocalBackend
    now_us: int
    programs: Mapping[str, Program]

    def spec(self, job: JobId) -> JobSpec:
        return spec_of(self.programs.get(job, Program()))


@dataclass(frozen=True, slots=True)
class LocalKind:
    """The local backend; two ticks are what starting and seeing an end may take."""

    name: str = "local"
    tick_us: int = TICK_US
    slack_us: int = 2 * TICK_US

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Open a machine whose nodes share its CPUs, and leave nothing running on it."""
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        nodes = tuple(
            LocalNode(name, tuple(str(number) for number in range(gpus)), cpus)
            for name, gpus in servers.items()
        )
        with tempfile.TemporaryDirectory() as root:
            settings = LocalSettings(
                root,
                nodes,
                1,
                grace_s=0.3,
                is_limited=True,
                slicing=TurnSettings(quantum_us=2 * TICK_US),
            )
            async with LocalBackend(settings) as backend:
                named = {program.name: program for program in programs}
                yield LocalStage(backend, backend.now_us(), named)
            empty(root)


def spec_of(program: Program) -> JobSpec:
    """Return a program as real processes."""
    work_s = program.work_ticks * TICK_US / 1e6
    argv = ("-I", "-S", "-c", PROGRAM, str(work_s), str(program.exit_code))
    return JobSpec(1, command=(sys.executable, *argv))


def empty(root: str) -> None:
    """End all that runs below a folder."""
    for known in attempts.inventory(root):
        folder = known["folder"]
        while attempts.is_held(f"{folder}/lock") or attempts.sweep(folder):
            # Again and again: a supervisor that has just taken its lock takes no orders yet.
            attempts.send(folder, {"do": "fence", "term": 1 << 40})
            time.sleep(0.005)


LOCAL_KINDS = (LocalKind(),)
