"""The cluster as it would be after the changes drafted so far: what is free, and who finds a place.

A draft changes the pools themselves and indexes what it touched once it is closed. So its cost is
what was touched, however large the cluster is, and nothing of it outlives the planning. Engines
find places in it, and the approver carries other people's plans out in it.

Last come the rules by which jobs leave or move so that others find a place.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from shunter.core.cluster import CPU_POOL, Before, Health, PlannedTenants, Pool
from shunter.core.plan import Change, Move, Pack, Reshape, Start, Suspend
from shunter.core.planning.placement import Placement, find
from shunter.core.state import Job, State
from shunter.core.view import View
from shunter.events import (
    Allocation,
    Demand,
    JobId,
    NodeName,
    QueueName,
    Reason,
    Resources,
    Share,
    Sharing,
)

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def pools_without_gpus(pools: Mapping[str, Pool]) -> list[str]:
    """Return the pools as CPU jobs try them: those without GPUs first."""
    return sorted(pools, key=lambda name: (name != CPU_POOL, not pools[name].unit_cpus_milli))


class Draft:
    """A context in which GPUs, CPUs and memory can be given back and taken at will.

    Only one may be open at a time, and nothing else may be folded or planned meanwhile. The journal
    holds what undoes each change: a pool's numbers of before, or a call.
    """

    __slots__ = ("_cluster", "_counted", "_journal", "_queues", "_quota_used", "_tenants", "pools")

    def __init__(self, look: View | State) -> None:
        self._cluster = look.cluster
        self._queues = look.queues
        self.pools = self._cluster.pools
        self._journal: list[Before | Callable[[], None]] = []
        self._tenants: PlannedTenants | None = None
        self._quota_used: dict[QueueName, int] = {}
        self._counted: dict[JobId, Sequence[Share]] = {}

    def __enter__(self) -> "Draft":
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.look_again(
            [
                touched[0].servers[touched[1]]
                for touched in self._journal
                if isinstance(touched, tuple)
            ]
        )
        self._journal.clear()

    @property
    def mark(self) -> int:
        """How much was changed up to now: a point to go back to."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo all that was changed since a mark."""
        while len(self._journal) > mark:
            before = self._journal.pop()
            if isinstance(before, tuple):
                before[0].restore(before)
            else:
                before()

    def place(self, placement: Placement, name: str, demand: Demand) -> tuple[Share, ...] | Reason:
        """Take what a demand needs of one pool; return the shares, or why not."""
        pool = self.pools[name]
        found = find(placement, pool, demand)
        if not isinstance(found, list):
            return found
        shares: tuple[Share, ...] = ()
        for position, share in found:
            self._journal.append(pool.take(position, share))
            shares += (share,)
        return shares

    def place_without_gpus(
        self, placement: Placement, demand: Demand
    ) -> tuple[Share, ...] | Reason:
        """Do the same for a CPU job, on a server without GPUs if there is room."""
        shares: tuple[Share, ...] | Reason = Reason.cpu_or_memory_short
        for name in pools_without_gpus(self.pools):
            shares = self.place(placement, name, demand)
            if not isinstance(shares, Reason):
                return shares
        return shares

    def allocate(self, job: Job, what: Allocation) -> None:
        """Give a job an allocation: its GPUs, its CPUs and memory, its part of the quota.

        GPUs that have tenants already stay as they are, with one tenant more.
        """
        for share in self.unopened(what):
            self.take(share)
        if what.sharing is not _EXCLUSIVE:
            self._journal.append(self.tenants.join(job.job_id, what.shares))
        self._use_quota(job.spec.queue, what.gpus)

    def count(self, job: Job, shares: Sequence[Share]) -> None:
        """Let a job have other CPUs and memory beside its GPUs while this draft is open."""
        self._counted[job.job_id] = shares
        for old, new in zip(job.allocation.shares, shares, strict=True):
            more = new.beside - old.beside
            if more.cpus_milli or more.memory_mb:
                self.take(Share(old.node, 0, more.cpus_milli, more.memory_mb))

    def free(self, job: Job) -> None:
        """Take from a job what it was given; GPUs with other tenants stay taken."""
        what = job.allocation
        shares = self._counted.get(job.job_id, what.shares)
        if what.sharing is not _EXCLUSIVE:
            self._journal.append(self.tenants.leave(job.job_id, shares))
            shares = tuple([self.tenants.abandoned(share) for share in shares])
        for share in shares:
            self.give(share)
        self._use_quota(job.spec.queue, -what.gpus)

    def undo(self, job_id: JobId, before: Allocation, after: Allocation) -> None:
        """Let a job have again what it had before a change.

        All later changes, of any job, are to be undone before; the job may have ended since.
        """
        shares = after.shares
        if after.sharing is not _EXCLUSIVE:
            self._journal.append(self.tenants.leave(job_id, shares))
            shares = tuple([self.tenants.abandoned(share) for share in shares])
        for share in shares:
            self.give(share)
        for share in self.unopened(before):
            self.take(share)
        if before.sharing is not _EXCLUSIVE:
            self._journal.append(self.tenants.join(job_id, before.shares))

    def carry_out(self, changes: Iterable[Change], jobs: Mapping[JobId, Job]) -> None:
        """Do what a plan changes; whether it may is not asked here."""
        for change in changes:
            job = jobs.get(change.job_id)
            if job is None:
                continue  # the approver refuses it
            if type(change) is Pack:
                self.open_up(job, change.allocation)
            elif type(change) is Reshape:
                self.reshape(job.allocation, change.allocation)
            else:
                if type(change) is not Start and job.allocation.shares:
                    self.free(job)
                if type(change) is not Suspend:
                    self.allocate(job, change.allocation)

    def open_up(self, job: Job, packed: Allocation) -> None:
        """Let a job that has its GPUs to itself have company from now on."""
        self._journal.append(self.tenants.join(job.job_id, packed.shares))

    def reshape(self, before: Allocation, after: Allocation) -> None:
        """Take other CPUs and memory than before beside the same GPUs, free or not."""
        for old, new in zip(before.shares, after.shares, strict=True):
            more = new.beside - old.beside
            self.take(Share(new.node, 0, more.cpus_milli, more.memory_mb))

    def unopened(self, what: Allocation) -> tuple[Share, ...]:
        """Return what of an allocation must be free: not GPUs with tenants that share."""
        if what.sharing is _EXCLUSIVE:
            return what.shares
        return tuple([self.tenants.unopened(share, self._usable(share)) for share in what.shares])

    def quota_left(self, queue: QueueName) -> int | None:
        """Return how many GPUs more the jobs of a queue may have; None: it has no quota."""
        quota_gpus = self._queues[queue].quota_gpus
        if quota_gpus is None:
            return None
        return quota_gpus - self._queues[queue].gpus - self._quota_used.get(queue, 0)

    def give(self, share: Share) -> None:
        """Free what a share holds, as far as its server takes jobs."""
        server = self._cluster.servers[share.node]
        if server.is_up:
            pool = self.pools[server.configuration.gpu_type]
            self._journal.append(pool.give(server, share))

    def take(self, share: Share) -> None:
        """Take what a share needs, whether it is free or not, if its server takes jobs."""
        server = self._cluster.servers[share.node]
        if server.is_up:
            pool = self.pools[server.configuration.gpu_type]
            self._journal.append(pool.take(server.position, share))

    def take_back(self, shares: Iterable[Share]) -> bool:
        """Take again what was given, if all of it is free; say whether it was."""
        servers = self._cluster.servers
        given = [
            servers[share.node].working(share) for share in shares if servers[share.node].is_up
        ]
        if not all(self.has(share) for share in given):
            return False
        for share in given:
            self.take(share)
        return True

    def has(self, *shares: Share) -> bool:
        """Say whether some shares of the same GPUs of one server are free."""
        return self.has_gpus(shares[0]) and self.has_beside(*shares)

    def has_gpus(self, share: Share) -> bool:
        """Say whether the GPUs of a share are free, on a server that takes jobs."""
        server = self._cluster.servers[share.node]
        pool = self.pools[server.configuration.gpu_type]
        return server.is_up and pool.has_gpus(server.position, share.gpu_mask)

    def has_beside(self, *shares: Share) -> bool:
        """Say whether the CPUs and memory of some shares of one server are free together."""
        server = self._cluster.servers[shares[0].node]
        pool, position = self.pools[server.configuration.gpu_type], server.position
        needed = sum([share.beside for share in shares], Resources())
        return needed.fit_beside(pool.beside(position))

    @property
    def tenants(self) -> PlannedTenants:
        """Who shares which GPUs after the changes so far."""
        if self._tenants is None:
            self._tenants = PlannedTenants(self._cluster.deciding)
        return self._tenants

    def _usable(self, share: Share) -> int:
        """Return the mask of the GPUs that work on the server of a share, if it is up."""
        server = self._cluster.servers.get(share.node)
        return 0 if server is None else server.working_gpus

    def _use_quota(self, queue: QueueName, gpus: int) -> None:
        if self._queues[queue].quota_gpus is None:
            return
        used = self._quota_used
        before = used.get(queue, 0)
        used[queue] = before + gpus
        self._journal.append(lambda: used.update({queue: before}))


class Needs(Protocol):
    """What a policy that sizes jobs says to those who look for places."""

    @property
    def are_looked_at(self) -> bool:
        """Whether CPUs and memory count; if not, who has the GPUs finds them there."""

    def settle(self, draft: Draft) -> None:
        """Let all who run count in a draft with what they must have."""

    def demand(self, demand: Demand, job: Job, pool: str) -> Demand:
        """Return a job's demand, with what it must find in a pool."""


_UP = Health.up


def may_move_evicted(job: Job, view: View) -> bool:
    """Say whether the plan that evicts a job may give it other GPUs at once.

    One that shares its GPUs, or whose checkpoint would be out of reach, waits as others do.
    """
    return (
        job.spec.migratable
        and not job.is_on_hold
        and job.allocation.sharing is _EXCLUSIVE
        and all(view.cluster.servers[share.node].health is _UP for share in job.allocation.shares)
    )


def untangled(moves: Mapping[JobId, Move], view: View) -> tuple[list[Change], list[Change]]:
    """Return what breaks circles, and moves that find what they need free in turn.

    Those that move in a circle are suspended and started by one plan. A job whose CPUs or memory
    are not free yet waits for all that leave the server.
    """
    held: dict[NodeName, list[tuple[int, JobId]]] = {}
    for job_id in moves:
        for share in view.jobs[job_id].allocation.shares:
            held.setdefault(share.node, []).append((share.gpu_mask, job_id))
    before = {
        job_id: {
            other
            for share in move.allocation.shares
            for mask, other in held.get(share.node, ())
            if other != job_id and (mask & share.gpu_mask or _is_short(share, view))
        }
        for job_id, move in moves.items()
    }
    followers: dict[JobId, list[JobId]] = {}
    for job_id, others in before.items():
        for other in others:
            followers.setdefault(other, []).append(job_id)
    missing = {job_id: len(others) for job_id, others in before.items()}
    order = {job_id: number for number, job_id in enumerate(moves)}
    straight: list[Change] = []
    pending = dict(moves)
    free = [job_id for job_id in moves if not missing[job_id]]
    while free:
        straight += [pending.pop(job_id) for job_id in free]
        freed = [follower for job_id in free for follower in followers.get(job_id, ())]
        for follower in freed:
            missing[follower] -= 1
        found = {follower for follower in freed if not missing[follower]}
        free = sorted(found, key=order.__getitem__)
    circles: list[Change] = [Suspend(job_id, move.because) for job_id, move in pending.items()]
    starts = [Start(job_id, move.allocation, move.because) for job_id, move in pending.items()]
    return circles, [*straight, *starts]


def _is_short(share: Share, view: View) -> bool:
    """Say whether a server has not the CPUs or memory of a share free now."""
    if share.beside.are_gpus_alone:
        return False
    return not share.beside.fit_beside(view.cluster.servers[share.node].beside_free)
