"""A partition of Slurm as a cluster, whose nodes are held by pilots as jobs need them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio

from shunter import clock
from shunter.backends.agents.node_agent import NodeAgent
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.node_reservations import least_s
from shunter.backends.slurm.node_service import NodeService
from shunter.backends.slurm.pilots.allocation_view import GpuRequest
from shunter.backends.slurm.pilots.certificates import ClusterAuthority
from shunter.backends.slurm.pilots.channel import ListenerSettings, PilotListener
from shunter.backends.slurm.pilots.fleet import PilotFleet
from shunter.backends.slurm.pilots.transport import PilotTransport
from shunter.backends.slurm.settings import SlurmSettings
from shunter.backends.supervised.backend import SupervisedBackend
from shunter.errors import SlurmUnknownError
from shunter.events.values.ids import NodeName

FIRST_LOOK_S = 3.0  # what a start waits for Slurm at most


class PilotBackend(SupervisedBackend):
    """Runs attempts inside allocations of Slurm; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        self._slurm_settings = settings
        transports = {
            server.name: PilotTransport(server, settings.root) for server in settings.nodes
        }
        super().__init__(settings, settings.owner, list(transports.values()), start_us)
        slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._service = NodeService(
            slurm, transports, least_s=least_s(settings.time_limit_s), options=settings.options
        )
        self._fleet = PilotFleet(settings, slurm, transports, self._service, self._jobs_on)

    async def __aenter__(self) -> Self:
        """Await pilots; those of earlier terms dial in again.

        Raises:
            ConfigError: the key pair of pilots is not one that only we can read.
            OSError: the port cannot be had, or the shared folder not be used.
        """
        settings = self._slurm_settings
        authority = ClusterAuthority.load(Path(settings.root), clock.wall_s())
        await super().__aenter__()
        listener = PilotListener(
            authority, self._fleet, ListenerSettings(host=settings.listen or None)
        )
        self._fleet.recall(authority, listener)  # first: who dials and is unwanted ends
        self._fleet.open(await self._tasks.start(listener.serve))
        await self._look_first()
        self._tasks.start_soon(self._service.run, settings.poll_s)
        self._tasks.start_soon(self._fleet.run)
        return self

    async def _look_first(self) -> None:
        """Ask, before anything is started, what Slurm has ended meanwhile.

        That is of pilots and of nodes. A controller that does not answer is waited for later: what
        runs is to go on.
        """
        with anyio.move_on_after(FIRST_LOOK_S):
            async with anyio.create_task_group() as looks:
                looks.start_soon(self._fleet.look)
                looks.start_soon(self._look_at_nodes)

    async def _look_at_nodes(self) -> None:
        with suppress(SlurmUnknownError):
            await self._service.look()

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for."""
        self._fleet.want(waiting)

    @property
    def unheld(self) -> frozenset[NodeName]:
        """The nodes of which nothing is expected, as Slurm has not given them."""
        return self._fleet.unheld

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet.

        Those of pilots that are about to end are among them, until they have ended.
        """
        out = self._service.out_of_service(now_s)
        return None if out is None else {**self._fleet.drains.reasons, **out}

    @property
    def renewed(self) -> frozenset[NodeName]:
        """The nodes that take no new jobs only until another pilot holds them."""
        out = self._service.out_of_service(clock.wall_s()) or {}
        return frozenset(node for node in self._fleet.drains.reasons if node not in out)

    @property
    def drains_changed(self) -> anyio.Event:
        """What is set when a pilot begins to drain, or one that did is silent."""
        return self._fleet.drains.changed

    def drain_of(self, node: NodeName) -> str:
        """Return why nothing is started in the pilot on a node; nothing if it may be."""
        return self._fleet.drains.reasons.get(node, "")

    async def came_up(self, agent: NodeAgent) -> None:
        """Handle a pilot that is connected."""
        self._fleet.note_up(agent.name)
        await super().came_up(agent)

    def became_unreachable(self, agent: NodeAgent) -> None:
        """Handle a node without a pilot: its being silent says all there is to say of it."""
        super().became_unreachable(agent)
        self._fleet.drains.end(agent.name)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        return self._service.silence

    def _jobs_on(self, node: NodeName) -> tuple[int, int]:
        """Return how many jobs run on a node, or are on their way, and their GPUs there."""
        gangs = [gang for gang in self._gangs.values() if node in gang.parts]
        gpus = 0
        for gang in gangs:
            started = gang.parts[node].started
            gpus += len(started.gpus) if started is not None else 1
        return len(gangs), gpus
