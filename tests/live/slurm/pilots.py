"""The pilot backend on a bench: settings under which everything happens within seconds."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from shunter.backends.live import SupervisedBackend
from shunter.backends.slurm import GpuRequest, PilotBackend, SlurmServer, SlurmSettings
from shunter.core import AttemptExited, Input
from shunter.events import AttemptLost, JobSuspended, NodeName
from tests.contracts.local_backends import empty
from tests.factories import job_id
from tests.live.slurm.bench import BenchNode, SlurmBench
from tests.live.ssh.bench import Ledger, rest

PATIENCE_S = 60.0
NAME = "shunter:"
LIVING = ("PENDING", "RUNNING", "COMPLETING")


@dataclass(frozen=True, slots=True)
class PilotBench(Ledger):
    """A Slurm cluster, and a folder that it shares with us."""

    slurm: SlurmBench
    folder: Path

    @property
    def root(self) -> Path:
        """The root of the backend."""
        return self.folder / "root"

    def settings(self, term: int = 1, **fields: object) -> SlurmSettings:
        """Return settings under which everything happens within seconds."""
        settings = SlurmSettings(
            root=str(self.root),
            nodes=tuple(server_of(node) for node in self.slurm.nodes),
            cluster_id="lab",
            term=term,
            holder=f"daemon-{term}",
            partition="main",
            addresses=("127.0.0.1",),
            listen="127.0.0.1",
            time_limit_s=3600.0,
            idle_s=3600.0,
            poll_s=0.5,
            command_s=5.0,
            python=sys.executable,
            conf=str(self.slurm.conf),
            checkpoints=str(self.root / "checkpoints"),
            keepalive_s=0.5,
            call_s=30.0,
            launch_s=30.0,
            patrol_s=0.5,
            heartbeat_deadline_s=60.0,
            margin_s=2.5,
            grace_s=0.5,
            cooperative_s=5.0,
        )
        changes: Mapping[str, object] = fields
        return replace(settings, **changes)  # type: ignore[arg-type]  # any field may be given

    @asynccontextmanager
    async def opened(self, term: int = 1, **fields: object) -> AsyncIterator[PilotBackend]:
        """Open the backend for a term."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        async with PilotBackend(self.settings(term, **fields), term * 10**9) as backend:
            yield backend

    def pilots(self, *states: str) -> dict[str, list[int]]:
        """Return the Slurm jobs of our pilots in some states, by the node that they ask for."""
        chosen = ",".join(states or ("PENDING", "RUNNING"))
        words = ("squeue", "-h", "-a", "-t", chosen, "-o", "%i %j")
        found: dict[str, list[int]] = {}
        for line in self.slurm.command(*words).splitlines():
            number, name = line.split()
            if name.startswith(NAME):
                node = name.split(":")[2].partition(".")[0]  # after the id of the cluster
                found.setdefault(node, []).append(int(number))
        return found

    def remembers(self) -> Callable[[], None]:
        """Return how to have the controller crash, and forget what it was asked for since now.

        Ids included, as it does of the seconds before a crash.
        """
        kept, state = self.folder / "state", self.slurm.folder / "state"
        self.slurm.stop_slurmctld()  # it saves that what ran in tests before has ended
        shutil.copytree(state, kept)
        self._start_again()

        def forget() -> None:
            self.slurm.kill_slurmctld()
            shutil.rmtree(state)
            shutil.copytree(kept, state)
            self._start_again()

        return forget

    def _start_again(self) -> None:
        self.slurm.start_slurmctld()
        self.slurm.command("scontrol", "reconfigure")  # else nodes may register minutes later
        self.slurm.wait_for(
            lambda: not {"unknown", "unknown*"} & set(self.slurm.states().values()), "the nodes"
        )

    def clean(self) -> None:
        """End all pilots, and all that is left of jobs."""
        self.slurm.revive()
        self.slurm.command("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        for place in sorted(self.root.glob("nodes/*/clusters/*")):
            empty(str(place))
        self.slurm.wait_for(lambda: not self.pilots(*LIVING), "the end of all pilots")
        self.slurm.wait_for(lambda: not self._processes(), "the end of all processes")

    def _processes(self) -> list[int]:
        """Return the processes that have our root in their command lines."""
        mark, found = os.fsencode(self.root), []
        for path in sorted(Path("/proc").iterdir()):
            if path.name.isdigit():
                with suppress(OSError):
                    if mark in (path / "cmdline").read_bytes():
                        found.append(int(path.name))
        return found


def server_of(node: BenchNode) -> SlurmServer:
    """Return a node of a bench as the backend is told of it."""
    return SlurmServer(
        name=NodeName(node.name),
        gpus=tuple(str(number) for number in range(node.gpus)),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        gpu_type=node.gpu_type,
        gres=f"gpu:{node.gpu_type}:{node.gpus}",
        memory_mb=0,
    )


def wanting(*nodes: str, gpus: int = 4) -> list[GpuRequest]:
    """Return a demand for whole nodes."""
    return [GpuRequest(gpus, nodes=frozenset({node})) for node in nodes]


async def holds(backend: PilotBackend, *nodes: str) -> list[Input]:
    """Have nodes held by pilots, and return what was told meanwhile."""
    backend.want(wanting(*nodes))
    told: list[Input] = []
    await comes(
        lambda: not backend.unreachable & set(nodes), lambda: f"{nodes}, but {backend.causes}"
    )
    told += await rest(backend, 0.05)
    backend.want([])
    return told


async def leaves(backend: SupervisedBackend, patience_s: int = 90) -> list[Input]:
    """Observe until the first job was told suspended or lost, and a while longer."""
    told: list[Input] = []
    until_us = backend.now_us() + patience_s * 1_000_000
    while not ends_in(told):
        _, inputs = await backend.observe(until_us)
        assert inputs, f"neither suspended nor lost, but {told}"
        told += inputs
    return told + await rest(backend)


def ends_in(told: Sequence[Input]) -> list[Input]:
    """Return what was told of the end of attempts of the first job."""
    kinds = (AttemptExited, AttemptLost, JobSuspended)
    return [seen for seen in told if isinstance(seen, kinds) and seen.job_id == job_id(0)]


def why(backend: PilotBackend, node: str) -> str:
    """Return why a node cannot be used; nothing if it can."""
    return backend.causes.get(NodeName(node), "")


async def comes(condition: Callable[[], bool], what: Callable[[], str] | str) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: it does not within a minute.
    """
    until_s = anyio.current_time() + PATIENCE_S
    while not condition():
        if anyio.current_time() > until_s:
            raise AssertionError(f"waited for {what if isinstance(what, str) else what()}")
        await anyio.sleep(0.02)


def most_at_once(found: Iterable[list[int]]) -> int:
    """Return how many pilots a node has, of that which has most."""
    return max((len(jobs) for jobs in found), default=0)
