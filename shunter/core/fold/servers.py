"""Rules for the facts about servers, GPUs and quotas, and who gives way where others have GPUs."""

from collections.abc import Sequence

from shunter.core.cluster import Health, Server, lowest_bits
from shunter.core.fold.attempts import (
    decide,
    hold_anew,
    hold_instead,
    launch_granted,
    release,
    settle_demand,
    settle_demands,
    undecide,
    withdraw,
)
from shunter.core.state import (
    AT_WORK,
    ENDING,
    HOLDS_GPUS,
    LAUNCHING,
    PROMISED,
    SUSPENDING,
    FoldResult,
    Job,
    Queue,
    Rule,
    State,
)
from shunter.errors import IllegalEventError
from shunter.events import NOTHING, Allocation, Event, NodeName, Resources, Share, Sharing, facts

# A backend's word on GPUs is true, so bookings give way. A job that has not started gets other free
# GPUs of its server, or else is displaced, in order of submission; one that has started keeps its
# GPUs. Where two seem to have started on one GPU, the newest news counts.
#
# Where a server has less than no CPUs or memory left, jobs that have yet to start there are
# displaced, the last submitted first. A job found running is booked at most what is left.

Masks = dict[NodeName, int]
"""GPUs by server: bit i of a mask is GPU i."""

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def move_to(state: State, job: Job, found: Allocation, at_us: int) -> FoldResult:
    """Let an attempt hold what it was found on; whoever has that gives way.

    Of a job that has to leave only what it holds is changed, not where it is to go.

    Raises:
        IllegalEventError: there are no such GPUs, or they are not held exclusively.
    """
    _check(state, job, found)
    leaves = job.phase is SUSPENDING
    before = job.held if leaves else job.allocation
    if not leaves:
        withdraw(state, job, at_us)
    release(state, job, at_us)
    job.held, job.learned = NOTHING, job.attempt
    lost, given_up = _masks(found), _masks(before)
    displaced: list[Job] = []
    for other in state.jobs.values():
        if other is job:
            continue
        if _has_begun(other) and _overlaps(other.held, lost):
            _hold(state, other, _without(other.held, lost), at_us)
        is_booked = not leaves or other.phase in AT_WORK
        if is_booked and _gives_way(state, other, lost, given_up, at_us):
            displaced.append(other)
    if leaves:
        _hold(state, job, found, at_us)
    else:
        job.allocation = _affordable(state, found)
        decide(state, job)
        state.queues[job.spec.queue].gpus += job.allocation.gpus
        _hold(state, job, job.allocation, at_us)
    return _settled(state, displaced, at_us)


def take_from(state: State, server: Server, mask: int, beside: Resources, at_us: int) -> FoldResult:
    """Offer no more what others hold; whoever was to start there gives way."""
    server.take(mask, beside)
    state.cluster.changed(server)
    lost = {server.name: mask}
    displaced = [
        job
        for job in state.jobs.values()
        if _is_to_start(job) and _gives_way(state, job, lost, {}, at_us)
    ]
    displaced += _without_room(state, server, at_us)
    return _settled(state, displaced, at_us)


def take_back_grants(state: State, nodes: Sequence[NodeName], at_us: int) -> FoldResult:
    """Displace jobs that wait to be launched on servers with less than nothing left."""
    displaced: list[Job] = []
    for node in nodes:
        server = state.cluster.servers[node]
        displaced += _without_room(state, server, at_us, may_launch=False)
    return _settled(state, displaced, at_us)


def _without_room(
    state: State, server: Server, at_us: int, *, may_launch: bool = True
) -> list[Job]:
    """Take a server from jobs until its CPUs and memory are enough; return them.

    Those that `may_launch` count, too: who starts them has not begun to.
    """
    displaced: list[Job] = []
    for job in reversed(state.jobs.values()):
        left = server.beside_free
        if left.cpus_milli >= 0 and left.memory_mb >= 0:
            break
        is_to_start = _is_to_start(job) and (may_launch or job.phase is not LAUNCHING)
        if is_to_start and any(
            share.node == server.name
            and (left.cpus_milli < 0 < share.cpus_milli or left.memory_mb < 0 < share.memory_mb)
            for share in job.allocation.shares
        ):
            _take_back(state, job, at_us)
            displaced.append(job)
    return displaced


def _settled(state: State, displaced: list[Job], at_us: int) -> FoldResult:
    """Launch whose GPUs are free now, and return what became of jobs."""
    launched = launch_granted(state, at_us) if state.granted else ()
    return FoldResult(launched, displaced=tuple(displaced))


def _gives_way(state: State, job: Job, lost: Masks, given_up: Masks, at_us: int) -> bool:
    """Take what is lost from what was booked for a job; say whether it is displaced."""
    if not _overlaps(job.allocation, lost):
        return False
    if _is_to_start(job):
        instead = _exchanged(state, job.allocation, lost, given_up)
        if instead is not None:
            undecide(state, job)
            job.allocation = instead
            decide(state, job)
            if job.phase is LAUNCHING:
                _hold(state, job, instead, at_us)
            return False
    _take_back(state, job, at_us)
    return job.phase is not ENDING


def _take_back(state: State, job: Job, at_us: int) -> None:
    """Take back what was booked for a job and its attempt, which has not begun."""
    withdraw(state, job, at_us)
    if job.phase is LAUNCHING and not _has_begun(job):
        job.since_us = at_us
        _hold(state, job, NOTHING, at_us)


def _exchanged(state: State, what: Allocation, lost: Masks, given_up: Masks) -> Allocation | None:
    """Return an allocation with free GPUs for lost ones of a server; None: too few."""
    if what.sharing is not _EXCLUSIVE:
        return None
    shares = []
    for share in what.shares:
        gone = share.gpu_mask & lost.get(share.node, 0)
        if gone:
            server = state.cluster.servers[share.node]  # whether it takes jobs or not
            used = server.decided | server.held | server.unavailable | lost[share.node]
            free = server.all_gpus & ~used
            preferred = free & given_up.get(share.node, 0)
            if free.bit_count() < gone.bit_count():
                return None
            found = lowest_bits(preferred, min(gone.bit_count(), preferred.bit_count()))
            found |= lowest_bits(free & ~found, gone.bit_count() - found.bit_count())
            mask = share.gpu_mask ^ gone | found
            share = Share(share.node, mask, share.cpus_milli, share.memory_mb)
        shares.append(share)
    return Allocation(tuple(shares))


def _hold(state: State, job: Job, what: Allocation, at_us: int) -> None:
    """Let an attempt hold other GPUs; settle its service if their number changes."""
    assert job.since_us is not None, "only an attempt under way holds anything"
    if what.gpus != job.gpus:
        hold_anew(job, what.gpus, at_us)
    hold_instead(state, job, what, at_us)


def _has_begun(job: Job) -> bool:
    """Say whether what a job holds is where it has started, as far as anybody knows."""
    if job.phase is LAUNCHING:
        return job.learned == job.attempt
    return job.phase in HOLDS_GPUS


def _is_to_start(job: Job) -> bool:
    """Say whether what is booked for a job is where it has yet to start."""
    if job.phase is LAUNCHING:
        return not _has_begun(job)
    return job.phase in PROMISED


def _affordable(state: State, found: Allocation) -> Allocation:
    """Return an allocation with no more CPUs and memory than its servers have left."""
    shares = []
    for share in found.shares:
        left = state.cluster.servers[share.node].beside_free
        cpus_milli = min(share.cpus_milli, max(0, left.cpus_milli))
        memory_mb = min(share.memory_mb, max(0, left.memory_mb))
        shares.append(Share(share.node, share.gpu_mask, cpus_milli, memory_mb))
    return Allocation(tuple(shares))


def _overlaps(what: Allocation, masks: Masks) -> bool:
    return any(share.gpu_mask & masks.get(share.node, 0) for share in what.shares)


def _without(what: Allocation, masks: Masks) -> Allocation:
    """Return an allocation without some GPUs, and without servers where none is left."""
    rest = tuple(
        Share(share.node, mask, share.cpus_milli, share.memory_mb)
        for share in what.shares
        if (mask := share.gpu_mask & ~masks.get(share.node, 0))
    )
    return Allocation(rest, what.sharing) if rest else NOTHING


def _masks(what: Allocation) -> Masks:
    return {share.node: share.gpu_mask for share in what.shares}


def _check(state: State, job: Job, found: Allocation) -> None:
    """Raise unless an allocation names GPUs that there are, for one job alone."""
    nodes = {share.node for share in found.shares}
    if found.sharing is not _EXCLUSIVE or not nodes or len(nodes) < len(found.shares):
        raise IllegalEventError(f"job {job.job_id} cannot have been found on {found}")
    for share in found.shares:
        missing = share.gpu_mask & ~state.cluster.server(share.node).all_gpus
        if missing or min(share.gpu_mask, share.cpus_milli, share.memory_mb) < 0:
            raise IllegalEventError(
                f"job {job.job_id} was found on what node {share.node} has not: {share}"
            )


def node_added(state: State, event: facts.NodeAdded) -> None:
    """Add a server."""
    state.cluster.add(event.node, event.configuration)
    if state.resumable:
        settle_demands(state)


def node_drained(state: State, event: facts.NodeDrained) -> None:
    """Offer nothing of the server any more."""
    server = state.cluster.server(event.node)
    server.drained = True
    state.cluster.changed(server)


def node_restored(state: State, event: facts.NodeRestored) -> None:
    """Offer the server again."""
    server = state.cluster.server(event.node)
    if not server.drained:
        raise IllegalEventError(f"node {event.node} was restored but not drained")
    server.drained = False
    state.cluster.changed(server)


def node_unreachable(state: State, event: facts.NodeUnreachable) -> None:
    """Offer nothing of a server that does not answer; its jobs stay where they are."""
    _set_health(state, state.cluster.server(event.node), Health.unreachable)


def node_reachable(state: State, event: facts.NodeReachable) -> None:
    """Offer a server again that answers again."""
    server = state.cluster.server(event.node)
    if server.health is Health.up:
        raise IllegalEventError(f"node {event.node} became reachable but always was")
    _set_health(state, server, Health.up)


def node_lost(state: State, event: facts.NodeLost) -> None:
    """Offer nothing of a dead server; its lost attempts follow as facts of their own."""
    _set_health(state, state.cluster.server(event.node), Health.lost)


def node_removed(state: State, event: facts.NodeRemoved) -> None:
    """Forget a server on which nothing runs."""
    state.cluster.remove(event.node)
    if state.resumable:
        settle_demands(state)


def gpu_quarantined(state: State, event: facts.GpuQuarantined) -> None:
    """Offer one GPU no more."""
    server = _server_with(state, event.node, event.gpu)
    server.quarantined |= 1 << event.gpu
    server.quarantine_causes[event.gpu] = event.cause
    state.cluster.changed(server)


def gpu_restored(state: State, event: facts.GpuRestored) -> None:
    """Offer one GPU again."""
    server = _server_with(state, event.node, event.gpu)
    if not server.quarantined >> event.gpu & 1:
        raise IllegalEventError(f"GPU {event.gpu} of node {event.node} was not quarantined")
    server.quarantined &= ~(1 << event.gpu)
    server.quarantine_causes.pop(event.gpu, None)
    state.cluster.changed(server)


def gpus_taken(state: State, event: facts.GpusTaken) -> FoldResult:
    """Offer no more what others hold, and again what they left."""
    server = state.cluster.server(event.node)
    if event.gpu_mask & ~server.all_gpus:
        raise IllegalEventError(f"node {event.node} has not all of the GPUs {event.gpu_mask:#x}")
    beside = Resources(0, event.cpus_milli, event.memory_mb)
    fits = beside.fit_beside(server.configuration.beside)
    if min(event.cpus_milli, event.memory_mb) < 0 or not fits:
        raise IllegalEventError(f"node {event.node} has not all that others hold of it: {beside}")
    return take_from(state, server, event.gpu_mask, beside, event.at_us)


def quota_changed(state: State, event: facts.QuotaChanged) -> None:
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


SERVER_RULES: dict[type[Event], Rule] = {
    facts.NodeAdded: node_added,
    facts.NodeDrained: node_drained,
    facts.NodeRestored: node_restored,
    facts.NodeUnreachable: node_unreachable,
    facts.NodeReachable: node_reachable,
    facts.NodeLost: node_lost,
    facts.NodeRemoved: node_removed,
    facts.GpuQuarantined: gpu_quarantined,
    facts.GpuRestored: gpu_restored,
    facts.GpusTaken: gpus_taken,
    facts.QuotaChanged: quota_changed,
}
