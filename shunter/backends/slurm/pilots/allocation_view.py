"""What is known of pilots and of the demand for nodes, and what is decided on it.

Instants `*_at_s` are of one clock that never goes back, whichever the caller has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from shunter.backends.slurm.node_reservations import NodeReservation, least_s
from shunter.events.values.ids import NodeName


class PilotState(StrEnum):
    """How far a pilot is; one that has ended is not named any more."""

    ASKED = "asked"
    HELD = "held"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class PilotNode:
    """A node that pilots may ask Slurm for."""

    name: str
    gpu_type: str
    gpus: int


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The GPUs that one waiting job needs; an empty set means any."""

    gpus: int
    gpu_types: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    def may_use(self, node: PilotNode) -> bool:
        """Say whether the job could run on a node."""
        return (not self.gpu_types or node.gpu_type in self.gpu_types) and (
            not self.nodes or node.name in self.nodes
        )


@dataclass(frozen=True, slots=True)
class Pilot:
    """A pilot that was submitted and has not ended.

    Args:
        name: its own; that of the Slurm job.
        node: which it asks for or holds.
        state: how far it is; draining once that was decided, or Slurm is about to end it.
        asked_at_s: when it was submitted.
        limit_s: its time limit, from its start.
        started_at_s: when Slurm gave it the node; None while it waits.
        jobs: how many run in it.
        busy_gpus: how many GPUs those hold.
        reason: why Slurm lets it wait, in Slurm's word ("Resources"); "" if that is not known.
    """

    name: str
    node: str
    state: PilotState
    asked_at_s: float
    limit_s: float
    started_at_s: float | None = None
    jobs: int = 0
    busy_gpus: int = 0
    reason: str = ""

    def left_s(self, now_s: float) -> float:
        """Return how much of its time limit is left."""
        return self.limit_s if self.started_at_s is None else self.ends_at_s - now_s

    @property
    def ends_at_s(self) -> float:
        """When its time limit ends it; one that waits has none yet."""
        return float("inf") if self.started_at_s is None else self.started_at_s + self.limit_s


@dataclass(frozen=True, slots=True)
class SubmitRefusals:
    """How often in a row Slurm has refused a pilot for a node, when last, and why."""

    count: int
    last_at_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class AllocationLimits:
    """The bounds within which nodes are asked for and given back.

    Args:
        pilots_max: how many nodes may be held or asked for at once.
        limit_s: the time limit of a new pilot.
        idle_s: a node that nothing needs is given back after so long.
        drain_s: so long before its end, a pilot takes no attempts and those in it are suspended.
        renew_s: so long before its end, a pilot that is needed gets a successor, which waits in
            Slurm's queue meanwhile; more than `drain_s`.
        submits_max: how many pilots may be submitted by one decision.
        backoff_s: how long to wait after a refusal; twice as long after each further one.
        backoff_s_max: and at most so long.
    """

    pilots_max: int
    limit_s: float = 86_400.0
    idle_s: float = 600.0
    drain_s: float = 300.0
    renew_s: float = 3600.0
    submits_max: int = 8
    backoff_s: float = 10.0
    backoff_s_max: float = 900.0

    @property
    def least_s(self) -> float:
        """The shortest time limit that is worth asking for before a reservation."""
        return least_s(self.limit_s)

    def drain_lead_s(self, pilot: Pilot) -> float:
        """Return how long before its end a pilot is drained; less for a short one."""
        return min(self.drain_s, pilot.limit_s / 4)

    def renew_lead_s(self, pilot: Pilot) -> float:
        """Return how long before its end a successor is asked for; less for a short one."""
        return min(self.renew_s, pilot.limit_s / 2)

    def retry_at_s(self, node: str, refusals: SubmitRefusals) -> float:
        """Return when a node may be asked for again; not all at once."""
        longest_s = min(self.backoff_s * 2.0 ** min(refusals.count - 1, 30), self.backoff_s_max)
        part = crc32(f"{node}/{refusals.count}".encode()) / 2**32  # the same on every run
        return refusals.last_at_s + longest_s * (1 + part) / 2


@dataclass(frozen=True, slots=True)
class AllocationView:
    """All that a decision rests on.

    Args:
        now_s: the instant of the decision.
        nodes: those that pilots may ask for.
        pilots: those that have not ended.
        waiting: the jobs that wait for GPUs; those that run are told by `pilots`.
        refusals: of submissions, by node; one that succeeds clears them.
        reservations: the next of each node that has one.
        out_of_service: the nodes on which Slurm starts nothing, each with why.
        spare_since_s: what the decision before returned.
    """

    now_s: float
    nodes: tuple[PilotNode, ...]
    pilots: tuple[Pilot, ...] = ()
    waiting: tuple[GpuRequest, ...] = ()
    refusals: Mapping[str, SubmitRefusals] = field(default_factory=dict)
    reservations: Mapping[NodeName, NodeReservation] = field(default_factory=dict)
    out_of_service: Mapping[NodeName, str] = field(default_factory=dict)
    spare_since_s: Mapping[str, float] = field(default_factory=dict)

    def reservation(self, node: str) -> NodeReservation | None:
        """Return the next reservation of a node; None if it has none."""
        return self.reservations.get(NodeName(node))

    def limit_s(self, node: str, limits: "AllocationLimits") -> float:
        """Return the time limit of a new pilot, which ends before a reservation begins.

        0: that would be too short to be worth it.
        """
        kept = self.reservation(node)
        if kept is None or (longest_s := kept.limit_s(self.now_s)) >= limits.limit_s:
            return limits.limit_s
        return longest_s if longest_s >= limits.least_s else 0.0


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a pilot for a node, as the successor of one that holds it if named."""

    node: str
    limit_s: float
    successor_of: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Start no attempt in a pilot any more, and suspend those that run in it."""

    pilot: str
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Cancel the Slurm job of a pilot, in which nothing runs."""

    pilot: str
    why: str


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now, and what to tell people.

    Args:
        submits, drains, releases: in this order.
        spare_since_s: since when each pilot that nothing needs is not needed; for the next view.
        reasons: a sentence for each node: why it is held, waited for, or not asked for.
    """

    submits: tuple[Submit, ...]
    drains: tuple[Drain, ...]
    releases: tuple[Release, ...]
    spare_since_s: Mapping[str, float]
    reasons: Mapping[str, str]
