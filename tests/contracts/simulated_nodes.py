"""The supervised backend over simulated nodes for the contract suite: all in virtual time."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shunter.backends.live import Limits, Owner, SupervisedBackend, TurnSettings
from shunter.events import JobId, JobSpec, NodeName
from tests.contracts.backends import Program, Stage
from tests.doubles.simulated_nodes import (
    SimulatedNode,
    SimulatedProgram,
    SimulatedServer,
    SimulatedTransport,
)

TICK_US = 200_000
LIMITS = Limits(grace_s=0.3, is_limited=True, slicing=TurnSettings(quantum_us=2 * TICK_US))


@dataclass(frozen=True, slots=True)
class NodesStage:
    """A backend over nodes that were just booted."""

    backend: SupervisedBackend
    now_us: int
    kind: "NodesKind"
    programs: Mapping[str, Program]

    def spec(self, job: JobId) -> JobSpec:
        program = self.programs.get(job, Program())
        simulated = SimulatedProgram(
            work_us=program.work_ticks * TICK_US,
            exit_code=program.exit_code,
            start_us=self.kind.start_us,
            save_us=self.kind.save_us,
        )
        return JobSpec(1, command=simulated.command)


@dataclass(frozen=True, slots=True)
class NodesKind:
    """The supervised backend over an agent a server; costs and the way there are the nodes'."""

    name: str
    start_us: int = 0
    save_us: int = 0
    latency_us: int = 0
    tick_us: int = TICK_US

    @property
    def slack_us(self) -> int:
        """How much later an end may be seen than the start and the work say.

        The start of the program, what it saves when it leaves, and two messages for that.
        """
        return self.start_us + self.save_us + 2 * self.latency_us

    @asynccontextmanager
    async def staged(
        self, servers: Mapping[NodeName, int], programs: Sequence[Program]
    ) -> AsyncIterator[Stage]:
        """Boot the servers, each a machine; checkpoints are carried over."""
        nodes = [
            SimulatedNode(SimulatedServer(name, tuple(str(number) for number in range(gpus))))
            for name, gpus in servers.items()
        ]
        links = [SimulatedTransport(node, 1000 * self.latency_us) for node in nodes]
        owner = Owner("lab", 1, "contract", "/simulated")
        async with SupervisedBackend(LIMITS, owner, links) as backend:
            named = {program.name: program for program in programs}
            yield NodesStage(backend, backend.now_us(), self, named)


NODES_KINDS = (
    NodesKind("nodes-at-once"),
    NodesKind("nodes-far", start_us=50_000, save_us=30_000, latency_us=7_000),
)
