"""What is done to a policy's plan after the policy, where that is configured.

    policy ──▶ plan ──▶ moves that make room for gangs ──▶ proposals of job schedulers ──▶ approver

A policy has `PlanExtensions` and hands them each plan; it names no feature. They keep two fields of
its memory up to date (`ExtendedMemory`), and say when it is to be asked again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self, runtime_checkable

from shunter.core.interfaces import AnyPolicy, Observers, Rng, both
from shunter.core.plan import Plan
from shunter.core.planning.draft import Needs
from shunter.core.planning.placement import Placement
from shunter.core.planning.proposals import (
    Decentralised,
    ProposalMemory,
    decentralised_plan,
    proposal_observers,
)
from shunter.core.recorded_words import ROOM_MADE
from shunter.core.state import Job, sooner
from shunter.core.view import View
from shunter.events import JOB_ENDS, JobId, Reason, facts

HELD_BACK: Final = frozenset(
    (
        Reason.fragmented,
        Reason.locality_not_met,
        Reason.cpu_or_memory_short,
        Reason.split_kept,
    )
)
"""Why jobs wait for which enough GPUs are free, in a place that will not do."""


# Whether moves for a gang pay changes with time alone, so while a gang waits so though enough GPUs
# are free, the policy is asked again now and then.


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

    def planned(event: facts.RoundPlanned, view: View) -> None:
        memory.note(view, event.at_us, every_us)

    def waits(event: facts.WaitReasonChanged, view: View) -> None:
        if event.wait.reason not in HELD_BACK:
            memory.held.pop(event.job_id, None)
            return
        memory.held[event.job_id] = None
        if memory.looks_us is None:
            memory.note(view, event.at_us, every_us)

    def allocated(event: facts.AllocationChanged, view: View) -> None:
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
        facts.RoundPlanned: planned,
        facts.WaitReasonChanged: waits,
        facts.AllocationChanged: allocated,
    }


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


# All that may follow a policy's plan.


class ExtendedMemory(Protocol):
    """The part of a policy's memory that is kept here; None: there is no such part.

    `places` is what a maker of room goes by, `proposals` what job schedulers remember.
    """

    places: RoomMemory | None
    proposals: ProposalMemory | None


@dataclass(frozen=True)
class PlanExtensions:
    """A maker of room and a scheme of proposals, where there are any."""

    room: RoomMaker | None = None
    scheme: Decentralised | None = None

    def start(self, memory: ExtendedMemory, view: View) -> None:
        """Put into a policy's new memory what is kept here, for a cluster as it is."""
        if self.room is not None:
            memory.places = RoomMemory.of(view, self.room.every_us)
        if self.scheme is not None:
            memory.proposals = ProposalMemory.of(self.scheme, view)

    def observers(self, own: Observers, memory: ExtendedMemory) -> Observers:
        """Return a policy's own observers with those that keep the memory up to date."""
        if self.room is not None and memory.places is not None:
            own = both(own, room_observers(memory.places, self.room.every_us))
        if self.scheme is not None and memory.proposals is not None:
            own = both(own, proposal_observers(memory.proposals, self.scheme))
        return own

    def with_room_made(
        self,
        plan: Plan,
        memory: ExtendedMemory,
        view: View,
        placement: Placement,
        gangs: Iterable[Job] | None = None,
        needs: Needs | None = None,
    ) -> Plan:
        """Return a plan with the moves that make room for gangs.

        Args:
            plan: what the policy wants.
            memory: that of the policy.
            view: the cluster and the jobs.
            placement: where gangs go.
            gangs: who waits for a place alone, the first one first; None: as the plan says.
            needs: what jobs must find; None: what they ask for.
        """
        if self.room is None or memory.places is None:
            return plan
        waiting = held_jobs(plan, view, memory.places) if gangs is None else gangs
        return self.room.after(plan, view, placement, waiting, needs)

    def proposed(
        self,
        plan: Plan,
        memory: ExtendedMemory,
        view: View,
        placement: Placement,
        rng: Rng,
        needs: Needs | None = None,
    ) -> Plan:
        """Return a plan in which job schedulers propose what it would start."""
        if self.scheme is None or memory.proposals is None:
            return plan
        return decentralised_plan(plan, self.scheme, memory.proposals, view, placement, rng, needs)

    @staticmethod
    def wakes_us(own_us: int | None, memory: ExtendedMemory) -> int | None:
        """Return when to ask: by the policy, to look for room, or to propose."""
        if memory.places is not None:
            own_us = sooner(own_us, memory.places.looks_us)
        return own_us if memory.proposals is None else sooner(own_us, memory.proposals.next_us())


@runtime_checkable
class CanMakeRoom(Protocol):
    """A policy that hands its plans to a maker of room."""

    def with_room(self, room: RoomMaker) -> AnyPolicy:
        """Return the policy with one."""


@runtime_checkable
class CanPropose(Protocol):
    """A policy that lets job schedulers propose what its plans start."""

    def with_scheme(self, scheme: Decentralised) -> AnyPolicy:
        """Return the policy with job schedulers that propose so."""


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A policy, made of its fields, that hands its plans to extensions."""

    extensions: PlanExtensions = field(default_factory=PlanExtensions)

    def with_room(self, room: RoomMaker) -> Self:
        """Return the policy with a maker of room."""
        return replace(self, extensions=replace(self.extensions, room=room))

    def with_scheme(self, scheme: Decentralised) -> Self:
        """Return the policy with job schedulers that propose."""
        return replace(self, extensions=replace(self.extensions, scheme=scheme))
