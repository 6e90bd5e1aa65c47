"""The Slurm backends for the contract suite, on nodes of a real cluster."""

import atexit
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from shunter.backends.live import SupervisedBackend, TurnSettings
from shunter.events import JobId, JobSpec, NodeName
from tests.contracts.backends import Program, Stage
from tests.contracts.local_backends import TICK_US, spec_of
from tests.live.slurm.bench import BenchNode, SlurmBench, bench_at, lacking
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import PilotBench, holds

NODES = tuple(BenchNode(name, "v100", 4, "v100") for name in ("n0", "n1", "n2"))


@dataclass(frozen=True, slots=True)
class SlurmStage:
    """A backend that has its nodes."""

    backend: SupervisedBackend
    now_us: int
    programs: Mapping[str, Program]

    def spec(self, job: JobId) -> JobSpec:
        return spec_of(self.programs.get(job, Program()))


@dataclass(frozen=True, slots=True)
class PilotKind:
    """The Slurm backend that runs jobs inside pilots; the folder is shared."""

    name: str = "slurm-pilot"
    tick_us: int = TICK_US
    slack_us: int = 2 * TICK_US

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Have the nodes held by pilots, and give them back."""
        named = {program.name: program for program in programs}
        with tempfile.TemporaryDirectory() as folder:
            bench = PilotBench(cluster(), Path(folder))
            used = tuple(node for node in bench.settings().nodes if node.name in servers)
            try:
                # As the local backend, so that the same ticks do.
                slicing = TurnSettings(quantum_us=2 * TICK_US)
                async with bench.opened(
                    nodes=used, grace_s=0.3, patrol_s=1.0, is_limited=True, slicing=slicing
                ) as backend:
                    await holds(backend, *servers)
                    yield SlurmStage(backend, backend.now_us(), named)
            finally:
                bench.clean()


@dataclass(frozen=True, slots=True)
class JobKind:
    """The Slurm backend that runs each attempt as a batch job; the folder is shared."""

    name: str = "slurm-per-job"
    tick_us: int = 3 * TICK_US  # Slurm looks at its queue once a second
    slack_us: int = 4 * TICK_US

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Open the backend on some nodes, and leave nothing of it."""
        named = {
            program.name: replace(program, work_ticks=3 * program.work_ticks)
            for program in programs
        }
        with tempfile.TemporaryDirectory() as folder:
            bench = JobBench(cluster(), Path(folder))
            used = tuple(node for node in bench.settings().nodes if node.name in servers)
            try:
                async with bench.jobs_opened(nodes=used, grace_s=0.3, patrol_s=1.0) as backend:
                    yield SlurmStage(backend, backend.now_us(), named)
            finally:
                bench.clean()


@cache
def cluster() -> SlurmBench:
    """Return the cluster of this process, which lives as long as it does."""
    stack = ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm")))
    atexit.register(stack.close)  # by now: what is registered later is called earlier
    if lack := lacking(folder / "look"):
        pytest.skip(lack)
    return stack.enter_context(bench_at(folder / "bench", NODES))


SLURM_KINDS = (PilotKind(), JobKind())
