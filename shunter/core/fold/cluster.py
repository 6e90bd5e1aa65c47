"""Rules for the facts about servers, GPUs and quotas."""

from shunter.core.cluster import Health, Server
from shunter.core.fold.checkpoints import settle_demand, settle_demands
from shunter.core.fold.displacement import take_from
from shunter.core.queue import Queue
from shunter.core.state import FoldResult, Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts import (
    Event,
    GpuQuarantined,
    GpuRestored,
    GpusTaken,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    QuotaChanged,
)
from shunter.events.values import NodeName, Resources


def node_added(state: State, event: NodeAdded) -> None:
    """Add a server."""
    state.cluster.add(event.node, event.configuration)
    if state.resumable:
        settle_demands(state)


def node_drained(state: State, event: NodeDrained) -> None:
    """Offer nothing of the server any more."""
    server = state.cluster.server(event.node)
    server.drained = True
    state.cluster.changed(server)


def node_restored(state: State, event: NodeRestored) -> None:
    """Offer the server again."""
    server = state.cluster.server(event.node)
    if not server.drained:
        raise IllegalEventError(f"node {event.node} was restored but not drained")
    server.drained = False
    state.cluster.changed(server)


def node_unreachable(state: State, event: NodeUnreachable) -> None:
    """Offer nothing of a server that does not answer; its jobs stay where they are."""
    _set_health(state, state.cluster.server(event.node), Health.unreachable)


def node_reachable(state: State, event: NodeReachable) -> None:
    """Offer a server again that answers again."""
    server = state.cluster.server(event.node)
    if server.health is Health.up:
        raise IllegalEventError(f"node {event.node} became reachable but always was")
    _set_health(state, server, Health.up)


def node_lost(state: State, event: NodeLost) -> None:
    """Offer nothing of a dead server; its lost attempts follow as facts of their own."""
    _set_health(state, state.cluster.server(event.node), Health.lost)


def node_removed(state: State, event: NodeRemoved) -> None:
    """Forget a server on which nothing runs."""
    state.cluster.remove(event.node)
    if state.resumable:
        settle_demands(state)


def gpu_quarantined(state: State, event: GpuQuarantined) -> None:
    """Offer one GPU no more."""
    server = _server_with(state, event.node, event.gpu)
    server.quarantined |= 1 << event.gpu
    server.quarantine_causes[event.gpu] = event.cause
    state.cluster.changed(server)


def gpu_restored(state: State, event: GpuRestored) -> None:
    """Offer one GPU again."""
    server = _server_with(state, event.node, event.gpu)
    if not server.quarantined >> event.gpu & 1:
        raise IllegalEventError(f"GPU {event.gpu} of node {event.node} was not quarantined")
    server.quarantined &= ~(1 << event.gpu)
    server.quarantine_causes.pop(event.gpu, None)
    state.cluster.changed(server)


def gpus_taken(state: State, event: GpusTaken) -> FoldResult:
    """Offer no more what others hold, and again what they left."""
    server = state.cluster.server(event.node)
    if event.gpu_mask & ~server.all_gpus:
        raise IllegalEventError(f"node {event.node} has not all of the GPUs {event.gpu_mask:#x}")
    beside = Resources(0, event.cpus_milli, event.memory_mb)
    fits = beside.fit_beside(server.configuration.beside)
    if min(event.cpus_milli, event.memory_mb) < 0 or not fits:
        raise IllegalEventError(f"node {event.node} has not all that others hold of it: {beside}")
    return take_from(state, server, event.gpu_mask, beside, event.at_us)


def quota_changed(state: State, event: QuotaChanged) -> None:
    """Set a queue's bounds, and keep what its jobs use now."""
    before = state.queues.get(event.queue)
    queue = Queue(event.queue, event.quota_gpus, event.weight, event.users)
    queue.gpus = before.gpus if before else 0
    state.queues[event.queue] = queue
    state.last_spec = None  # the quota is a part of what classes a job
    for job in state.jobs.values():
        if job.spec.queue == event.queue:
            settle_demand(state, job)


def _set_health(state: State, server: Server, health: Health) -> None:
    server.health = health
    state.cluster.changed(server)
    if state.resumable:
        settle_demands(state)


def _server_with(state: State, node: NodeName, gpu: int) -> Server:
    server = state.cluster.servers.get(node)
    if server is None or not 0 <= gpu < server.configuration.gpus:
        raise IllegalEventError(f"there is no GPU {gpu} on node {node}")
    return server


RULES: dict[type[Event], Rule] = {
    NodeAdded: node_added,
    NodeDrained: node_drained,
    NodeRestored: node_restored,
    NodeUnreachable: node_unreachable,
    NodeReachable: node_reachable,
    NodeLost: node_lost,
    NodeRemoved: node_removed,
    GpuQuarantined: gpu_quarantined,
    GpuRestored: gpu_restored,
    GpusTaken: gpus_taken,
    QuotaChanged: quota_changed,
}
