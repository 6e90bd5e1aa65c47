"""A partition of Slurm as a cluster, whose nodes are held by pilots as jobs need them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from shunter import clock
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
from shunter.events.values.ids import NodeName

__all__ = ["PilotBackend"]


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
        self._tasks.start_soon(self._service.run, settings.poll_s)
        self._tasks.start_soon(self._fleet.run)
        return self

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for."""
        self._fleet.want(waiting)

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        return self._service.out_of_service(now_s)

    def _jobs_on(self, node: NodeName) -> tuple[int, int]:
        """Return how many jobs run on a node, or are on their way, and their GPUs there."""
        gangs = [gang for gang in self._gangs.values() if node in gang.parts]
        gpus = 0
        for gang in gangs:
            started = gang.parts[node].started
            gpus += len(started.gpus) if started is not None else 1
        return len(gangs), gpus
