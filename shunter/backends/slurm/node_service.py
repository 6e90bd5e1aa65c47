"""Which nodes Slurm has out of service, and from when on it keeps nodes from this user.

    scontrol show node         ──▶ drained or down                ──▶ takes no new jobs
    scontrol show reservation  ──▶ kept from now on, or soon      ──▶ takes no new jobs
                               └─▶ kept later                     ──▶ what starts must end before

Slurm lets no job of ours onto a drained node, and starts none that would not end before a
reservation begins. What an answer does not say stays as it was: a controller that is away takes
nothing out of service.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from shunter import clock
from shunter.backends.slurm.answers import Reservation, SlurmNode
from shunter.backends.slurm.commands import Slurm
from shunter.errors import SlurmUnknownError
from shunter.events import NodeName

# Slurm starts no job that would not end before a reservation of its node, unless the job names it.
# So users of a reservation are kept from its nodes too while their jobs do not name it.

LEAST_S: Final = 600.0
"""What has less time than this spends a good part of it on starts and saves of its jobs."""
SLACK_LEAST_S: Final = 60.0
"""Slurm counts limits in minutes, and a job that waits starts a little later than it was asked."""


@dataclass(frozen=True, slots=True)
class NodeReservation:
    """That a node is kept from this user, between instants in seconds since 1970."""

    start_s: float
    end_s: float
    is_maintenance: bool
    name: str

    def in_words(self, node: str) -> str:
        """Return a sentence for people, in the local time of this machine."""
        what = "for maintenance" if self.is_maintenance else f"for reservation {self.name}"
        until = "" if self.end_s == float("inf") else f" to {_time_of_day(self.end_s)}"
        return f"Slurm keeps node {node} {what} from {_time_of_day(self.start_s)}{until}"

    def limit_s(self, now_s: float) -> float:
        """Return the longest time limit with which a job ends before, in whole minutes.

        A tenth of the time is left for the wait in Slurm's queue.
        """
        left_s = self.start_s - now_s
        return max(0.0, (left_s - max(SLACK_LEAST_S, left_s / 10)) // 60 * 60)


def least_s(limit_s: float) -> float:
    """Return the shortest time limit that is worth asking for."""
    return min(LEAST_S, limit_s / 4)


def reservations_by_node(
    reservations: Sequence[Reservation], nodes: Collection[NodeName], now_s: float
) -> dict[NodeName, NodeReservation]:
    """Return the reservation of each node that begins first and is not over."""
    found: dict[NodeName, NodeReservation] = {}
    for each in sorted(reservations, key=lambda each: (each.start_s or 0, each.name)):
        if each.end_s is not None and each.end_s <= now_s:
            continue
        kept = node_reservation(each)
        for node in nodes:
            if node in each.nodes:
                found.setdefault(node, kept)
    return found


def node_reservation(found: Reservation) -> NodeReservation:
    """Return what a reservation means for each of its nodes."""
    end_s = float("inf") if found.end_s is None else float(found.end_s)
    return NodeReservation(float(found.start_s or 0), end_s, found.is_maintenance, found.name)


def reservation_in(options: Sequence[str]) -> str:
    """Return the reservation that options of sbatch name; nothing if they name none."""
    named = [option for option in options if option.startswith("--reservation=")]
    return named[-1].partition("=")[2] if named else ""


def _time_of_day(at_s: float) -> str:
    """Return an instant in local time, with the day if it is not today."""
    at, today = time.localtime(at_s), time.localtime(clock.wall_s())
    is_today = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", at)


POLLS_BETWEEN: Final = 4
"""Polls of the queue for each question about nodes: an answer tells 0.5 kB of each of them."""

_OUT: Final = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL", "FUTURE"}
    | {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED"}
)
"""A node that has not answered for a moment (NOT_RESPONDING) is not yet down.

Nor is one that has yet to answer a controller that has just started (UNKNOWN): it will, or be down.
"""


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
        partition: str = "",
    ) -> None:
        """Take what to watch.

        Args:
            slurm: its commands.
            nodes: their names.
            least_s: nodes are out of service for so long before a reservation.
            options: of sbatch; a reservation that they name is ours.
            partition: whose time limit is asked for too.
        """
        self._slurm = slurm
        self._nodes = tuple(nodes)
        self._least_s = least_s
        self._own = reservation_in(options)
        self._down: Mapping[NodeName, str] = {}
        self._reservations: Mapping[NodeName, NodeReservation] = {}
        self._partition = partition
        self._partition_limit_s: float | None = None
        self.known = anyio.Event()
        """Set once Slurm has told of the nodes for the first time."""
        self._soon = anyio.Event()
        self.listing: NodeListing | None = None

    @property
    def reservations(self) -> Mapping[NodeName, NodeReservation]:
        """The next reservation of each node that has one, begun or not."""
        return self._reservations

    def longest_s(self, nodes: Collection[str]) -> float | None:
        """Return how long a job on some nodes may be asked for; None: no limit.

        One that is asked for longer than the partition allows waits in Slurm for ever, and one
        that would not end before a reservation of its nodes waits until that is over.
        """
        now_s = clock.wall_s()
        kept = [kept.limit_s(now_s) for node, kept in self._reservations.items() if node in nodes]
        limits = [min(kept, default=None), self._partition_limit_s]
        return min((limit_s for limit_s in limits if limit_s), default=None)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        return self._slurm.silence

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet."""
        if not self.known.is_set():
            return None
        found = {
            node: kept.in_words(node)
            for node, kept in self._reservations.items()
            if kept.start_s - now_s < self._least_s and now_s < kept.end_s
        }
        return {**found, **self._down}

    async def look(self) -> None:
        """Ask Slurm for its nodes and reservations, and for how long jobs may run.

        Raises:
            SlurmUnknownError: it does not answer; what was known stays.
        """
        began_s = clock.monotonic_s()
        nodes = {node.name: node for node in await self._slurm.nodes()}
        self.listing = NodeListing(began_s, clock.monotonic_s(), nodes)
        reservations = await self._slurm.reservations()
        if self._partition:
            partitions = await self._slurm.partitions()
            found = [each.time_limit_s for each in partitions if each.name == self._partition]
            self._partition_limit_s = next(iter(found), None)
        self._down = {node: why for node in self._nodes if (why := _why_out(nodes.get(node), node))}
        self._reservations = reservations_by_node(
            [each for each in reservations if each.name != self._own], self._nodes, clock.wall_s()
        )
        self.known.set()

    def soon(self) -> None:
        """Look again with the next poll: the last look did not tell what somebody needs."""
        self._soon.set()

    async def run(self, poll_s: float) -> None:
        """Look for ever, less often than at the queue; a failed look changes nothing."""
        while True:
            try:
                await self.look()
            except SlurmUnknownError:
                # The queue is asked more often, and tells people that Slurm does not answer.
                await anyio.sleep(poll_s)
            else:
                self._soon = anyio.Event()
                await anyio.sleep(poll_s * min(1, POLLS_BETWEEN))
                with anyio.move_on_after(poll_s * (POLLS_BETWEEN - 1)):
                    await self._soon.wait()


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
