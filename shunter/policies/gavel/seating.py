"""Who runs in a turn, and where: from claims to GPUs of servers.

In this order: who runs, where those go that share with nobody, and where those go that share.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from shunter.core import ENDING, Band, Change, Gpu, Job, Move, Plan, Start, Suspend, View, gpus_of
from shunter.core.planning import Draft, Placement, divided
from shunter.events import (
    Allocation,
    Because,
    Demand,
    GpuType,
    JobId,
    NodeName,
    QueueName,
    Reason,
    Share,
    Sharing,
    fact,
)
from shunter.policies.gavel.mechanism import Ledger

# Who runs in a turn (OSDI 2020, section 5, algorithm 1, over all types at once): the highest claim
# is served, and claims in conflict with it are gone. Spare GPUs go to the rest, fastest type first.


def cpu_starts(placement: Placement, view: View, changes: Sequence[Change]) -> list[Change]:
    """Return starts in the order of submission, on servers without GPUs first.

    They are placed on what is free now and left by the other changes of the plan: jobs with GPUs
    go first, and what those free that leave is theirs.
    """
    waiting = [job for job in view.jobs.values() if not job.spec.gpus and job.is_eligible]
    if not waiting:
        return []
    starts: list[Change] = []
    with Draft(view) as draft:
        for share in _taken(changes, view):
            draft.take(share)
        for job in waiting:
            found = draft.place_without_gpus(placement, job.demand)
            if not isinstance(found, Reason):
                starts.append(Start(job.job_id, Allocation(found), Because("spare_cpus")))
    return starts


def _taken(changes: Sequence[Change], view: View) -> list[Share]:
    """Return what changes take of servers' CPUs and memory beyond what they free."""
    net: dict[NodeName, tuple[int, int]] = {}
    for change in changes:
        shares: list[tuple[int, Share]] = []
        if isinstance(change, Suspend | Move):
            shares += [(-1, share) for share in view.jobs[change.job_id].allocation.shares]
        if isinstance(change, Start | Move):
            shares += [(1, share) for share in change.allocation.shares]
        for sign, share in shares:
            cpus_milli, memory_mb = net.get(share.node, (0, 0))
            net[share.node] = (
                cpus_milli + sign * share.cpus_milli,
                memory_mb + sign * share.memory_mb,
            )
    return [
        Share(node, 0, max(0, cpus_milli), max(0, memory_mb))
        for node, (cpus_milli, memory_mb) in net.items()
    ]


_STARVED = Band.starved


@fact
class Candidate:
    """A job that could get GPUs now, its rates, its type, and who is beside it."""

    job: Job
    rates: Mapping[GpuType, float]
    on: GpuType | None = None
    starves: bool = False
    beside: tuple[JobId, ...] = ()


_Claim = tuple[bool, float, bool, float, tuple[int, ...], GpuType, tuple[Candidate, ...]]


@dataclass(frozen=True, slots=True)
class FreeByType:
    """The GPUs of each type that candidates share, and what queues may use."""

    gpus: dict[GpuType, int]
    quotas: dict[QueueName, int]


@dataclass(slots=True)
class Choice:
    """Who is to run on which type, in order of choice; `spare` without claim.

    `room` is what is left of each type, `quota_free` of each queue that has a quota. `partners`
    are to share their GPUs.
    """

    room: dict[GpuType, int]
    quota_free: dict[QueueName, int]
    chosen: dict[JobId, tuple[Candidate, GpuType]] = field(default_factory=dict)
    spare: set[JobId] = field(default_factory=set)
    partners: dict[JobId, JobId] = field(default_factory=dict)

    def keep(self, job: Job) -> bool:
        """Let a job that was not chosen have GPUs if its queue may use them still."""
        spec = job.spec
        if not self.may_use(job):
            return False
        if spec.queue in self.quota_free:
            self.quota_free[spec.queue] -= spec.gpus
        return True

    def may_use(self, job: Job) -> bool:
        """Say whether a job's queue may use as many GPUs more as the job asks for."""
        spec = job.spec
        return self.quota_free.get(spec.queue, spec.gpus) >= spec.gpus

    def take(self, candidate: Candidate, gpu_type: GpuType) -> bool:
        """Choose a job for a type if it fits; say whether it did."""
        spec = candidate.job.spec
        if self.room[gpu_type] < spec.gpus:
            return False
        if self.quota_free.get(spec.queue, spec.gpus) < spec.gpus:
            return False
        self.room[gpu_type] -= spec.gpus
        if spec.queue in self.quota_free:
            self.quota_free[spec.queue] -= spec.gpus
        self.chosen[candidate.job.job_id] = candidate, gpu_type
        return True

    def take_all(self, together: Sequence[Candidate], gpu_type: GpuType) -> bool:
        """Choose jobs that share GPUs for a type if they fit; say whether they did."""
        if len(together) == 1:
            return self.take(together[0], gpu_type)
        one, two = together
        room, quotas = dict(self.room), dict(self.quota_free)
        if self.take(one, gpu_type):
            self.room[gpu_type] += two.job.spec.gpus
            if self.take(two, gpu_type):
                self.partners[one.job.job_id] = two.job.job_id
                self.partners[two.job.job_id] = one.job.job_id
                return True
            del self.chosen[one.job.job_id]
        self.room, self.quota_free = room, quotas
        return False


def choose(ledger: Ledger, candidates: Sequence[Candidate], room: FreeByType) -> Choice:
    """Return who runs where, of candidates in the order of submission."""
    choice = Choice(dict(room.gpus), dict(room.quotas))
    claims: list[_Claim] = []
    for candidate in candidates:
        job, rates, on = candidate.job, candidate.rates, candidate.on
        gang = (job.job_id,)
        row = ledger.fractions.get(gang)
        if not row:
            continue
        gpus, head, ordinals = job.spec.gpus, not candidate.starves, (job.ordinal,)
        for gpu_type in row:
            if rates.get(gpu_type, 0.0) <= 0 or gpus > room.gpus[gpu_type]:
                continue
            owed_s, target = ledger.owed(gang, gpu_type)
            if target > 0:
                stays = on != gpu_type
                claims.append((head, -owed_s, stays, -target, ordinals, gpu_type, (candidate,)))
    claims += _claims_of_pairs(ledger, candidates, room)
    claims.sort()  # ordinals and type are no two claims' alike, so that candidates do not compare
    _serve(choice, claims)
    _stay(choice)
    if any(choice.room.values()):
        _fill(choice, candidates, claims)
        _stay(choice)
    return choice


def _serve(choice: Choice, claims: Sequence[_Claim]) -> None:
    """Give claims what they ask for as long as there is any room."""
    chosen, room = choice.chosen, choice.room
    for claim in claims:
        gpu_type, together = claim[5], claim[6]
        if not room[gpu_type]:
            if not any(room.values()):
                break
        elif together[0].job.job_id not in chosen and together[-1].job.job_id not in chosen:
            choice.take_all(together, gpu_type)


def _stay(choice: Choice) -> None:
    """Let those stay that would lose their work by a move, if there is room.

    That is what nobody else was given. A job that begins anew each time would never end while its
    targets have it go round.
    """
    room = choice.room
    for job_id, (candidate, gpu_type) in choice.chosen.items():
        on, spec = candidate.on, candidate.job.spec
        if on is None or on == gpu_type or job_id in choice.partners:
            continue
        gets_on = candidate.rates.get(on, 0.0) > 0 and room[on] >= spec.gpus
        if spec.suspend_mode.loses_work and gets_on:
            room[on] -= spec.gpus
            room[gpu_type] += spec.gpus
            choice.chosen[job_id] = candidate, on


def _fill(choice: Choice, candidates: Sequence[Candidate], claims: Sequence[_Claim]) -> None:
    """Give what is left over to those without it, who is owed most first."""
    room = choice.room
    best: dict[JobId, float] = {}
    for claim in claims:
        if len(claim[6]) == 1:  # a job's best claim comes first
            best.setdefault(claim[6][0].job.job_id, -claim[1])
    rest = [each for each in candidates if each.job.job_id not in choice.chosen]
    rest.sort(key=lambda each: (not each.starves, -best.get(each.job.job_id, -inf)))
    for candidate in rest:
        if candidate.job.spec.gpus > max(room.values()):
            continue
        for gpu_type in _by_speed(candidate):
            if choice.take(candidate, gpu_type):
                choice.spare.add(candidate.job.job_id)
                if not any(room.values()):
                    return
                break


def _claims_of_pairs(
    ledger: Ledger, candidates: Sequence[Candidate], room: FreeByType
) -> Iterator[_Claim]:
    """Yield the claims of two candidates that have a target together."""
    gangs = [gang for gang in ledger.fractions if len(gang) == 2]
    if not gangs:
        return
    known = {candidate.job.job_id: candidate for candidate in candidates}
    for gang in gangs:
        one, two = known.get(gang[0]), known.get(gang[1])
        if one is None or two is None or gang not in ledger.received_s:
            continue
        ordinals, head = (one.job.ordinal, two.job.ordinal), not (one.starves or two.starves)
        for gpu_type, target in ledger.fractions[gang].items():
            if not target or one.job.spec.gpus > room.gpus.get(gpu_type, 0):
                continue
            if one.rates.get(gpu_type, 0) <= 0 or two.rates.get(gpu_type, 0) <= 0:
                continue
            owed_s, _ = ledger.owed(gang, gpu_type)
            stays = not (one.on == two.on == gpu_type and two.job.job_id in one.beside)
            yield head, -owed_s, stays, -target, ordinals, gpu_type, (one, two)


def _by_speed(candidate: Candidate) -> list[GpuType]:
    """Return the types a job can run on, the fastest first; of equals, where it is."""
    rates = candidate.rates
    able = [name for name in rates if rates[name] > 0]
    able.sort(key=lambda name: (-rates[name], name != candidate.on))
    return able


def is_starved(job: Job, view: View) -> bool:
    """Say whether a guard puts a waiting job at the head of the line."""
    return view.is_guarded and view.guards.band(job, view.now_us) is _STARVED


def room_among(candidates: Sequence[Candidate], view: View) -> FreeByType:
    """Return what candidates share: what is free, and what they hold."""
    gpus = {GpuType(name): pool.gpus_free for name, pool in view.pools.items()}
    quotas = {
        name: view.quota_free(name)
        for name, queue in view.queues.items()
        if queue.quota_gpus is not None
    }
    movable = {candidate.job.job_id for candidate in candidates}
    for candidate in candidates:
        if candidate.on is None:
            continue
        held, queue = candidate.job.allocation, candidate.job.spec.queue
        packed = held.sharing is Sharing.packed
        gpus[candidate.on] += len(left_by(candidate.job, movable, view)) if packed else held.gpus
        if queue in quotas:
            quotas[queue] += held.gpus
    return FreeByType(gpus, quotas)


def left_by(job: Job, movable: Container[JobId], view: View) -> list[Gpu]:
    """Return the GPUs a job leaves free if all leave that may, a shared one once.

    It counts with the tenant that was submitted first.
    """
    found = [gpu for share in job.allocation.shares for gpu in gpus_of(share)]
    if job.allocation.sharing is not Sharing.packed:
        return found
    deciding = view.cluster.deciding
    return [
        gpu
        for gpu in found
        if deciding.of(gpu)[0] == job.job_id and all(who in movable for who in deciding.of(gpu))
    ]


def may_leave(job: Job, view: View, turn_us: int) -> bool:
    """Say whether a job could lose its GPUs in this turn, with those beside it.

    One whose start took time has its turn from its first mini-batch on.
    """
    if job.allocation.sharing is not Sharing.packed:
        return _may_leave(job, view, turn_us)
    together = (job.job_id, *view.partners(job))
    return all(_may_leave(view.jobs[name], view, turn_us) for name in together)


def _may_leave(job: Job, view: View, turn_us: int) -> bool:
    if job.end_cause or job.phase is ENDING or view.guards.pinned_by(job, view.now_us):
        return False
    counts_from_us = job.counts_from_us if turn_us and view.guards.launches_first else None
    if counts_from_us is not None and view.now_us < counts_from_us + turn_us:
        return False
    servers = view.cluster.servers
    return all(servers[share.node].is_up for share in job.allocation.shares)


# Where chosen jobs go: larger gangs first. The room of a gang without a place goes to others, in
# the order of the choice; a gang that was to leave stays if nobody took its GPUs.


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


# Where jobs go that share GPUs. A unit is a job, or two. It stays where one of its jobs is, if that
# is on the right type and free of others; the other job joins it.

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
