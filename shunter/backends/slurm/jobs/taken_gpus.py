"""The GPUs of each node that other people's jobs hold, by what Slurm says is in use.

Slurm tells which GPUs of a node are in use, not by whom. What of it is ours is known by the starts
of our attempts, a while after Slurm has started them. So a listing of nodes is judged between two
answers of squeue: all of ours that one of them has on a node must have started by our records, or
nothing is said of that node yet.
"""

from collections.abc import Iterator, Mapping, Sequence

from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key
from shunter.backends.slurm.node_service import NodeListing
from shunter.backends.slurm.records import SlurmNode
from shunter.backends.slurm.settings import SlurmServer
from shunter.events.values.ids import NodeName

__all__ = ["TakenGpus"]


class TakenGpus:
    """What was told of each node, and what is known of our own attempts."""

    def __init__(self, servers: Sequence[SlurmServer]) -> None:
        self._servers = servers
        self._own: dict[Key, Mapping[str, int]] = {}
        self._told: dict[NodeName, int] = {}
        self._before: QueueView | None = None
        self._judged: NodeListing | None = None

    def recall(self, masks: Mapping[NodeName, int]) -> None:
        """Take in what was told in an earlier term, and of no other node."""
        self._told = dict(masks)

    def is_known(self, key: Key) -> bool:
        """Say whether it is known what an attempt was given."""
        return key in self._own

    def note(self, key: Key, placement: Mapping[str, int]) -> None:
        """Note which GPUs an attempt was given, as masks by node."""
        self._own[key] = placement

    def take(self, queue: QueueView, listing: NodeListing | None) -> Iterator[tuple[NodeName, int]]:
        """Take in an answer of squeue; return what has changed by the last listing.

        Args:
            queue: the answer.
            listing: the newest listing of nodes.

        Returns:
            nodes, each with a mask of the GPUs that others hold.
        """
        before, self._before = self._before, queue
        if listing is None or listing is self._judged or queue.began_s < listing.ended_s:
            return
        self._judged = listing
        if before is None or before.began_s > listing.began_s:
            return  # it is not known what of ours there was just before
        for server in self._servers:
            node = listing.nodes.get(server.name)
            own = self._own_on(server.name, before, queue)
            if node is None or own is None:
                continue
            taken = _used(node) & ~own & ((1 << len(server.gpus)) - 1)
            if self._told.get(server.name, 0) != taken:
                self._told[server.name] = taken
                yield server.name, taken
        for key in [key for key in self._own if key not in queue.jobs and key not in before.jobs]:
            del self._own[key]

    def _own_on(self, node: NodeName, *queues: QueueView) -> int | None:
        """Return which GPUs of a node are ours by either answer; None: not known."""
        found = 0
        for queue in queues:
            for key in queue.jobs:
                if any(node in job.nodes for job in queue.alive(key)):
                    placement = self._own.get(key)
                    if placement is None:
                        return None
                    found |= placement.get(node, 0)
        return found


def _used(node: SlurmNode) -> int:
    """Return the GPUs of a node that are in use, as a mask."""
    found = 0
    for gpus in node.gpus_used_indices.values():
        for gpu in gpus:
            found |= 1 << gpu
    return found
