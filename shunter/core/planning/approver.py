"""No policy of other people is trusted: every change is checked before it becomes a fact.

What our own policies made on a draft was checked as it was made, so there is nothing to check here.

Changes are checked in plan order against the state as it would be after those before them. One
that does not fit is refused alone, with its reason; a suspension whose every beneficiary was
refused is dropped with them, so nobody makes room in vain. A GPU is given twice only on purpose:
where every tenant of it, the new one as well, is packed.
"""

from shunter.core.cluster import Gpu, Health, gpus_of
from shunter.core.performance import level_of
from shunter.core.placement.gpus import is_within
from shunter.core.planning.guards import Guards
from shunter.core.planning.plan import Change, Move, Pack, Plan, Start, Suspend
from shunter.core.state import ENDING, LAUNCHING, RUNNING, Job, State
from shunter.events.facts.decisions import NO_SUCH_JOB, PlanRejected
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.fact import record
from shunter.events.values.ids import JobId, NodeName, QueueName
from shunter.events.values.job_spec import Demand, Level, SuspendMode
from shunter.events.values.reasons import Reason

Refusal = tuple[Reason, str]

_LEVELS = list(Level)  # the nearest first

_UP, _EXCLUSIVE, _NEVER = Health.up, Sharing.exclusive, SuspendMode.never
_PACKED = Sharing.packed

_ID_MOST = 200


@record
class Approval:
    """What may be done of a plan, and what may not."""

    granted: list[Change]
    refused: list[PlanRejected]


def approve(plan: Plan, state: State, guards: Guards, now_us: int) -> Approval:
    """Check a plan gang by gang.

    Returns:
        the changes that may be carried out, in plan order, and the refusals as facts.
    """
    if plan.is_drafted:
        return Approval(list(plan.changes), [])
    dropped: set[JobId] = set()
    first: dict[JobId, PlanRejected] = {}
    while True:
        approval = Check(state, guards, now_us).run(plan, dropped)
        for refusal in approval.refused:
            first.setdefault(refusal.job_id, refusal)
        vain = _in_vain(approval) if approval.refused else None
        if not vain:
            break
        dropped |= vain
    # What a job was refused for at first, and not that nobody makes room for it since.
    approval.refused = [first[refusal.job_id] for refusal in approval.refused]
    return approval


def no_such_job(job_id: JobId, rule: str, now_us: int) -> PlanRejected:
    """Return the refusal of what a plan wants for a job that does not exist."""
    named = JobId(job_id[:_ID_MOST])
    return PlanRejected(now_us, named, Reason.refused, rule, NO_SUCH_JOB)


def _in_vain(approval: Approval) -> set[JobId]:
    """Return the jobs to be suspended only for jobs that were refused."""
    granted = {change.job_id for change in approval.granted}
    refused = {refusal.job_id for refusal in approval.refused}
    return {
        change.job_id
        for change in approval.granted
        if isinstance(change, Suspend)
        and any(gainer in refused for gainer in change.because.beneficiaries)
        and not any(gainer in granted for gainer in change.because.beneficiaries)
    }


class Check:
    """One pass over a plan, with what granted changes have given and taken so far.

    `flipped` are the GPUs of each server that are of the other kind than in the state: freed by a
    suspension, or taken by a start, never both, because a GPU changes hands at most once a plan
    before it is taken for good. `tenants` are the tenants of those that are shared.
    """

    __slots__ = (
        "cpus_milli",
        "flipped",
        "guards",
        "is_guarded",
        "memory_mb",
        "now_us",
        "queue_gpus",
        "servers",
        "state",
        "tenants",
    )

    def __init__(self, state: State, guards: Guards, now_us: int) -> None:
        self.state = state
        self.servers = state.cluster.servers
        self.guards = guards
        self.is_guarded = not guards.are_off
        self.now_us = now_us
        self.tenants = PlannedTenants(state)
        self.flipped: dict[NodeName, int] = {}
        self.cpus_milli: dict[NodeName, int] = {}
        self.memory_mb: dict[NodeName, int] = {}
        self.queue_gpus: dict[QueueName, int] = {}

    def run(self, plan: Plan, dropped: set[JobId]) -> Approval:
        """Check every change in order, leaving out the suspensions in `dropped`."""
        approval, seen, left = Approval([], []), set[JobId](), set[JobId]()
        jobs, granted = self.state.jobs, approval.granted
        for change in plan.changes:
            job_id = change.job_id
            job = jobs.get(job_id)
            if job is None:
                rule = change.because.rule
                approval.refused.append(no_such_job(job_id, rule, self.now_us))
                continue
            if job_id in dropped:
                continue  # it would make room in vain
            if job_id in left and type(change) is Start:
                # It has given its GPUs back and takes others: gangs may move in a circle.
                refusal: Refusal | None = self._take(job, change.allocation)
                left.discard(job_id)
            elif job_id in seen:
                refusal = Reason.refused, "a plan may change a job only once"
            elif type(change) is not Start:
                refusal = self._leave(job, change)
            elif job.is_eligible:
                refusal = self._take(job, change.allocation)
            else:
                refusal = Reason.refused, f"the job is {job.phase}, on hold or blocked"
            seen.add(job_id)
            if refusal is None:
                granted.append(change)
                if type(change) is Suspend:
                    left.add(job_id)
            else:
                reason, detail = refusal
                rule = change.because.rule
                approval.refused.append(PlanRejected(self.now_us, job_id, reason, rule, detail))
        return approval

    def _leave(self, job: Job, change: Change) -> Refusal | None:
        if not job.allocation.shares or job.end_cause or job.phase is ENDING:
            return Reason.refused, f"the job is {job.phase} and has nothing to give back"
        if type(change) is Pack:
            return self._open_up(job, change.allocation)
        if self.is_guarded or job.phase is not RUNNING or job.spec.suspend_mode is _NEVER:
            pinned = self.guards.pinned_by(job, self.now_us)
            if pinned is not None and not self._may_be_promised_others(job, change):
                return pinned, "the job is guarded, or has not been launched where it is to run"
        self._give(job, job.allocation, 1)
        if isinstance(change, Move):
            refusal = self._take(job, change.allocation)
            if refusal is not None:
                self._give(job, job.allocation, -1)
            return refusal
        return None

    def _may_be_promised_others(self, job: Job, change: Change) -> bool:
        """Say whether a job that waits for its GPUs may wait for others instead."""
        waits = job.phase is not RUNNING and job.phase is not LAUNCHING
        return waits and type(change) is Move and not self.guards.guarded_by(job, self.now_us)

    def _take(self, job: Job, target: Allocation) -> Refusal | None:
        """Check an allocation against what is left, and take it."""
        shares, gpus, flipped, spec = target.shares, 0, self.flipped, job.spec
        if target.sharing is not _EXCLUSIVE:
            if target.sharing is not _PACKED or not spec.gpus:
                return Reason.refused, "only whole GPUs can be shared, by jobs that run at once"
            shares = self.tenants.first_of(target)
            if not self._accepts(job, target):
                return Reason.gpu_type_unavailable, "the job does not accept this GPU type"
            gpus = target.gpus - Allocation(shares).gpus
        for share in shares:
            mask, node = share.gpu_mask, share.node
            gpus += mask.bit_count()
            server = self.servers.get(node)
            if (
                server is None
                or server.health is not _UP
                or server.drained
                or mask & (server.decided ^ flipped.get(node, 0) | server.quarantined)
                or mask >> server.configuration.gpus
                or share.cpus_milli
                or share.memory_mb
                or spec.gpu_types
            ):
                refusal = self._check_share(job, share)
                if refusal is not None:
                    return refusal
        if gpus != spec.gpus:
            return Reason.refused, f"{gpus} GPUs instead of the gang of {spec.gpus}"
        demand = job.demand
        if gpus and (demand.max_level is not None or demand.shapes):
            refusal = self._split(demand, target)
            if refusal is not None:
                return refusal
        if len(shares) != 1:
            refusal = self._whole(shares, gpus)
            if refusal is not None:
                return refusal
        queue = self.state.queues[spec.queue]
        if queue.quota_gpus is not None:
            used = queue.gpus + self.queue_gpus.get(queue.name, 0)
            if used + gpus > queue.quota_gpus:
                return Reason.quota, f"queue {queue.name} may use {queue.quota_gpus} GPUs"
        self._give(job, target, -1)
        return None

    def _open_up(self, job: Job, target: Allocation) -> Refusal | None:
        """Check that a job may have tenants from now on where it is, and open its GPUs."""
        before = job.allocation
        if target.sharing is not _PACKED or target.shares != before.shares or not job.spec.gpus:
            return Reason.refused, "a job that is packed keeps its GPUs"
        if before.sharing is not _EXCLUSIVE:
            return Reason.refused, "the job shares its GPUs already"
        self.tenants.join(job, target)
        return None

    def _accepts(self, job: Job, target: Allocation) -> bool:
        """Say whether a job accepts the GPU types of all servers of an allocation."""
        types, nodes = job.spec.gpu_types, [share.node for share in target.shares]
        there = [self.servers[node].configuration for node in nodes if node in self.servers]
        return not types or all(where.gpu_type in types for where in there)

    def _whole(self, shares: tuple[Share, ...], gpus: int) -> Refusal | None:
        """Check that an allocation names some servers, each once, all of one GPU type."""
        if not shares:
            return Reason.refused, "an allocation must name a server"
        if len({share.node for share in shares}) != len(shares):
            return Reason.refused, "an allocation names a server twice"
        types = {self.servers[share.node].configuration.gpu_type for share in shares}
        if gpus and len(types) > 1:
            return Reason.gpu_type_unavailable, "a gang must be of one GPU type"
        return None

    def _split(self, demand: Demand, target: Allocation) -> Refusal | None:
        """Check that a gang is as near together as its job demands."""
        pieces = sorted(share.gpu_mask.bit_count() for share in target.shares)
        if demand.shapes and pieces not in [sorted(shape) for shape in demand.shapes]:
            reason = Reason.split_kept if demand.keeps_split else Reason.locality_not_met
            return reason, "the job does not accept this split over servers"
        if demand.max_level is not None:
            nodes = {share.node: self.servers[share.node].configuration for share in target.shares}
            level = level_of(target, nodes)
            if _LEVELS.index(level) <= _LEVELS.index(demand.max_level):
                return None
            if len(nodes) > 1 or not is_within(
                nodes[target.shares[0].node], target.shares[0].gpu_mask, demand.max_level
            ):
                return Reason.locality_not_met, f"its GPUs would only share a {level}"
        return None

    def _check_share(self, job: Job, share: Share) -> Refusal | None:
        node, mask = share.node, share.gpu_mask
        server = self.servers.get(node)
        if server is None:
            return Reason.refused, f"there is no node {node}"
        if server.health is not _UP or server.drained:
            return Reason.node_lost, f"node {node} takes no jobs"
        if mask >> server.configuration.gpus or mask & server.quarantined:
            return Reason.refused, f"node {node} has no such GPUs to give"
        if mask & (server.decided ^ self.flipped.get(node, 0)):
            return Reason.no_capacity, f"GPUs of node {node} are taken"
        types = job.spec.gpu_types
        if types and mask and server.configuration.gpu_type not in types:
            return Reason.gpu_type_unavailable, "the job does not accept this GPU type"
        if share.cpus_milli or share.memory_mb:
            cpus = server.cpus_milli_free + self.cpus_milli.get(node, 0)
            memory = server.memory_mb_free + self.memory_mb.get(node, 0)
            if share.cpus_milli < 0 or share.memory_mb < 0:
                return Reason.refused, "an allocation cannot take less than nothing"
            if share.cpus_milli > cpus or share.memory_mb > memory:
                return Reason.cpu_or_memory_short, f"node {node} has too little CPU or memory left"
        return None

    def _give(self, job: Job, what: Allocation, sign: int) -> None:
        """Book an allocation as given back (1) or taken (-1)."""
        flipped, shares = self.flipped, what.shares
        if what.sharing is _PACKED:
            shares = self.tenants.leave(job, what) if sign > 0 else self.tenants.join(job, what)
        for share in shares:
            node = share.node
            flipped[node] = flipped.get(node, 0) ^ share.gpu_mask
            if share.cpus_milli or share.memory_mb:
                self.cpus_milli[node] = self.cpus_milli.get(node, 0) + sign * share.cpus_milli
                self.memory_mb[node] = self.memory_mb.get(node, 0) + sign * share.memory_mb
        if self.state.queues[job.spec.queue].quota_gpus is not None:
            queue = job.spec.queue
            self.queue_gpus[queue] = self.queue_gpus.get(queue, 0) - sign * what.gpus


class PlannedTenants:
    """The tenants of shared GPUs in the state, and what granted changes made of them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._changed: dict[Gpu, set[JobId]] = {}

    def first_of(self, target: Allocation) -> tuple[Share, ...]:
        """Return the shares without the GPUs that have tenants open to others.

        What is left must be free. GPUs that do not exist or are not to be used are left as well.
        """
        return tuple([self._first(share) for share in target.shares])

    def join(self, job: Job, target: Allocation) -> tuple[Share, ...]:
        """Enter a job; return its shares, with only the GPUs on which it is the first."""
        first = self.first_of(target)
        for share in target.shares:
            for gpu in gpus_of(share):
                self._tenants(gpu).add(job.job_id)
        return first

    def leave(self, job: Job, left: Allocation) -> tuple[Share, ...]:
        """Take a job out; return its shares, with only the GPUs on which it was the last."""
        last = []
        for share in left.shares:
            mask = 0
            for gpu in gpus_of(share):
                tenants = self._tenants(gpu)
                tenants.discard(job.job_id)
                mask |= 0 if tenants else 1 << gpu[1]
            last.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
        return tuple(last)

    def _first(self, share: Share) -> Share:
        server = self._state.cluster.servers.get(share.node)
        if server is None or server.health is not _UP or share.gpu_mask & ~server.all_gpus:
            return share
        mask = share.gpu_mask
        for gpu in gpus_of(share):
            bit = 1 << gpu[1]
            if self._tenants(gpu) and not bit & server.quarantined:
                mask ^= bit
        return Share(share.node, mask, share.cpus_milli, share.memory_mb)

    def _tenants(self, gpu: Gpu) -> set[JobId]:
        found = self._changed.get(gpu)
        if found is None:
            found = self._changed[gpu] = set(self._state.cluster.deciding.of(gpu))
        return found
