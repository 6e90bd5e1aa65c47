"""How many GPUs there are: those in service, and those that are in use though they are not.

Jobs run on where a server is drained, does not answer or has a GPU in quarantine. What they hold
there counts as long as they hold it, so that never more GPUs are in use than there are.
"""

from dataclasses import dataclass, field

from shunter.core.cluster.cluster import Cluster
from shunter.core.cluster.server import Server


@dataclass(slots=True)
class UsableGpus:
    """Counts the GPUs that are up or held: `count`, when told last.

    `_up` are the GPUs up, and `_partly` the servers that have others as well: looked at again with
    each change of who holds what, and mostly none. Then who holds what changes nothing.
    """

    count: int = 0
    _up: int = 0
    _partly: list[Server] = field(default_factory=list)

    @property
    def hangs_on_holders(self) -> bool:
        """Whether the count may be another one once others hold GPUs."""
        return bool(self._partly)

    def servers_changed(self, cluster: Cluster) -> None:
        """Count anew after other GPUs may be up than before."""
        self._up = sum(pool.gpus_up for pool in cluster.pools.values())
        self._partly = [
            server
            for server in cluster.servers.values()
            if server.gpus_up < server.all_gpus.bit_count()
        ]
        self.count = self._up
        self.holders_changed()

    def holders_changed(self) -> None:
        """Count anew after other GPUs may be held than before."""
        if self._partly:
            self.count = self._up + sum(map(_held_beside, self._partly))


def _held_beside(server: Server) -> int:
    """Return how many GPUs of a server are held that are not up."""
    up = server.all_gpus & ~server.unavailable if server.is_up else 0
    return (server.held & ~up).bit_count()
