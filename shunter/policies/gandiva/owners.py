"""Who owns the GPUs of servers in a plan: what jobs asked for, and what they share in turns."""

from collections import Counter
from collections.abc import Mapping

from shunter.core.cluster import Server
from shunter.events.values.allocation import Allocation, Sharing, gpu_numbers
from shunter.events.values.ids import NodeName


class Owners:
    """The GPUs that jobs were given, by server.

    Args:
        servers: those that count.
    """

    def __init__(self, servers: Mapping[NodeName, Server]) -> None:
        self._asked = dict.fromkeys(servers, 0)
        self._homes: dict[NodeName, list[int]] = {}

    def count(self, allocation: Allocation, times: int = 1) -> None:
        """Count what a job was given, or, -1 times, what it gives up."""
        for share in allocation.shares:
            if share.node in self._asked and share.gpu_mask:
                self._asked[share.node] += share.gpus * times
                if allocation.sharing is Sharing.sliced:
                    homes = self._homes.setdefault(share.node, [])
                    (homes.append if times > 0 else homes.remove)(share.gpu_mask)

    def rehome(self, node: NodeName, before: int, mask: int) -> None:
        """Note that a job has other GPUs of a server, by mask."""
        self._homes[node].remove(before)
        self._homes[node].append(mask)

    def of(self, node: NodeName) -> Counter[int]:
        """Return how many jobs take turns on each GPU of a server."""
        return Counter(gpu for mask in self._homes.get(node, ()) for gpu in gpu_numbers(mask))

    def load(self, server: Server, more: int = 0) -> float:
        """Return the GPUs asked for of a server, and so many more, over its own."""
        return (self._asked[server.name] + more) / server.gpus_up

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""
        return sum(map(int.bit_count, self._homes.get(node, ()))) - len(self.of(node))

    @property
    def take_turns(self) -> bool:
        """Whether any GPU has several owners, who take turns on it."""
        return any(self.surplus_on(node) > 0 for node in self._homes)
