"""What is ordered and seen of servers and their GPUs, as facts: one function a kind."""

from typing import Protocol

from shunter.core.cluster import Health
from shunter.core.intake.inputs import DrainNode, QuarantineGpu, ReleaseGpu, RestoreNode
from shunter.core.state import State
from shunter.events.facts import (
    Event,
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
    NodeDrained,
    NodeRestored,
)


class Core(Protocol):
    """What they need of the scheduler."""

    @property
    def state(self) -> State: ...

    def emit(self, event: Event) -> object: ...


def drain_node(core: Core, order: DrainNode) -> None:
    """Offer nothing of a server any more."""
    core.emit(NodeDrained(order.at_us, order.node, order.by))


def restore_node(core: Core, order: RestoreNode) -> None:
    """Offer a server again."""
    if core.state.cluster.server(order.node).drained:
        core.emit(NodeRestored(order.at_us, order.node, order.by))


def quarantine_gpu(core: Core, order: QuarantineGpu) -> None:
    """Offer one GPU of a server no more."""
    gpu_quarantined(core, GpuQuarantined(order.at_us, order.node, order.gpu, f"by {order.by}"))


def release_gpu(core: Core, order: ReleaseGpu) -> None:
    """Offer a quarantined GPU again."""
    if core.state.cluster.server(order.node).quarantined >> order.gpu & 1:
        core.emit(GpuRestored(order.at_us, order.node, order.gpu))


def gpu_quarantined(core: Core, seen: GpuQuarantined) -> None:
    """Note that a GPU is to take no jobs, if it is there and that is news."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    if seen.gpu < server.configuration.gpus and not server.quarantined >> seen.gpu & 1:
        core.emit(seen)


def gpus_taken(core: Core, seen: GpusTaken) -> None:
    """Note what of a server others hold, if that is news of one that is there."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    known = server.taken, server.taken_cpus_milli, server.taken_memory_mb
    if known != (seen.gpu_mask, seen.cpus_milli, seen.memory_mb):
        core.emit(seen)
