"""What of each node other people's jobs hold, by what Slurm says is in use: GPUs, CPUs, memory.

Slurm tells what of a node is in use, not by whom. What of it is ours is known by the starts of our
attempts, a while after Slurm has started them. So a listing of nodes is judged between two answers
of squeue: all of ours that one of them has on a node must have started by our records, or nothing
is said of that node yet. A short attempt may have come and gone between the two.

CPUs and memory have no numbers by which ours could be told from others', only amounts. What an
attempt of ours has beyond what was booked for it, such as the rest of a core, counts as others': so
what is free by the books is what Slurm has free. Where ours came or went between the two answers,
it is not known whether the listing counts them; then what was told is changed only as far as it
cannot be true either way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key
from shunter.backends.slurm.node_service import NodeListing
from shunter.backends.slurm.records import QueuedJob, SlurmNode
from shunter.backends.slurm.settings import SlurmServer
from shunter.events.values.allocation import Share
from shunter.events.values.ids import NodeName

Own = Mapping[Key, Share]
"""What our attempts have of one node, as it was booked."""


class TakenResources:
    """What was told of each node, and what is known of our own attempts."""

    def __init__(self, servers: Sequence[SlurmServer]) -> None:
        self._servers = servers
        self._own: dict[Key, Sequence[Share]] = {}
        self._told: dict[NodeName, Share] = {}
        self._before: QueueView | None = None
        self._judged: NodeListing | None = None
        self._unknown = {server.name for server in servers}

    @property
    def is_lacking(self) -> bool:
        """Whether it has never been known yet what others hold of some node."""
        return bool(self._unknown)

    def recall(self, told: Iterable[Share]) -> None:
        """Take in what was told in an earlier term, and of no other node."""
        self._told = {share.node: share for share in told}

    def is_known(self, key: Key) -> bool:
        """Say whether it is known what an attempt was given."""
        return key in self._own

    def note(self, key: Key, given: Sequence[Share]) -> None:
        """Note which GPUs an attempt was given, and what was booked beside them."""
        self._own[key] = given

    def take(self, queue: QueueView, listing: NodeListing | None) -> Iterator[Share]:
        """Take in an answer of squeue; return what has changed by the last listing.

        Args:
            queue: the answer.
            listing: the newest listing of nodes.

        Returns:
            of each node all that others hold.
        """
        before, self._before = self._before, queue
        if listing is None or listing is self._judged or queue.began_s < listing.ended_s:
            return
        self._judged = listing
        if before is None or before.began_s > listing.began_s:
            return  # it is not known what of ours there was just before
        for server in self._servers:
            node = listing.nodes.get(server.name)
            one, other = (self._own_on(server.name, each.alive, each) for each in (before, queue))
            passed = self._own_on(server.name, partial(_ended_since, before, queue), queue)
            is_clear = one is not None and other is not None and passed is not None
            if node is None or is_clear:
                self._unknown.discard(server.name)
            if node is None or one is None or other is None or passed is None:
                continue
            told = self._told.get(server.name, Share(server.name, 0))
            taken = _taken(server, node, told, one, other, passed)
            if told != taken:
                self._told[server.name] = taken
                yield taken
        for key in [key for key in self._own if key not in queue.jobs and key not in before.jobs]:
            del self._own[key]

    def _own_on(
        self, node: NodeName, chosen: Callable[[Key], Iterable[QueuedJob]], queue: QueueView
    ) -> Own | None:
        """Return what of a node chosen jobs of an answer have; None: not known."""
        found: dict[Key, Share] = {}
        for key in queue.jobs:
            if any(node in job.nodes for job in chosen(key)):
                given = self._own.get(key)
                if given is None:
                    return None
                found.update((key, share) for share in given if share.node == node)
        return found


def _ended_since(before: QueueView, after: QueueView, key: Key) -> tuple[QueuedJob, ...]:
    """Return the Slurm jobs of an attempt that ended between two answers."""
    over = {job.id for job in before.jobs.get(key, ()) if job.has_ended}
    return tuple(job for job in after.jobs[key] if job.has_ended and job.id not in over)


def _taken(
    server: SlurmServer, node: SlurmNode, told: Share, before: Own, after: Own, passed: Own
) -> Share:
    """Return what others hold of a node of what the config gives it, by a listing.

    Args:
        server: the node by the config.
        node: the same by Slurm.
        told: what was said before.
        before: what of it was ours just before the listing.
        after: the same just after it.
        passed: what was ours until some instant between.
    """
    either = {**before, **after, **passed}
    both = [share for key, share in before.items() if key in after]
    mask = (1 << len(server.gpus)) - 1 & _used(node)
    for share in either.values():
        mask &= ~share.gpu_mask
    cpus_milli = _within(
        told.cpus_milli,
        len(server.cpus) * 1000,
        (node.cpus - node.cpus_used) * 1000,
        sum(share.cpus_milli for share in either.values()),
        sum(share.cpus_milli for share in both),
    )
    memory_mb = _within(
        told.memory_mb,
        server.memory_mb,
        node.memory_mb - node.memory_used_mb,
        sum(share.memory_mb for share in either.values()),
        sum(share.memory_mb for share in both),
    )
    return Share(server.name, mask, cpus_milli, memory_mb)


def _within(told: int, all_: int, free: int, most_ours: int, least_ours: int) -> int:
    """Return what is neither free nor ours, or what was told if it may be true."""
    least, most = all_ - free - most_ours, all_ - free - least_ours
    return max(0, min(all_, max(least, min(most, told))))


def _used(node: SlurmNode) -> int:
    """Return the GPUs of a node that are in use, as a mask."""
    found = 0
    for gpus in node.gpus_used_indices.values():
        for gpu in gpus:
            found |= 1 << gpu
    return found
