"""What jobs wait for, told to a backend that holds servers only as long as they are needed."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

import anyio

from shunter.backends.slurm.pilot_allocations import GpuRequest
from shunter.core.state import State
from shunter.daemon.feed import Feed
from shunter.daemon.slurm.nodes import SeesDrains, is_by_slurm
from shunter.events.values import NodeName

EVERY_S = 0.5
JOBS_MOST = 2000
"""Beyond so many that wait, more of them ask for no more servers than there are."""


@runtime_checkable
class HoldsOnDemand(Protocol):
    """A backend whose servers come and go with the demand."""

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for."""

    @property
    def unheld(self) -> Collection[NodeName]:
        """The servers that are not held now, and on which nothing of ours runs."""


async def tell_demand(
    feed: Feed, state: State, backend: HoldsOnDemand, by: Mapping[NodeName, str]
) -> None:
    """Tell what jobs wait for, soon after it has changed, for ever.

    Args:
        feed: of the log.
        state: of the cluster.
        backend: who is told.
        by: who drained each node that is drained.
    """
    seq = -1
    while True:
        if feed.committed != seq:
            seq = feed.committed
            renewed = backend.renewed if isinstance(backend, SeesDrains) else ()
            found = [node for node in renewed if is_by_slurm(by.get(node, ""))]
            backend.want(waiting_requests(state, found))
        await anyio.sleep(EVERY_S)


def waiting_requests(state: State, renewed: Collection[NodeName] = ()) -> list[GpuRequest]:
    """Return what each job that waits needs; a job without GPUs needs a server too.

    Of servers that are drained nobody needs anything, but for those that are `renewed`.
    """
    found: list[GpuRequest] = []
    servers = state.cluster.servers
    nodes = frozenset(
        str(name) for name, server in servers.items() if not server.drained or name in renewed
    )
    if not nodes:
        return found
    choice = nodes if len(nodes) < len(servers) else frozenset[str]()
    for job in state.jobs.values():
        if job.is_eligible:
            spec = job.spec
            types = frozenset(str(each) for each in spec.gpu_types)
            found.append(GpuRequest(max(1, spec.gpus), types, choice))
            if len(found) == JOBS_MOST:
                break
    return found
