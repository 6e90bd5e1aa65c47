"""Gandiva's reactive mode with time-slicing (OSDI 2018, 3.2): placed by affinity, shared in turns.

Jobs run from their arrival on as long as anything of their size can be shared, so early feedback
comes early; nobody is preempted. Turns are the servers' own (`policy.slicing`); the policy decides
who shares which server.
"""

from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from shunter.core.interfaces import Observers, Rng
from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.planning.plan import Change, Plan, Rehome, Start
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts.cluster import CLUSTER_CHANGES, QuotaChanged
from shunter.events.facts.decisions import AllocationChanged, PlanRejected, RoundPlanned
from shunter.events.facts.execution import AttemptLost, GpusReleased, LaunchFailed
from shunter.events.facts.jobs import (
    JOB_ENDS,
    JobCancelRequested,
    JobHeld,
    JobReleased,
    JobSubmitted,
)
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.reasons import Because, Reason, Wait
from shunter.policies.gandiva.affinity import Placer
from shunter.policies.params import PolicyParams

RULES = {1: "own_affinity", 2: "new_affinity", 3: "any_free", 4: "in_turns"}
"""What decided where a job goes, by the number of the rule of reactive placement."""

_TOUCHING = (
    *(JobSubmitted, JobHeld, JobReleased, JobCancelRequested, QuotaChanged),
    *(GpusReleased, LaunchFailed, AttemptLost, PlanRejected),
)


class PlacingParams(PolicyParams):
    """What may be set of it."""

    height_most: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="how many times its own GPUs the jobs of a server may ask for; no limit if "
        "left out",
    )


@dataclass
class Memory:
    """The affinity of servers: the gang size of the first job that came to each.

    It is `stale` if anything has happened since the last plan that another could answer.
    """

    affinity: dict[NodeName, int] = field(default_factory=dict)
    stale: bool = True


class GandivaPolicy:
    """Places jobs as they arrive; each decision says by which rule, and the load."""

    name, version, oracle = "gandiva", "1", False
    needs_slicing = True
    takes_notes = True  # the affinity of a server hangs on who came to it first

    def __init__(self, params: PlacingParams, placement: Placement) -> None:
        self._params, self._placement = params, placement

    def start(self, view: View) -> Memory:
        """Return the affinities of a cluster as it is: of the first job on each server."""
        memory = Memory()
        for job in view.jobs.values():
            _label(memory, job)
        return memory

    def observers(self, memory: Memory) -> Observers:
        """Follow which servers have jobs, and whether anybody could be placed anew."""

        def given(event: AllocationChanged, view: View) -> None:
            _label(memory, view.jobs[event.job_id])

        def touched(event: Any, view: View) -> None:
            memory.stale = True

        def planned(event: RoundPlanned, view: View) -> None:
            memory.stale = False

        kinds: tuple[type, ...] = (*_TOUCHING, *CLUSTER_CHANGES, *JOB_ENDS)
        told: dict[Any, Any] = dict.fromkeys(kinds, touched)
        return {**told, AllocationChanged: given, RoundPlanned: planned}

    def advance(self, memory: Memory, view: View) -> None:
        """Forget the affinity of servers that are empty."""
        if not memory.stale:
            return
        used = {share.node for job in view.jobs.values() for share in job.allocation.shares}
        memory.affinity = {node: gang for node, gang in memory.affinity.items() if node in used}

    def target(self, memory: Memory, view: View) -> None:
        """There are no shares to solve for."""

    def wake_at(self, memory: Memory) -> int | None:
        """Nothing changes with time alone."""
        return None

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
            for job in waiting:
                start = self._start(job, draft, placer)
                if isinstance(start, Start):
                    changes.append(start)
                elif view.all_reasons or job.wait is None or job.wait.reason is not start.reason:
                    waits.append((job.job_id, start))
        return Plan(tuple(changes), job_waits=tuple(waits))

    def _start(self, job: Job, draft: Draft, placer: Placer) -> Start | Wait:
        gpus = job.spec.gpus
        if not gpus:
            shares = draft.place_without_gpus(self._placement, job.demand)
            if isinstance(shares, Reason):
                return Wait(shares)
            return Start(job.job_id, Allocation(shares), Because("room"))
        left = draft.quota_left(job.spec.queue)
        if left is not None and left < gpus:
            return Wait(Reason.quota, gpus, max(0, left))
        choice = placer.place(job)
        if isinstance(choice, Reason):
            return Wait(choice, gpus, placer.free_for(job))
        because = Because(RULES[choice.rule], (choice.height,))
        return Start(job.job_id, choice.allocation, because)


def _label(memory: Memory, job: Job) -> None:
    for share in job.allocation.shares:
        if share.gpu_mask:
            memory.affinity.setdefault(share.node, job.spec.gpus)


class Gandiva:
    """Reactive placement by affinity, with time-slicing (OSDI 2018)."""

    name = "gandiva"
    oracle = False
    Params = PlacingParams

    @staticmethod
    def build(params: PlacingParams, placement: Placement) -> GandivaPolicy:
        """Return the policy."""
        return GandivaPolicy(params, placement)
