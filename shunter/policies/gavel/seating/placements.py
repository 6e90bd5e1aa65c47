"""Where the chosen jobs go: those that stay keep their GPUs, a placement finds some for the rest.

Larger gangs are placed first. A gang that finds no place (its CPUs or memory are short, or its GPUs
too far apart) leaves room, which goes to whoever fits, in the order of the choice; one that was to
leave and whose GPUs nobody took stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from shunter.core.plan import Change, Plan
from shunter.core.planning.draft import Draft
from shunter.core.planning.placement import Placement
from shunter.core.planning.proposals import divided
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import GpuType, JobId, NodeName
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason
from shunter.policies.gavel.seating.choosing import Candidate, Choice


@dataclass(slots=True)
class Placements:
    """Where candidates run from now on; why `misfits` found no place."""

    places: dict[JobId, tuple[GpuType, Allocation]] = field(default_factory=dict)
    misfits: dict[JobId, Reason] = field(default_factory=dict)


def seat(
    choice: Choice, candidates: Sequence[Candidate], placement: Placement, view: View
) -> Placements:
    """Return the places of all that run; `candidates` may all be moved."""
    seats = Placements()
    leavers: list[Job] = []
    for candidate in candidates:
        job, chosen = candidate.job, choice.chosen.get(candidate.job.job_id)
        if candidate.on is not None and chosen is not None and chosen[1] == candidate.on:
            seats.places[job.job_id] = candidate.on, job.allocation
        elif candidate.on is not None:
            leavers.append(job)
    new = [found for job_id, found in choice.chosen.items() if job_id not in seats.places]
    if not new and not leavers:
        return seats
    with Draft(view) as draft:
        for share in (share for job in leavers for share in job.allocation.shares):
            draft.give(share)
        for candidate, gpu_type in sorted(new, key=lambda found: -found[0].job.spec.gpus):
            _place(seats, candidate.job, gpu_type, (placement, draft, view))
        if seats.misfits or len(seats.places) < len(candidates):
            let_stay(seats, candidates, choice, draft)
        if seats.misfits:
            fill_up(seats, candidates, choice, (placement, draft, view))
    return seats


def let_stay(
    seats: Placements, candidates: Sequence[Candidate], choice: Choice, draft: Draft
) -> None:
    """Let those keep their GPUs whom nobody wants to leave any more."""
    for candidate in candidates:
        job, on = candidate.job, candidate.on
        if on is None or job.job_id in seats.places:
            continue
        shares = job.allocation.shares
        if all(draft.has(share) for share in shares) and choice.keep(job):
            for share in shares:
                draft.take(share)
            seats.places[job.job_id] = on, job.allocation


def as_placed(changes: Sequence[Change], seats: Placements) -> tuple[Change, ...]:
    """Return changes with the starts that are proposed last, as they were placed.

    Who looks for places in that order, without staleness, finds room for all of them.
    """
    starts, others = divided(Plan(tuple(changes)))
    numbers = {job_id: number for number, job_id in enumerate(seats.places)}
    starts.sort(key=lambda start: numbers[start.job_id])
    return (*others, *starts)


def demand_of(job: Job, placement: Placement, view: View) -> Demand:
    """Return what a placement goes by: tight where it keeps the job's gang together."""
    classing = placement.classing
    if classing is not None and classing.is_tight(job.spec, view.messages):
        return replace(job.demand, tight=True)
    return job.demand


@dataclass(frozen=True, slots=True)
class Gathered:
    """What job schedulers look for: the same that the plan found (`Needs`)."""

    placement: Placement
    view: View

    @property
    def are_looked_at(self) -> bool:
        """CPUs and memory count: nobody gives any up."""
        return True

    def settle(self, draft: Draft) -> None:
        """All who run count with what they have."""

    def demand(self, demand: Demand, job: Job, pool: str) -> Demand:
        """Return a job's demand, tight where the placement keeps its gang together."""
        return demand_of(job, self.placement, self.view)


_With = tuple[Placement, Draft, View]


def _place(seats: Placements, job: Job, gpu_type: GpuType, using: _With) -> None:
    placement, draft, view = using
    found = draft.place(placement, gpu_type, demand_of(job, placement, view))
    if isinstance(found, Reason):
        seats.misfits[job.job_id] = found
    else:
        seats.misfits.pop(job.job_id, None)
        seats.places[job.job_id] = gpu_type, Allocation(found)


def fill_up(
    seats: Placements, candidates: Sequence[Candidate], choice: Choice, using: _With
) -> None:
    """Give what misfits left to who waits, as far as queues may use it.

    The misfits themselves come first, on types other than the one on which they found no place.
    """
    misfits = dict(seats.misfits)
    for job_id in misfits:
        spec = choice.chosen[job_id][0].job.spec
        if spec.queue in choice.quota_free:
            choice.quota_free[spec.queue] += spec.gpus
    waiting = [each for each in candidates if each.on is None]
    elsewhere = [found for job_id, found in choice.chosen.items() if job_id in misfits]
    for candidate, tried in elsewhere:
        if candidate.on is None and not _fill_with(candidate, seats, choice, using, but=tried):
            seats.misfits[candidate.job.job_id] = misfits[candidate.job.job_id]
    for candidate in waiting:
        job_id = candidate.job.job_id
        if job_id not in seats.places and job_id not in misfits:
            _fill_with(candidate, seats, choice, using)


def _fill_with(
    candidate: Candidate,
    seats: Placements,
    choice: Choice,
    using: _With,
    *,
    but: GpuType | None = None,
) -> bool:
    """Place a job on any type but one, without a claim; say whether it fitted."""
    job, draft = candidate.job, using[1]
    for gpu_type, rate in candidate.rates.items():
        if gpu_type == but or rate <= 0 or draft.pools[gpu_type].gpus_free < job.spec.gpus:
            continue
        if not choice.may_use(job):
            return False
        _place(seats, job, gpu_type, using)
        if job.job_id in seats.places:
            choice.keep(job)
            choice.spare.add(job.job_id)
            return True
    return False


# Where jobs go that share GPUs, beside those that share with nobody.
#
# What runs in one place is a unit: a job, or two. A unit stays where one of its jobs is, if that
# is on the right type and nobody who stays is there; the other one joins it. Larger gangs choose
# first.

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
