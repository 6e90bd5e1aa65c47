"""Which nodes Slurm has out of service, and from when on it keeps nodes from this user.

    scontrol show node         ──▶ drained or down                ──▶ takes no new jobs
    scontrol show reservation  ──▶ kept from now on, or soon      ──▶ takes no new jobs
                               └─▶ kept later                     ──▶ what starts must end before

Slurm lets no job of ours onto a node that it has drained, and starts none that would not end before
a reservation begins. Whoever plans on such a node waits for it, beside others that are free.
What an answer does not tell stays as it was: a controller that is away takes nothing out of
service.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from shunter import clock
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.node_reservations import (
    NodeReservation,
    reservation_in,
    reservations_by_node,
)
from shunter.backends.slurm.records import SlurmNode
from shunter.errors import SlurmUnknownError
from shunter.events.values.ids import NodeName

__all__ = ["NodeListing", "NodeService"]

POLLS_BETWEEN: Final = 4
"""Polls of the queue for each question about nodes: an answer tells 0.5 kB of each of them."""

_OUT: Final = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL", "FUTURE"}
    | {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "UNKNOWN"}
)
"""A node that has not answered for a moment (NOT_RESPONDING) is not yet down."""


@dataclass(frozen=True, slots=True)
class NodeListing:
    """All nodes of a cluster, as of between two instants of the monotonic clock."""

    began_s: float
    ended_s: float
    nodes: Mapping[str, SlurmNode] = field(hash=False)


class NodeService:
    """What is known of the service of the configured nodes.

    Args:
        slurm: the commands of the cluster.
        nodes: the configured nodes.
        least_s: what would be kept from this user within so long takes no new jobs.
        options: of sbatch; the reservation that they name keeps nothing from this user.
    """

    def __init__(
        self,
        slurm: Slurm,
        nodes: Collection[NodeName],
        *,
        least_s: float,
        options: Sequence[str] = (),
    ) -> None:
        self._slurm = slurm
        self._nodes = tuple(nodes)
        self._least_s = least_s
        self._own = reservation_in(options)
        self._down: Mapping[NodeName, str] = {}
        self._reservations: Mapping[NodeName, NodeReservation] = {}
        self._is_known = False
        self.listing: NodeListing | None = None

    @property
    def reservations(self) -> Mapping[NodeName, NodeReservation]:
        """The next reservation of each node that has one, begun or not."""
        return self._reservations

    def reservations_of(self, nodes: Collection[str]) -> list[NodeReservation]:
        """Return the next reservations of some nodes."""
        return [kept for node, kept in self._reservations.items() if node in nodes]

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        if not self._is_known:
            return None
        found = {
            node: kept.in_words(node)
            for node, kept in self._reservations.items()
            if kept.start_s - now_s < self._least_s and now_s < kept.end_s
        }
        return {**found, **self._down}

    async def look(self) -> None:
        """Ask Slurm for its nodes and reservations.

        Raises:
            SlurmUnknownError: it does not answer; what was known stays.
        """
        began_s = clock.monotonic_s()
        nodes = {node.name: node for node in await self._slurm.nodes()}
        self.listing = NodeListing(began_s, clock.monotonic_s(), nodes)
        reservations = await self._slurm.reservations()
        self._down = {node: why for node in self._nodes if (why := _why_out(nodes.get(node), node))}
        self._reservations = reservations_by_node(
            [each for each in reservations if each.name != self._own], self._nodes, clock.wall_s()
        )
        self._is_known = True

    async def run(self, poll_s: float) -> None:
        """Look for ever, less often than at the queue; a failed look changes nothing."""
        while True:
            try:
                await self.look()
            except SlurmUnknownError:
                # The queue is asked more often, and tells people that Slurm does not answer.
                await anyio.sleep(poll_s)
            else:
                await anyio.sleep(poll_s * POLLS_BETWEEN)


def _why_out(node: SlurmNode | None, name: str) -> str:
    """Return why a node is out of service; nothing if it is in service."""
    if node is None:
        return f"Slurm has no node {name}"
    if node.state not in _OUT and not node.flags & _OUT:
        return ""
    words = {word.lower() for word in (node.state, *node.flags)}
    is_down = "down" in words or "powered_down" in words
    why = f": {node.reason}" if node.reason else ""
    return f"Slurm has node {name} {'down' if is_down else 'drained'}{why}"
