"""Facts about servers, GPUs and quotas."""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.fact import event
from shunter.events.values.fact_class import COMMANDED, OBSERVED, KindClass
from shunter.events.values.ids import NodeName, QueueName


@event
class NodeAdded:
    """A server joined the cluster and takes jobs."""

    at_us: int
    node: NodeName
    configuration: ConfigurationSet


@event
class NodeDrained:
    """A server takes no new jobs; those on it may end."""

    at_us: int
    node: NodeName
    by: str = ""


@event
class NodeRestored:
    """A drained server takes jobs again."""

    at_us: int
    node: NodeName
    by: str = ""


@event
class NodeUnreachable:
    """A server does not answer; what it runs is unknown, not failed."""

    at_us: int
    node: NodeName


@event
class NodeReachable:
    """A server that did not answer, or was lost, answers again."""

    at_us: int
    node: NodeName


@event
class NodeLost:
    """A server is proven dead; its attempts are over."""

    at_us: int
    node: NodeName
    cause: str = ""


@event
class NodeRemoved:
    """A server left the cluster for good; it holds nothing any more."""

    at_us: int
    node: NodeName


@event
class GpuQuarantined:
    """One GPU takes no new jobs: it misbehaved, or a person says so (the cause)."""

    at_us: int
    node: NodeName
    gpu: int
    cause: str = ""


@event
class GpuRestored:
    """A quarantined GPU takes jobs again."""

    at_us: int
    node: NodeName
    gpu: int


@event
class GpusTaken:
    """Others than this scheduler hold so much of a server now, and no more.

    Bit i of `gpu_mask` is GPU i; it replaces what was said of the server before (0: they hold
    none). What is given to jobs of this scheduler is not counted. Who had been given one of
    these GPUs and has not started gets another one of the server, or is displaced; and so are
    those for which too few CPUs or too little memory is left, the last submitted first.
    """

    at_us: int
    node: NodeName
    gpu_mask: int
    cause: str = ""
    cpus_milli: int = 0
    memory_mb: int = 0


@event
class QuotaChanged:
    """A queue's hard GPU quota (None: no bound), its weight and its users were set."""

    at_us: int
    queue: QueueName
    quota_gpus: int | None = None
    weight: float = 1.0
    users: tuple[str, ...] = ()


CLUSTER_CHANGES = (
    NodeAdded,
    NodeDrained,
    NodeRestored,
    NodeUnreachable,
    NodeReachable,
    NodeLost,
    NodeRemoved,
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
)
"""The kinds after which other GPUs may be up than before."""


ClusterEvent: TypeAlias = (
    NodeAdded
    | NodeDrained
    | NodeRestored
    | NodeUnreachable
    | NodeReachable
    | NodeLost
    | NodeRemoved
    | GpuQuarantined
    | GpuRestored
    | GpusTaken
    | QuotaChanged
)

CLASSES: Mapping[type, KindClass] = {
    NodeAdded: KindClass(COMMANDED),
    NodeDrained: KindClass(COMMANDED),
    NodeRestored: KindClass(COMMANDED),
    NodeUnreachable: KindClass(OBSERVED),
    NodeReachable: KindClass(OBSERVED),
    NodeLost: KindClass(OBSERVED),
    NodeRemoved: KindClass(COMMANDED),
    GpuQuarantined: KindClass(OBSERVED),
    GpuRestored: KindClass(OBSERVED),
    GpusTaken: KindClass(OBSERVED),
    QuotaChanged: KindClass(COMMANDED),
}
"""Where facts of servers and queues come from."""
