"""A configured node, and what Slurm says of its use: out of service, or kept from this user.

    scontrol show node         ──▶ drained or down                ──▶ takes no new jobs
    scontrol show reservation  ──▶ kept from now on, or soon      ──▶ takes no new jobs
                               └─▶ kept later                     ──▶ what starts must end before

Slurm lets no job of ours onto a drained node, and starts none that would not end before a
reservation begins, unless the job names it: so users of a reservation are kept from its nodes too
while their jobs do not. What an answer does not say stays as it was: a controller that is away
takes nothing out of service.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from shunter import clock
from shunter.backends.slurm.answers import Reservation, SlurmNode
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.settings import SlurmServer
from shunter.errors import SlurmUnknownError
from shunter.events import NodeName

LEAST_S: Final = 600.0
"""What has less time than this spends a good part of it on starts and saves of its jobs."""
POLLS_BETWEEN: Final = 4
"""Polls of the queue for each question about nodes: an answer has 0.5 kB of each of them."""


@dataclass(frozen=True, slots=True)
class SubmitRefusals:
    """How often in a row Slurm has refused a pilot for a node, when last, and why."""

    count: int
    last_at_s: float
    cause: str


@dataclass(slots=True)
class Node:
    """A configured node: all that is known of it.

    Args:
        server: what the config gives it.
        out: why Slurm has it drained or down; "" if it has not.
        reservation: the first that keeps it from this user and is not over.
        refusals: of pilots for it; one that Slurm takes clears them.
    """

    server: SlurmServer
    out: str = ""
    reservation: Reservation | None = None
    refusals: SubmitRefusals | None = None

    @property
    def name(self) -> NodeName:
        """The name that Slurm knows it by."""
        return self.server.name

    def out_of_service(self, now_s: float, lead_s: float) -> str:
        """Return why it takes no new jobs; nothing if it does.

        Nor does it for `lead_s` before a reservation begins.
        """
        kept = self.reservation
        if self.out or kept is None or not kept.start_s - lead_s < now_s < kept.end_s:
            return self.out
        return kept.in_words(self.name)


def least_s(limit_s: float) -> float:
    """Return the shortest time limit that is worth asking for."""
    return min(LEAST_S, limit_s / 4)


def reservations_by_node(
    reservations: Sequence[Reservation], nodes: Collection[NodeName], now_s: float
) -> dict[NodeName, Reservation]:
    """Return the reservation of each node that begins first and is not over."""
    found: dict[NodeName, Reservation] = {}
    for each in sorted(reservations, key=lambda each: (each.start_s, each.name)):
        if each.end_s > now_s:
            for node in nodes:
                if node in each.nodes:
                    found.setdefault(node, each)
    return found


def reservation_in(options: Sequence[str]) -> str:
    """Return the reservation that options of sbatch name; nothing if they name none."""
    named = [option for option in options if option.startswith("--reservation=")]
    return named[-1].partition("=")[2] if named else ""


@dataclass(frozen=True, slots=True)
class NodeListing:
    """All nodes of a cluster, as of between two instants of the monotonic clock."""

    began_s: float
    ended_s: float
    nodes: Mapping[str, SlurmNode] = field(hash=False)


class NodeService:
    """Watches the service of the configured nodes.

    Args:
        slurm: the commands of the cluster.
        servers: the nodes by the config.
        least_s: what would be kept from this user within so long takes no new jobs.
        options: of sbatch; the reservation that they name keeps nothing from this user.
        partition: whose time limit is asked for too; "": none.
    """

    def __init__(
        self,
        slurm: Slurm,
        servers: Sequence[SlurmServer],
        *,
        least_s: float,
        options: Sequence[str] = (),
        partition: str = "",
    ) -> None:
        self._slurm = slurm
        self.nodes = {server.name: Node(server) for server in servers}
        self._least_s = least_s
        self._own = reservation_in(options)
        self._partition = partition
        self._partition_limit_s: float | None = None
        self.known = anyio.Event()
        """Set once Slurm has answered for the first time."""
        self._soon = anyio.Event()
        self.listing: NodeListing | None = None

    def longest_s(self, nodes: Collection[NodeName]) -> float | None:
        """Return how long a job on some nodes may be asked for; None: no limit.

        One that is asked for longer than the partition allows waits in Slurm for ever, and one
        that would not end before a reservation of its nodes waits until that is over.
        """
        now_s = clock.wall_s()
        kept = [self.nodes[name].reservation for name in nodes if name in self.nodes]
        limits = [min((each.limit_s(now_s) for each in kept if each), default=None)]
        limits.append(self._partition_limit_s)
        return min((limit_s for limit_s in limits if limit_s), default=None)

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        if not self.known.is_set():
            return None
        found = {
            name: node.out_of_service(now_s, self._least_s) for name, node in self.nodes.items()
        }
        return {name: why for name, why in found.items() if why}

    async def look(self) -> None:
        """Ask Slurm for its nodes and reservations, and for how long jobs may run.

        Raises:
            SlurmUnknownError: it does not answer; what was known stays.
        """
        began_s = clock.monotonic_s()
        listed = {node.name: node for node in await self._slurm.nodes()}
        self.listing = NodeListing(began_s, clock.monotonic_s(), listed)
        reservations = await self._slurm.reservations()
        if self._partition:
            partitions = await self._slurm.partitions()
            found = [each.time_limit_s for each in partitions if each.name == self._partition]
            self._partition_limit_s = next(iter(found), None)
        others = [each for each in reservations if each.name != self._own]
        kept = reservations_by_node(others, self.nodes, clock.wall_s())
        for name, node in self.nodes.items():
            known = listed.get(name)
            node.out = f"Slurm has no node {name}" if known is None else known.out_of_service
            node.reservation = kept.get(name)
        self.known.set()

    def soon(self) -> None:
        """Look again with the next poll: the last look did not tell what is needed."""
        self._soon.set()

    async def run(self, poll_s: float) -> None:
        """Look for ever, less often than at the queue; a failed look changes nothing."""
        while True:
            try:
                await self.look()
            except SlurmUnknownError:
                # The queue is asked more often, and its silence is what people read of.
                await anyio.sleep(poll_s)
            else:
                self._soon = anyio.Event()
                await anyio.sleep(poll_s * min(1, POLLS_BETWEEN))
                with anyio.move_on_after(poll_s * (POLLS_BETWEEN - 1)):
                    await self._soon.wait()
