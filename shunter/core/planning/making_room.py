"""Room for gangs that wait though enough GPUs are free, only not near enough together.

A policy that was given a `RoomMaker` hands it each plan, with the gangs that the plan leaves
waiting so, in the policy's order. What comes back may move running jobs and start some of them.
Whether that pays changes with time alone, so the policy is asked again now and then while any
gang waits so: when, is remembered here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, runtime_checkable

from shunter.core.cluster import Health
from shunter.core.interfaces import AnyPolicy, Observers, both
from shunter.core.placement import Placement
from shunter.core.planning.draft import Needs
from shunter.core.planning.plan import Change, Move, Plan, Start, Suspend
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts import JOB_ENDS, AllocationChanged, RoundPlanned, WaitReasonChanged
from shunter.events.values import JobId, NodeName, Reason, Share, Sharing

# Moves of several jobs in one plan, in an order in which each finds its GPUs free.

_EXCLUSIVE, _UP = Sharing.exclusive, Health.up  # members are slow to look up


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
    straight: list[Change] = []
    pending = dict(moves)
    while pending:
        free = [job_id for job_id in pending if before[job_id].isdisjoint(pending)]
        if not free:
            break
        straight += [pending.pop(job_id) for job_id in free]
    circles: list[Change] = [Suspend(job_id, move.because) for job_id, move in pending.items()]
    starts = [Start(job_id, move.allocation, move.because) for job_id, move in pending.items()]
    return circles, [*straight, *starts]


def _is_short(share: Share, view: View) -> bool:
    """Say whether a server has not the CPUs or memory of a share free now."""
    if share.beside.are_gpus_alone:
        return False
    return not share.beside.fit_beside(view.cluster.servers[share.node].beside_free)


MAKE_ROOM: Final = "make_room"
"""The rule of a move that makes room; its beneficiary is the gang."""

ROOM_MADE: Final = "room_made"
"""The rule of the start of a gang for which others were moved."""

MAKES_ROOM: Final = "makes_room"
"""The rule by which a job leaves whose very place is needed; elsewhere there may be one for it."""

HELD_BACK: Final = frozenset(
    (
        Reason.fragmented,
        Reason.locality_not_met,
        Reason.cpu_or_memory_short,
        Reason.split_kept,
    )
)
"""Why jobs wait for which enough GPUs are free, in a place that will not do."""


class RoomMaker(Protocol):
    """Moves running jobs where that makes room for a gang, and pays."""

    @property
    def every_us(self) -> int:
        """How long after a plan to look again while gangs wait."""

    def after(
        self,
        plan: Plan,
        view: View,
        placement: Placement,
        gangs: Iterable[Job],
        needs: Needs | None = None,
    ) -> Plan:
        """Return a plan with the moves that pay, and the starts that they make possible.

        Args:
            plan: what the policy wants.
            view: the cluster and the jobs.
            placement: where gangs go.
            gangs: who waits after the plan for one of `HELD_BACK`, the first one first.
            needs: what jobs must find; None: gangs what they ask for, and movers what they have.
        """


@runtime_checkable
class CanMakeRoom(Protocol):
    """A policy that hands its plans to a maker of room."""

    def with_room(self, room: RoomMaker) -> AnyPolicy:
        """Return the policy with one."""


@dataclass(slots=True)
class RoomMemory:
    """When to look again, and which single jobs wait for a place.

    `looks_us` is None where no gang waits so, or nobody runs who could be moved; 0: at once. Jobs
    of policies with classes of equal jobs are not in `held`: the state knows the classes.
    """

    looks_us: int | None = None
    held: dict[JobId, None] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View, every_us: int) -> Self:
        """Return the memory for a cluster as it is."""
        held = [
            job.job_id
            for job in view.jobs.values()
            if job.is_eligible and job.wait is not None and job.wait.reason in HELD_BACK
        ]
        memory = cls(held=dict.fromkeys(held))
        memory.note(view, view.now_us, every_us)
        return memory

    def note(self, view: View, at_us: int, every_us: int) -> None:
        """Note when to look again after an instant."""
        waits = self.held or any(wait.reason in HELD_BACK for wait in view.class_waits.values())
        runs = waits and any(pool.gpus_free < pool.gpus_up for pool in view.pools.values())
        self.looks_us = at_us + every_us if runs else None


def room_observers(memory: RoomMemory, every_us: int) -> Observers:
    """Return what keeps the memory up to date."""

    def planned(event: RoundPlanned, view: View) -> None:
        memory.note(view, event.at_us, every_us)

    def waits(event: WaitReasonChanged, view: View) -> None:
        if event.wait.reason not in HELD_BACK:
            memory.held.pop(event.job_id, None)
            return
        memory.held[event.job_id] = None
        if memory.looks_us is None:
            memory.note(view, event.at_us, every_us)

    def allocated(event: AllocationChanged, view: View) -> None:
        if not event.allocation.shares:
            return
        memory.held.pop(event.job_id, None)
        if event.because.rule == ROOM_MADE:
            memory.looks_us = 0  # who stood behind the gang may have its turn now
        elif memory.looks_us is None:
            memory.note(view, event.at_us, every_us)

    def ended(event: Any, view: View) -> None:
        memory.held.pop(event.job_id, None)

    told: dict[Any, Any] = dict.fromkeys(JOB_ENDS, ended)
    return told | {
        RoundPlanned: planned,
        WaitReasonChanged: waits,
        AllocationChanged: allocated,
    }


def with_room_observers(
    observers: Observers, room: RoomMaker | None, memory: RoomMemory | None
) -> Observers:
    """Return the observers of a policy, with those of its maker of room."""
    if room is None or memory is None:
        return observers
    return both(observers, room_observers(memory, room.every_us))


def earliest(wakes_us: int | None, memory: RoomMemory | None) -> int | None:
    """Return when a policy is to be asked: by itself, or to make room."""
    return sooner(wakes_us, None if memory is None else memory.looks_us)


def sooner(one_us: int | None, other_us: int | None) -> int | None:
    """Return the earlier of two instants; None: never."""
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return min(one_us, other_us)


def held_jobs(plan: Plan, view: View, memory: RoomMemory) -> list[Job]:
    """Return who waits for a place alone after a plan without classes."""
    told = dict(plan.job_waits)
    changed = {change.job_id for change in plan.changes}
    found = []
    for job in view.jobs.values():
        wait = told.get(job.job_id)
        is_held = job.job_id in memory.held if wait is None else wait.reason in HELD_BACK
        if is_held and job.is_eligible and job.job_id not in changed:
            found.append(job)
    return found
