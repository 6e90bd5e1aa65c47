"""What is done with the plan of an order without classes before it is decided.

Running jobs are moved for gangs that found no place, and then job schedulers propose where gangs
go; each of the two only where it is configured.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from shunter.core.interfaces import Observers, Rng, both
from shunter.core.placement import Placement
from shunter.core.planning.making_room import (
    RoomMaker,
    RoomMemory,
    earliest,
    held_jobs,
    sooner,
    with_room_observers,
)
from shunter.core.planning.plan import Plan
from shunter.core.proposals.memory import ProposalMemory, proposal_observers
from shunter.core.proposals.schedulers import decentralised_plan
from shunter.core.proposals.scheme import Decentralised
from shunter.core.view import View
from shunter.policies.gavel.seating.placements import Gathered


class CarryingMemory(Protocol):
    """The part of a policy's memory that is kept here; None: there is no such part.

    `places` is what a maker of room goes by, `proposals` what job schedulers remember.
    """

    places: RoomMemory | None
    proposals: ProposalMemory | None


@dataclass(frozen=True)
class CarryingOut:
    """A maker of room and a scheme of proposals, where there are any."""

    room: RoomMaker | None = None
    scheme: Decentralised | None = None

    def with_room(self, room: RoomMaker) -> "CarryingOut":
        """Return it with a maker of room."""
        return replace(self, room=room)

    def with_scheme(self, scheme: Decentralised) -> "CarryingOut":
        """Return it with job schedulers that propose."""
        return replace(self, scheme=scheme)

    def start(self, memory: CarryingMemory, view: View) -> None:
        """Put into a policy's new memory what is kept here, for a cluster as it is."""
        if self.room is not None:
            memory.places = RoomMemory.of(view, self.room.every_us)
        if self.scheme is not None:
            memory.proposals = ProposalMemory.of(self.scheme, view)

    def observers(self, own: Observers, memory: CarryingMemory) -> Observers:
        """Return a policy's own observers with those that keep the memory up to date."""
        observers = with_room_observers(own, self.room, memory.places)
        if self.scheme is None or memory.proposals is None:
            return observers
        return both(observers, proposal_observers(memory.proposals, self.scheme))

    def plan(
        self, plan: Plan, memory: CarryingMemory, view: View, placement: Placement, rng: Rng
    ) -> Plan:
        """Return a plan with moves that make room, its starts proposed by job schedulers."""
        if self.room is not None and memory.places is not None:
            plan = self.room.after(plan, view, placement, held_jobs(plan, view, memory.places))
        if self.scheme is None or memory.proposals is None:
            return plan
        needs = Gathered(placement, view)
        return decentralised_plan(plan, self.scheme, memory.proposals, view, placement, rng, needs)

    @staticmethod
    def wakes_us(own_us: int | None, memory: CarryingMemory) -> int | None:
        """Return when to ask: by the policy, to look for room, or to propose."""
        wakes_us = earliest(own_us, memory.places)
        return (
            wakes_us if memory.proposals is None else sooner(wakes_us, memory.proposals.next_us())
        )
