"""What both modes share: agents with files on a shared folder, and what Slurm says of nodes."""

from collections.abc import Mapping, Sequence

from shunter.backends.live import AgentProcess, Server, SupervisedBackend, begin_here
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.node_service import NodeService, least_s
from shunter.backends.slurm.settings import SlurmServer, SlurmSettings
from shunter.events import NodeName


class SlurmTransport:
    """What is fixed of an agent: of that of a pilot's node, or of all nodes."""

    environment: Mapping[str, str] = {}
    cgroup: str | None = ""

    def __init__(
        self, name: NodeName, servers: Sequence[SlurmServer], folder: str, *, is_on_demand: bool
    ) -> None:
        self.name = name
        self.servers: Sequence[Server] = servers
        self.address = str(servers[0].name) if servers else ""
        self.folder = folder
        self.is_here, self.is_on_demand = not is_on_demand, is_on_demand
        self.reason = ""


class SlurmLink:
    """What can be begun without a session: verbs that are about files alone."""

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent on this machine, which has the same files."""
        return await begin_here(verb, *words)


def node_service(settings: SlurmSettings, slurm: Slurm, partition: str = "") -> NodeService:
    """Return what watches the nodes of a cluster, and the time limit of a partition."""
    return NodeService(
        slurm,
        settings.nodes,
        least_s=least_s(settings.time_limit_s),
        options=settings.options,
        partition=partition,
    )


class SlurmBackend(SupervisedBackend):
    """Runs attempts on nodes of which Slurm says whether they are in service."""

    _slurm: Slurm
    _service: NodeService

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        return self._service.out_of_service(now_s)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        return self._slurm.silence
