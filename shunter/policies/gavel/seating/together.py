"""Where jobs go that share GPUs, beside those that share with nobody.

What runs in one place is a unit: a job, or two. A unit stays where one of its jobs is, if that is
on the right type and nobody who stays is there; the other one joins it. Larger gangs choose first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import GpuType, JobId, NodeName
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason
from shunter.policies.gavel.seating.choosing import Candidate, Choice
from shunter.policies.gavel.seating.placements import (
    Placements,
    demand_of,
    fill_up,
    let_stay,
    seat,
)

_PACKED = Sharing.packed


@dataclass(frozen=True, slots=True)
class Unit:
    """The jobs that are to run in one place, and on which type."""

    members: tuple[Candidate, ...]
    gpu_type: GpuType

    @property
    def gpus(self) -> int:
        """How many GPUs it takes."""
        return self.members[0].job.spec.gpus


@dataclass(frozen=True, slots=True)
class Floor:
    """The cluster once all candidates have left, and where they go from there."""

    seats: Placements
    draft: Draft
    placement: Placement
    view: View

    def keeps(self, unit: Unit) -> bool:
        """Seat a unit where one of its jobs is, if it can be there; say whether it is."""
        for member in unit.members:
            if member.on != unit.gpu_type:
                continue
            home = member.job.allocation
            together = self._on(unit, _masks(home))
            if all(self.draft.has(*shares) for shares in zip(*together, strict=True)):
                self._seat(unit, together, home.sharing)
                return True
        return False

    def finds(self, unit: Unit) -> bool:
        """Seat a unit where the placement says; say whether there is a place."""
        demands = [demand_of(member.job, self.placement, self.view) for member in unit.members]
        demand = demands[0]
        if len(demands) > 1:
            demand = replace(
                demand,
                cpus_milli=sum(each.cpus_milli for each in demands),
                memory_mb=sum(each.memory_mb for each in demands),
                tight=any(each.tight for each in demands),
            )
        found = self.draft.place(self.placement, unit.gpu_type, demand)
        if isinstance(found, Reason):
            for member in unit.members:
                self.seats.misfits[member.job.job_id] = found
            return False
        for share in found:
            self.draft.give(share)  # each job is booked with its own part
        masks = [(share.node, share.gpu_mask) for share in found]
        # Units of CPU, which nobody shares, go with more CPUs than the job asked for.
        has_units = self.draft.pools[unit.gpu_type].unit_cpus_milli
        together = [found] if has_units else self._on(unit, masks)
        self._seat(unit, together, Sharing.exclusive)
        return True

    def _on(self, unit: Unit, masks: list[tuple[NodeName, int]]) -> list[tuple[Share, ...]]:
        """Return each member's shares there: those it has already, or new ones."""
        return [
            member.job.allocation.shares
            if _masks(member.job.allocation) == masks
            else tuple(_parts(member.job.demand, masks))
            for member in unit.members
        ]

    def _seat(self, unit: Unit, together: list[tuple[Share, ...]], sharing: Sharing) -> None:
        sharing = _PACKED if len(unit.members) > 1 else sharing
        for member, shares in zip(unit.members, together, strict=True):
            for share in shares:
                self.draft.take(share)
            self.seats.places[member.job.job_id] = unit.gpu_type, Allocation(shares, sharing)


def seat_together(
    choice: Choice, candidates: Sequence[Candidate], placement: Placement, view: View
) -> Placements:
    """Return the places of all that run; `candidates` may all be moved."""
    if not choice.partners and not any(_is_packed(each.job) for each in candidates):
        return seat(choice, candidates, placement, view)
    with Draft(view) as draft:
        _leave(candidates, draft, view)
        floor = Floor(Placements(), draft, placement, view)
        new = [unit for unit in _units(choice) if not floor.keeps(unit)]
        for unit in sorted(new, key=lambda unit: -unit.gpus):
            if not floor.finds(unit) and len(unit.members) > 1:
                _part(unit, choice, floor)
        let_stay(floor.seats, candidates, choice, draft)
        if floor.seats.misfits:
            fill_up(floor.seats, candidates, choice, (placement, draft, view))
        return floor.seats


def _part(unit: Unit, choice: Choice, floor: Floor) -> None:
    """Seat two that find no place together one by one, as far as there is room."""
    for member in unit.members:
        job_id, gpus = member.job.job_id, member.job.spec.gpus
        del choice.partners[job_id]
        alone = Unit((member,), unit.gpu_type)
        if floor.draft.pools[unit.gpu_type].gpus_free >= gpus and (
            floor.keeps(alone) or floor.finds(alone)
        ):
            floor.seats.misfits.pop(job_id, None)


def _masks(where: Allocation) -> list[tuple[NodeName, int]]:
    return [(share.node, share.gpu_mask) for share in where.shares]


def _is_packed(job: Job) -> bool:
    return job.allocation.sharing is _PACKED


def _units(choice: Choice) -> Iterator[Unit]:
    """Yield what was chosen, in that order, partners once."""
    done: set[JobId] = set()
    for job_id, (candidate, gpu_type) in choice.chosen.items():
        if job_id in done:
            continue
        other = choice.partners.get(job_id)
        members = (candidate,) if other is None else (candidate, choice.chosen[other][0])
        done.update(member.job.job_id for member in members)
        yield Unit(members, gpu_type)


def _leave(candidates: Sequence[Candidate], draft: Draft, view: View) -> None:
    """Give back what is free once all candidates have left."""
    movable = {candidate.job.job_id for candidate in candidates}
    for candidate in candidates:
        shares = candidate.job.allocation.shares
        if _is_packed(candidate.job):
            shares = view.cluster.deciding.emptied(shares, movable)
        for share in shares:
            draft.give(share)


def _parts(demand: Demand, masks: list[tuple[NodeName, int]]) -> Iterator[Share]:
    """Yield the shares of a job on these GPUs, with its own CPUs and memory."""
    parts = demand.resources.divided([mask.bit_count() for _, mask in masks])
    for (node, mask), part in zip(masks, parts, strict=True):
        yield Share(node, mask, part.cpus_milli, part.memory_mb)
