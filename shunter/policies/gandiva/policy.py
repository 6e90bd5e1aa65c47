"""Gandiva's reactive mode with time-slicing (OSDI 2018, 3.2): placed by affinity, shared in turns.

Jobs run from their arrival on as long as anything of their size can be shared, so early feedback
comes early; nobody is preempted. Turns are the servers' own (`policy.slicing`); the policy decides
who shares which server.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shunter.core.interfaces import Observers, Rng
from shunter.core.plan import Change, Judge, Plan, Rehome, Start, Try
from shunter.core.planning.draft import Draft
from shunter.core.planning.placement import Placement
from shunter.core.ranking import Measure
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts.cluster import CLUSTER_CHANGES, QuotaChanged
from shunter.events.facts.decisions import (
    AllocationChanged,
    JobReshaped,
    PlanRejected,
    RoundPlanned,
    TrialKept,
    TrialReverted,
    TrialStarted,
)
from shunter.events.facts.execution import (
    AttemptLost,
    AttemptStarted,
    GpusReleased,
    LaunchFailed,
    SpeedChanged,
    TurnStarted,
)
from shunter.events.facts.jobs import (
    JOB_ENDS,
    JobCancelRequested,
    JobHeld,
    JobReleased,
    JobResized,
    JobSubmitted,
)
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import GpuType, JobId, NodeName
from shunter.events.values.reasons import Because, Reason, Wait
from shunter.policies.gandiva.affinity import Choice, Placer
from shunter.policies.gandiva.grow_shrink import NO_ROOM, IdleServers, PlannedSizes
from shunter.policies.gandiva.packing import PlacingParams

RULES = {1: "own_affinity", 2: "new_affinity", 3: "any_free", 4: "in_turns"}
"""What decided where a job goes, by the number of the rule of reactive placement."""

_TOUCHING = (
    *(JobSubmitted, JobHeld, JobReleased, JobCancelRequested, QuotaChanged),
    *(GpusReleased, LaunchFailed, AttemptLost, PlanRejected),
)


@dataclass
class Memory:
    """The affinity of servers: the gang size of the first job that came to each.

    It is `stale` if anything has happened since the last plan that another could answer; what is
    tried can be judged at `wake_us`.
    """

    affinity: dict[NodeName, int] = field(default_factory=dict)
    stale: bool = True
    wake_us: int | None = None
    idle: IdleServers = field(default_factory=IdleServers)


class GandivaPolicy:
    """Places jobs as they arrive; each decision says by which rule, and the load."""

    name, version, oracle = "gandiva", "1", False
    needs_slicing = True
    measures = (Measure.load,)
    takes_notes = True  # the affinity of a server hangs on who came to it first

    def __init__(self, params: PlacingParams, placement: Placement) -> None:
        self._params, self._placement = params, placement
        self._packing = None if params.packing is None else params.packing.packing()
        self._migrations = None if params.migration is None else params.migration.migrations()

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Raise a ConfigError if a GPU type is named that no server has."""
        self._params.check_types(types)

    def start(self, view: View) -> Memory:
        """Return the affinities of a cluster as it is: of the first job on each server."""
        memory = Memory()
        for job in view.jobs.values():
            _label(memory, job)
        if self._params.grow_after is not None:
            memory.idle.begin(view)
        return memory

    def observers(self, memory: Memory) -> Observers:
        """Follow which servers have jobs, and whether anybody could be placed anew."""

        def given(event: AllocationChanged, view: View) -> None:
            _label(memory, view.jobs[event.job_id])

        def touched(event: Any, view: View) -> None:
            memory.stale = True

        def planned(event: RoundPlanned, view: View) -> None:
            memory.stale, memory.idle.looked_us = False, event.at_us

        def turned(event: TurnStarted, view: View) -> None:
            if event.can_move and any(_has_free(view, share.node) for share in event.shares):
                memory.stale = True

        kinds: tuple[type, ...] = (*_TOUCHING, *CLUSTER_CHANGES, *JOB_ENDS)
        told: dict[Any, Any] = dict.fromkeys(kinds, touched)
        told |= {AllocationChanged: given, RoundPlanned: planned, TurnStarted: turned}
        if self._packing is not None or self._migrations is not None:
            told |= self._trial_observers(memory)
        if self._params.grow_after is None:
            return {**told, JobResized: touched}
        return memory.idle.beside(told, touched)

    def _trial_observers(self, memory: Memory) -> Observers:
        """Follow what is tried, and who makes no progress beside others."""

        def touched(event: Any, view: View) -> None:
            memory.stale = True

        def slowed(event: SpeedChanged, view: View) -> None:
            memory.stale |= not event.speed and bool(view.jobs[event.job_id].packed_with)

        kinds: tuple[type, ...] = (
            *(TrialStarted, TrialKept, TrialReverted),
            *(AttemptStarted, JobReshaped),  # packs come once nothing else changes
        )
        return {**dict.fromkeys(kinds, touched), SpeedChanged: slowed}

    def advance(self, memory: Memory, view: View) -> None:
        """Forget the affinity of servers that are empty; see when trials can be judged."""
        triers = [one for one in (self._packing, self._migrations) if one is not None]
        wakes_us = [at_us for one in triers if (at_us := one.next_us(view)) is not None]
        memory.wake_us = min(wakes_us, default=None)
        if self._params.grow_after is not None:
            memory.idle.note(view)
        if not memory.stale:
            return
        used = {share.node for job in view.jobs.values() for share in job.allocation.shares}
        memory.affinity = {node: gang for node, gang in memory.affinity.items() if node in used}

    def target(self, memory: Memory, view: View) -> None:
        """There are no shares to solve for."""

    def wake_at(self, memory: Memory) -> int | None:
        """Return when something tried can be judged, or GPUs are idle for long enough."""
        after_us = self._params.grow_after
        idle_us = None if after_us is None else memory.idle.wake_at(after_us)
        return min(
            (at_us for at_us in (memory.wake_us, idle_us) if at_us is not None), default=None
        )

    def settled(self, memory: Memory) -> bool:
        """Say whether nothing has happened since the last plan."""
        return not memory.stale

    def plan(self, memory: Memory, view: View, rng: Rng) -> Plan:
        """Let jobs spread over GPUs that became free; place who waits, by submission."""
        waiting = [job for job in view.jobs.values() if job.is_eligible]
        changes, waits = list[Change](), list[tuple[JobId, Wait]]()
        with Draft(view) as draft:
            placer = Placer(view, draft, memory.affinity, self._params.height_most)
            changes += [
                Rehome(job.job_id, allocation, Because("lower_height"))
                for job, allocation in placer.rehomed(view.jobs.values())
            ]
            changed = {change.job_id for change in changes}
            after_us, is_left = self._params.grow_after, False
            sizes = PlannedSizes(view, draft, placer, memory.idle, after_us or 0, changed)
            if after_us is not None:
                changes += sizes.apart()
            for job in waiting:
                room = NO_ROOM if after_us is None else sizes.make_room(job)
                changes += room.changes
                if room.is_started:
                    continue
                start = self._start(job, draft, placer, room.choice)
                is_left |= isinstance(start, Wait)
                if isinstance(start, Start):
                    changes.append(start)
                elif view.all_reasons or _is_another(start, job.wait):
                    waits.append((job.job_id, start))
            trials = list[Try | Judge]()
            if self._migrations is not None:
                taken = frozenset(change.job_id for change in changes)
                moves, trials = self._migrations.steps(view, placer, taken)
                changes += moves
                changed |= {move.job_id for move in moves}
            if after_us is not None and not is_left:
                changes += sizes.grown()
        if self._packing is not None and not changes:
            trials += self._packing.steps(view)
        return Plan(tuple(changes), job_waits=tuple(waits), trials=tuple(trials))

    def _start(self, job: Job, draft: Draft, placer: Placer, found: Choice | None) -> Start | Wait:
        gpus = job.spec.gpus
        if not gpus:
            shares = draft.place_without_gpus(self._placement, job.demand)
            if isinstance(shares, Reason):
                return Wait(shares)
            return Start(job.job_id, Allocation(shares), Because("room"))
        left = draft.quota_left(job.spec.queue)
        if found is None and left is not None and left < gpus:
            return Wait(Reason.quota, gpus, max(0, left))
        choice = placer.place(job) if found is None else found
        if isinstance(choice, Reason):
            is_smaller = choice is Reason.no_capacity and self._params.grow_after is not None
            fewest = min(gpus, job.submitted_spec.sizes[0]) if is_smaller else gpus
            return Wait(choice, fewest, placer.free_for(job), detail=placer.detail)
        because = Because(RULES[choice.rule], (choice.height,))
        return Start(job.job_id, choice.allocation, because)


def _is_another(wait: Wait, told: Wait | None) -> bool:
    return told is None or (told.reason, told.detail) != (wait.reason, wait.detail)


def _has_free(view: View, node: NodeName) -> bool:
    """Say whether a server has GPUs that nobody was given."""
    server = view.cluster.servers[node]
    return bool(view.pools[server.configuration.gpu_type].free[server.position])


def _label(memory: Memory, job: Job) -> None:
    for share in job.allocation.shares:
        if share.gpu_mask:
            memory.affinity.setdefault(share.node, job.submitted_spec.gpus)


class Gandiva:
    """Reactive placement by affinity, with time-slicing (OSDI 2018)."""

    name = "gandiva"
    oracle = False
    Params = PlacingParams

    @staticmethod
    def build(params: PlacingParams, placement: Placement) -> GandivaPolicy:
        """Return the policy."""
        return GandivaPolicy(params, placement)
