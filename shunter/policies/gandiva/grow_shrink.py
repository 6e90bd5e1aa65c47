"""Grow-shrink of elastic jobs (Gandiva, OSDI 2018, 3.2): into idle GPUs, and back at once.

While nobody waits or takes turns, a job grows into the GPUs of its server that have been idle for
`grow_after`, one job a server at a time, the smallest first. When a job finds no GPUs of its own,
others shrink for it at once, those of the server on which the fewest have to: to what they were
submitted with. If these are not enough it starts smaller, where it is elastic; and if they are too
few even for that, others shrink to their fewest. Where they cannot at that moment, since they just
start or a guard keeps them, the job takes turns; they shrink for it once they can. Who shrinks or
grows leaves at a mini-batch boundary and goes on from its checkpoint.

Deviation: the paper has jobs that can grow and shrink ask for sizes of their own choice; here they
name bounds, and may be started smaller too where they are elastic and not all of their gang fits.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import Any

from shunter.core import (
    RUNNING,
    Change,
    Job,
    Observer,
    Observers,
    Rehome,
    Resize,
    Server,
    View,
    both,
)
from shunter.core.planning import Draft, pick_gpus
from shunter.events import (
    BY_POLICY,
    GROWS,
    JOB_ENDS,
    SHRINKS,
    STARTS_SMALLER,
    Allocation,
    Because,
    JobId,
    NodeName,
    Share,
    Sharing,
    facts,
)
from shunter.policies.gandiva.affinity import FoundPlace, Placer

# Idle GPUs, which jobs may grow into (Gandiva, OSDI 2018, 3.2).


@dataclass
class IdleServers:
    """Which GPUs of each server are free, since when, and who may take them.

    `looked_us` is the instant of the last plan, `guarded_us` when the first guard ends that keeps
    an elastic job at its size; None: no guard does.
    """

    free: dict[NodeName, int] = field(default_factory=dict)
    since_us: dict[NodeName, int] = field(default_factory=dict)
    elastic: dict[JobId, None] = field(default_factory=dict)
    looked_us: int = -1
    guarded_us: int | None = None

    def begin(self, view: View) -> None:
        """Take what is free as free from now on."""
        self.elastic = {name: None for name, job in view.jobs.items() if _is_elastic(job)}
        self.note(view)

    def note(self, view: View) -> None:
        """Note which guards hold, and what is free now: since now, where that is new."""
        self.guarded_us = _first_end(view, self.elastic)
        for pool in view.pools.values():
            for server in pool.servers:
                self._note(server.name, pool.free[server.position], view.now_us)

    def beside(self, others: Observers, touched: Observer) -> Observers:
        """Return other observers with its own: they follow what is given to jobs.

        `touched` is told what may lead to another plan: elastic jobs that can shrink from now on.
        """

        def given(event: facts.AllocationChanged | facts.JobReshaped, view: View) -> None:
            job = view.jobs[event.job_id]
            for share in (*job.held.shares, *event.allocation.shares):
                server = view.cluster.servers[share.node]
                if share.gpu_mask and server.is_up:
                    pool = view.pools[server.configuration.gpu_type]
                    self._note(share.node, pool.free[server.position], event.at_us)

        def submitted(event: facts.JobSubmitted, view: View) -> None:
            if _is_elastic(view.jobs[event.job_id]):
                self.elastic[event.job_id] = None

        def ended(event: Any, view: View) -> None:
            self.elastic.pop(event.job_id, None)

        def started(event: facts.AttemptStarted, view: View) -> None:
            if event.job_id in self.elastic:
                touched(event, view)

        def resized(event: facts.JobResized, view: View) -> None:
            if event.by != BY_POLICY:
                touched(event, view)

        own: dict[Any, Any] = {
            **dict.fromkeys(JOB_ENDS, ended),
            **dict.fromkeys((facts.AllocationChanged, facts.JobReshaped), given),
            facts.JobSubmitted: submitted,
            facts.AttemptStarted: started,
        }
        return {**both(others, own), facts.JobResized: resized}

    def wake_at(self, after_us: int) -> int | None:
        """Return when GPUs have been idle for long enough, or a guard ends.

        None: never. What an instant brings is not lost where a guard keeps jobs from it: they are
        looked at again as it ends.
        """
        if not self.elastic:
            return None
        due = [self.since_us[node] + after_us for node, mask in self.free.items() if mask]
        if self.guarded_us is not None:
            due.append(self.guarded_us)
        return min((at_us for at_us in due if at_us > self.looked_us), default=None)

    def _note(self, node: NodeName, mask: int, at_us: int) -> None:
        if self.free.get(node) != mask:
            self.free[node], self.since_us[node] = mask, at_us


def _first_end(view: View, jobs: Iterable[JobId]) -> int | None:
    """Return when the first guard ends that keeps one of these jobs where it is."""
    guards, now_us = view.guards, view.now_us
    ends = [
        guards.changes_at(job, now_us)
        for job in (view.jobs[name] for name in jobs)
        if guards.pinned_by(job, now_us)
    ]
    return min((end_us for end_us in ends if end_us is not None), default=None)


def _is_elastic(job: Job) -> bool:
    return job.submitted_spec.is_elastic


@dataclass(frozen=True)
class Resizing:
    """What is resized for a job, and where it goes then.

    `is_started` says that it is resized itself, and starts so.
    """

    changes: tuple[Resize, ...] = ()
    choice: FoundPlace | None = None
    is_started: bool = False


NO_RESIZING = Resizing()

_SETS_MOST = 64
"""Sets of jobs that are tried for one that takes turns: of six that can shrink, all."""


class PlannedSizes:
    """The sizes of one plan, in a draft and the books of a placer.

    Args:
        view: the cluster and the jobs.
        draft: what is given away up to now.
        placer: finds places in it.
        idle: since when GPUs are free.
        after_us: how long GPUs are idle before jobs grow into them.
        changed: the jobs that the plan has changed already.
    """

    def __init__(
        self,
        view: View,
        draft: Draft,
        placer: Placer,
        idle: IdleServers,
        after_us: int,
        changed: set[JobId],
    ) -> None:
        self._view, self._draft, self._placer = view, draft, placer
        self._idle, self._after_us = idle, after_us
        self._changed = changed
        self._tried = {
            name for first, trial in view.trials.items() for name in (first, *trial.partners)
        }
        self._there: dict[NodeName, list[Job]] = {}
        for name in idle.elastic:
            job = view.jobs[name]
            if self._may_change(job):
                self._there.setdefault(job.allocation.shares[0].node, []).append(job)

    def make_room(self, job: Job) -> Resizing:
        """Let others shrink for a job that finds no GPUs of its own, or start it smaller."""
        gang, left = job.spec.gpus, self._draft.quota_left(job.spec.queue)
        most = gang if left is None else min(gang, left)
        if not gang or (most == gang and self._placer.free_for(job) >= gang):
            return NO_RESIZING
        fewest = min(gang, job.submitted_spec.sizes[0])
        for floor in (_as_submitted, _at_fewest):
            for least in dict.fromkeys((gang, fewest)):
                room = NO_RESIZING if most < least else self._room(job, floor, least, most)
                if room is not NO_RESIZING:
                    return room
        return NO_RESIZING

    def apart(self) -> Iterator[Change]:
        """Yield who shrinks for jobs that take turns, and who of those moves then.

        To other GPUs of its server. The last submitted first, as where others left their GPUs
        by themselves.
        """
        if not self._there or not self._placer.takes_turns:
            return
        for job in sorted(self._view.jobs.values(), key=lambda job: -job.ordinal):
            if self._may_be_apart(job):
                rehomed = next(iter(self._placer.rehomed((job,))), None)
                if rehomed is not None:
                    yield self._rehomed(*rehomed)
                else:
                    yield from self._shrunk_for(job)

    def grown(self) -> Iterator[Resize]:
        """Yield which jobs grow into GPUs that were idle for long enough."""
        if self._placer.takes_turns:
            return
        for server in self._placer.servers.values():
            since_us = self._idle.since_us.get(server.name)
            if since_us is None or self._view.now_us < since_us + self._after_us:
                continue
            jobs = self._there.get(server.name, ())
            for job in sorted(jobs, key=lambda job: (job.allocation.gpus, job.ordinal)):
                grown = self._grown(job, server)
                if grown is not None:
                    yield grown
                    break

    def _grown(self, job: Job, server: Server) -> Resize | None:
        """Let a job have as many more GPUs of its server as are free and it takes."""
        before, (_, most) = job.allocation.gpus, job.submitted_spec.sizes
        free = self._placer.free_on(server.name)
        left = self._draft.quota_left(job.spec.queue)
        more = min(most - before, free, free if left is None else left)
        if job.job_id in self._changed:
            return None
        for gpus in range(before + more, before, -1):
            target = self._resized(job, server, gpus)
            if target is not None:
                return self._done(job, target, Because(GROWS, (before, gpus)))
        return None

    def _room(self, job: Job, floor: Callable[[Job], int], least: int, most: int) -> Resizing:
        """Start a job with as many GPUs as others leave it by shrinking.

        Args:
            job: who finds too few.
            floor: to how many GPUs a job shrinks at most.
            least: with how many the job may start.
            most: with how many it starts at most.
        """
        found = []
        for server in self._placer.fitting(job):
            takes, free = self._takes(server, floor, most)
            if min(free, most) >= least:
                found.append((-min(free, most), len(takes), server.position, server, takes))
        for smallest, _, _, server, takes in sorted(found, key=lambda one: one[:3]):
            mark = self._draft.mark
            targets = [self._resized(other, server, floor(other)) for other in takes]
            room = None if None in targets else self._started(job, server, -smallest)
            if room is None:
                self._draft.rollback(mark)
                continue
            shrunk = tuple(
                self._done(
                    other,
                    target,
                    Because(SHRINKS, (other.allocation.gpus, target.gpus), (job.job_id,)),
                )
                for other, target in zip(takes, targets, strict=True)
                if target is not None
            )
            return Resizing((*shrunk, *room.changes), room.choice, room.is_started)
        return NO_RESIZING

    def _takes(
        self, server: Server, floor: Callable[[Job], int], wanted: int
    ) -> tuple[list[Job], int]:
        """Return who shrinks on a server for so many GPUs, and how many are free then."""
        free, takes = self._placer.free_on(server.name), list[Job]()
        for job in self._shrinking(server.name, floor):
            if free < wanted and self._placer.is_alone(job):
                free += job.allocation.gpus - floor(job)
                takes.append(job)
        return takes, free

    def _shrinking(self, node: NodeName, floor: Callable[[Job], int]) -> list[Job]:
        """Return who can shrink on a server, first who gives most, then who came last."""
        return sorted(
            (
                job
                for job in self._there.get(node, ())
                if floor(job) < job.allocation.gpus and job.job_id not in self._changed
            ),
            key=lambda job: (floor(job) - job.allocation.gpus, -job.ordinal),
        )

    def _may_be_apart(self, job: Job) -> bool:
        """Say whether a job takes turns with others, and is not tried or packed with any."""
        if job.end_cause or job.packed_with or job.job_id in self._tried | self._changed:
            return False
        is_sliced = job.allocation.sharing is Sharing.sliced and len(job.allocation.shares) == 1
        return is_sliced and not self._placer.is_alone(job)

    def _shrunk_for(self, job: Job) -> Iterator[Change]:
        """Yield as few that shrink as give a job its own GPUs; it may be one of them."""
        (share,) = job.allocation.shares
        server = self._placer.servers.get(share.node)
        if server is None:
            return
        for floor in (_as_submitted, _at_fewest):
            takes = self._shrinking(share.node, floor)
            sets = (some for n, _ in enumerate(takes, 1) for some in combinations(takes, n))
            for some in islice(sets, _SETS_MOST):
                sizes = {job.job_id: (job, job.allocation.gpus)}
                sizes |= {other.job_id: (other, floor(other)) for other in some}
                targets = self._separated(server, list(sizes.values()))
                if targets:
                    yield from self._set_apart(job, targets)
                    return

    def _separated(
        self, server: Server, sizes: Sequence[tuple[Job, int]]
    ) -> list[tuple[Job, Allocation]]:
        """Give jobs so many GPUs each that nobody else has, in the draft; none: too few."""
        draft, mark = self._draft, self._draft.mark
        for job, _ in sizes:
            draft.free(job)
        found = list[tuple[Job, Allocation]]()
        for job, gpus in sizes:
            is_as_large = gpus == job.allocation.gpus
            target = self._kept(job, server) if is_as_large else self._given(job, server, gpus)
            if target is None:
                draft.rollback(mark)
                return []
            found.append((job, target))
        return found

    def _set_apart(self, job: Job, targets: Sequence[tuple[Job, Allocation]]) -> Iterator[Change]:
        """Yield the changes that give a job GPUs of its own: who shrinks, then itself."""
        for other, target in targets:
            gpus = other.allocation.gpus
            if target.gpus < gpus:
                whom = (job.job_id,) if other is not job else self._view.partners(job)
                yield self._done(other, target, Because(SHRINKS, (gpus, target.gpus), whom))
        for one, target in targets:
            if one is job and target.gpus == job.allocation.gpus and target != job.allocation:
                self._placer.moved(job, target)
                yield self._rehomed(job, target)

    def _kept(self, job: Job, server: Server) -> Allocation | None:
        """Give a job its GPUs, or, where others have some, as many more of its server.

        In the draft, in which it has none; None: it cannot have them without an interruption.
        """
        (share,), free = job.allocation.shares, self._free_of(server)
        if share.gpu_mask & ~free:
            if not self._view.can_rehome(job) or free.bit_count() < share.gpus:
                return None
            share = replace(share, gpu_mask=pick_gpus(server.configuration, free, share.gpus))
        target = Allocation((share,), Sharing.sliced)
        self._draft.allocate(job, target)
        return target

    def _rehomed(self, job: Job, target: Allocation) -> Rehome:
        self._changed.add(job.job_id)
        return Rehome(job.job_id, target, Because("lower_height"))

    def _started(self, job: Job, server: Server, gpus: int) -> Resizing | None:
        """Start a job on a server with so many GPUs; None: it has none that will do."""
        if gpus == job.spec.gpus:
            choice = self._placer.place_on(job, server)
            return None if choice is None else Resizing((), choice)
        target = self._resized(job, server, gpus)
        if target is None:
            return None
        because = Because(STARTS_SMALLER, (job.spec.gpus, gpus))
        return Resizing((self._done(job, target, because),), is_started=True)

    def _resized(self, job: Job, server: Server, gpus: int) -> Allocation | None:
        """Take so many GPUs of a server for a job, in the draft; None: there are too few.

        Those it has count as free. They are all of GPUs that nobody else has.
        """
        mark = self._draft.mark
        if job.allocation.shares:
            self._draft.free(job)
        target = self._given(job, server, gpus)
        if target is None:
            self._draft.rollback(mark)
        return target

    def _given(self, job: Job, server: Server, gpus: int) -> Allocation | None:
        """Do so for a job that has none in the draft; of too few it gets none."""
        spec = job.submitted_spec.resized(gpus)
        free = self._free_of(server)
        if gpus and free.bit_count() >= gpus:
            mask = pick_gpus(server.configuration, free, gpus, job.demand.max_level)
            share = Share(server.name, mask, spec.cpus_milli, spec.memory_mb)
            if mask and self._draft.has_beside(share):
                target = Allocation((share,), Sharing.sliced)
                self._draft.allocate(job, target)
                return target
        return None

    def _free_of(self, server: Server) -> int:
        pool = self._draft.pools[server.configuration.gpu_type]
        return pool.free[server.position]

    def _done(self, job: Job, target: Allocation, because: Because) -> Resize:
        self._changed.add(job.job_id)
        self._placer.moved(job, target)
        return Resize(job.job_id, target, because)

    def _may_change(self, job: Job) -> bool:
        """Say whether a job can be resized now: it works on one server, in no pack.

        Not while something is tried with it: what that measures is of the size it has.
        """
        if job.phase is not RUNNING or job.end_cause or len(job.allocation.shares) != 1:
            return False
        if job.packed_with or job.job_id in self._tried:
            return False
        return self._view.guards.pinned_by(job, self._view.now_us) is None


def _as_submitted(job: Job) -> int:
    return min(job.allocation.gpus, job.submitted_spec.gpus)


def _at_fewest(job: Job) -> int:
    return job.submitted_spec.sizes[0]
