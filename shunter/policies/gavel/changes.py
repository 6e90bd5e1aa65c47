"""From places to a plan: who leaves, moves and starts, why, and what holds back those that wait."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from shunter.core import Change, Job, Move, Pack, Start, Suspend, View
from shunter.core.planning import untangled
from shunter.events import Because, GpuType, JobId, Reason, Wait
from shunter.policies.gavel.mechanism import Gang, Ledger
from shunter.policies.gavel.seating import Candidate, Choice, Placements

SHARE: Final = "target_share"
SPARE: Final = "spare_gpus"
BESIDE: Final = "target_share_beside"
_BENEFICIARIES: Final = 4


class Teller(Protocol):
    """Says why jobs run where they do, and why they left."""

    def placed(self, job: Job, gpu_type: GpuType) -> Because:
        """Return why a job gets GPUs of a type."""

    def left(self, job: Job, gpu_type: GpuType, gainers: tuple[JobId, ...]) -> Because:
        """Return why a job loses its GPUs, and who gets some of their type."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a plan tells with: seats, what chose them, and each job's `pairs`."""

    seats: Placements
    choice: Choice
    ledger: Ledger
    pairs: Mapping[JobId, Sequence[Gang]] = field(default_factory=dict)

    def placed(self, job: Job, gpu_type: GpuType) -> Because:
        """Return the target share of a type, and the one received there."""
        partner = self.choice.partners.get(job.job_id)
        if partner is not None:
            numbers = self.numbers(job.job_id, gpu_type, partner)
            return Because(BESIDE, numbers, (partner,), gpu_type)
        rule = SPARE if job.job_id in self.choice.spare else SHARE
        return Because(rule, self.numbers(job.job_id, gpu_type), detail=gpu_type)

    def left(self, job: Job, gpu_type: GpuType, gainers: tuple[JobId, ...]) -> Because:
        """Return the same, and whether it got its share."""
        target, received = self.numbers(job.job_id, gpu_type)
        rule = Reason.share_met if received >= target else Reason.time_sliced
        return Because(str(rule), (target, received), gainers, gpu_type)

    def numbers(
        self, job_id: JobId, gpu_type: GpuType, partner: JobId | None = None
    ) -> tuple[float, float]:
        """Return a job's target share of a type and the one it got, to a millionth.

        With a partner, the share of the two on the same GPUs.
        """
        gang: Gang = (job_id,)
        if partner is not None:
            known = self.ledger.received_s
            gang = (job_id, partner) if (job_id, partner) in known else (partner, job_id)
        ledger = self.ledger
        return round(ledger.target(gang, gpu_type), 6), round(ledger.share(gang, gpu_type), 6)

    def best_of(self, job_id: JobId) -> tuple[GpuType, JobId | None] | None:
        """Return where a job is to have most time, and beside whom; None: nowhere."""
        fractions, pairs = self.ledger.fractions, self.pairs.get(job_id)
        if not pairs:
            row = fractions.get((job_id,))
            if not row:
                return None
            if len(row) == 1:
                return next(iter(row)), None
            return max(row, key=lambda name: (row[name], name)), None
        found = [
            (part, len(gang) == 1, gpu_type, gang)
            for gang in ((job_id,), *pairs)
            for gpu_type, part in fractions.get(gang, {}).items()
        ]
        if not found:
            return None
        _, _, gpu_type, gang = max(found, key=lambda each: each[:3])
        return gpu_type, next((other for other in gang if other != job_id), None)


def pairs_of(ledger: Ledger) -> dict[JobId, list[Gang]]:
    """Return the pairs of each job that have targets."""
    found: dict[JobId, list[Gang]] = {}
    for gang in ledger.fractions:
        if len(gang) > 1:
            for job_id in gang:
                found.setdefault(job_id, []).append(gang)
    return found


def changes_of(
    seats: Placements, tell: Teller, candidates: Sequence[Candidate], view: View
) -> tuple[Change, ...]:
    """Return suspensions, moves and starts; gangs that move in a circle do both."""
    places = seats.places
    suspended: list[Change] = []
    opened: list[Change] = []
    placed: list[Change] = []
    moves: dict[JobId, Move] = {}
    gainers: dict[GpuType, list[JobId]] = {}
    for candidate in candidates:
        place = places.get(candidate.job.job_id)
        if place is not None and place[1].shares != candidate.job.allocation.shares:
            gainers.setdefault(place[0], []).append(candidate.job.job_id)
    for candidate in candidates:
        job, place = candidate.job, places.get(candidate.job.job_id)
        if place is None and candidate.on is not None:
            who = tuple(gainers.get(candidate.on, [])[:_BENEFICIARIES])
            suspended.append(Suspend(job.job_id, tell.left(job, candidate.on, who)))
        elif place is not None and place[1] != job.allocation:
            gpu_type, allocation = place
            because = tell.placed(job, gpu_type)
            if allocation.shares == job.allocation.shares:
                opened.append(Pack(job.job_id, allocation, because))
            elif candidate.on is None:
                placed.append(Start(job.job_id, allocation, because))
            else:
                moves[job.job_id] = Move(job.job_id, allocation, because)
    circles, straight = untangled(moves, view)
    return (*suspended, *opened, *circles, *straight, *placed)


def waits_of(
    told: Told,
    candidates: Sequence[Candidate],
    known: Callable[[JobId], Reason | None],
    view: View,
) -> Iterator[tuple[JobId, Wait]]:
    """Yield what holds back each job without a seat, where it is new (or all).

    One that loses its GPUs waits for the reason that the change says.
    """
    for candidate in candidates:
        job_id = candidate.job.job_id
        if job_id in told.seats.places:
            continue
        if candidate.on is None:
            reason, best = _why(told, candidate)
        elif view.full_waits:
            reason, best = Reason(told.left(candidate.job, candidate.on, ()).rule), None
        else:
            continue
        if view.all_reasons or known(job_id) is not reason:
            yield job_id, _wait(told, candidate, reason, best)


def known_reasons(view: View, told: Mapping[JobId, Reason]) -> Callable[[JobId], Reason | None]:
    """Return what tells the recorded reason of a job; None: none that holds still.

    It is recorded where the state has it, and of a job that waits where it was told since it had
    GPUs last. Earlier versions went by what was told alone, a preemption included, which is in no
    wait of the state.
    """
    if not view.full_waits:
        return told.get

    def recorded(job_id: JobId) -> Reason | None:
        job = view.jobs[job_id]
        reason = None if job.wait is None else job.wait.reason
        return reason if job.allocation.shares or told.get(job_id) is reason else None

    return recorded


_Best = tuple[GpuType, float, float] | None


def _why(told: Told, candidate: Candidate) -> tuple[Reason, _Best]:
    """Return what holds a job back; if that is its share, which and how much."""
    job, rates = candidate.job, candidate.rates
    misfit = told.seats.misfits.get(job.job_id)
    if misfit is not None:
        return misfit, None
    if not any(rates.values()):
        return Reason.gpu_type_unavailable, None
    quota_free = told.choice.quota_free.get(job.spec.queue)
    if quota_free is not None and quota_free < job.spec.gpus <= _free(told, candidate):
        return Reason.quota, None
    best = told.best_of(job.job_id)
    if best is None:
        return Reason.outranked, None
    gpu_type, partner = best
    target, received = told.numbers(job.job_id, gpu_type, partner)
    reason = Reason.share_met if received >= target else Reason.time_sliced
    return reason, (gpu_type, target, received)


def _wait(told: Told, candidate: Candidate, reason: Reason, best: _Best) -> Wait:
    """Return a reason with its evidence."""
    gpus, queue = candidate.job.spec.gpus, candidate.job.spec.queue
    if reason is Reason.gpu_type_unavailable:
        return Wait(reason, gpus)
    if reason is Reason.quota:
        return Wait(reason, gpus, max(0, told.choice.quota_free[queue]))
    free = _free(told, candidate)
    if best is None:
        return Wait(reason, gpus, free)
    gpu_type, target, received = best
    return Wait(reason, gpus, free, detail=f"share:{gpu_type}:{target:g}:{received:g}")


def _free(told: Told, candidate: Candidate) -> int:
    """Return the most GPUs that are left of a type on which a job can run."""
    room = told.choice.room
    return max((room[name] for name, rate in candidate.rates.items() if rate > 0), default=0)
