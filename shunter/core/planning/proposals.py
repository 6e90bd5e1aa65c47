"""Job schedulers: the scheme, what they remember, and what they propose.

    order ──▶ who may start ──▶ job schedulers ──▶ proposals ──▶ approver ──▶ granted whole, or not
                                     ▲                                │
                                     └──── jittered back-off ◀────────┘

The order of the policy says which jobs may start. The scheduler of each such job proposes whole
gangs from a view that may be stale, and the approver checks them on the GPUs' state (Xiao, SOSP
student research competition 2017).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shunter.core.interfaces import Observer, Observers, Rng
from shunter.core.plan import EMPTY_PLAN, Change, Move, Plan, Proposal, Reservation, Start, Suspend
from shunter.core.planning.draft import Draft, Needs
from shunter.core.planning.placement import Placement
from shunter.core.recorded_words import MAKES_ROOM, ROOM_MADE
from shunter.core.rng import RandomStream
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events import (
    JOB_ENDS,
    NOTHING,
    Allocation,
    Event,
    JobId,
    Share,
    Sharing,
    fact,
    facts,
    record,
    replace,
)

_DOUBLINGS_MOST = 62


@fact
class Decentralised:
    """How job schedulers propose; durations in microseconds.

    `built_in`: each job has a scheduler here; otherwise callers of the daemon propose. A view is
    stale by up to `staleness_us`. A proposal names up to so many `candidates`. Who was rejected
    waits for `retry_us` at most before it proposes again, twice as long each time, up to
    `retry_most_us`. After `reserve_after` rejections in a row GPUs are kept for the job; for
    `reserve_for_us` at most where callers propose.
    """

    built_in: bool
    staleness_us: int
    candidates: int
    retry_us: int
    retry_most_us: int
    reserve_after: int
    reserve_for_us: int

    @property
    def looks_again_us(self) -> int:
        """How long a job scheduler waits that found no place in its view."""
        return max(1, self.staleness_us, self.retry_us)

    def retry_at(self, job: Job, rejected: int, now_us: int, seed: int) -> int:
        """Return when a job proposes again that was rejected so many times in a row.

        The wait is anything up to a bound, so that those who collided do not meet again.
        """
        doubled_us = self.retry_us << min(rejected - 1, _DOUBLINGS_MOST)
        bound_us = max(1, min(self.retry_most_us, doubled_us))
        rng = RandomStream(seed, "proposal", job.ordinal, rejected)
        return now_us + 1 + rng.below(bound_us)


# Stale views are made on a draft by undoing the latest changes, so they cost what changed. Only who
# has which GPUs can be stale; a server that is gone is gone in every view.


@record
class Passed:
    """A change of what a job is given, with the fact of the number `seq`."""

    at_us: int
    seq: int
    before: Allocation
    after: Allocation
    job_id: JobId = JobId("")


@dataclass(slots=True)
class AllocationHistory:
    """What each job has, and the changes of the last `span_us`, in order."""

    span_us: int
    given: dict[JobId, Allocation] = field(default_factory=dict)
    changes: list[Passed] = field(default_factory=list)

    def begin(self, jobs: Iterable[Job]) -> None:
        """Take over what jobs have, as if nothing had changed lately."""
        self.given = {job.job_id: job.allocation for job in jobs if job.allocation.shares}

    def note(self, job_id: JobId, view: View) -> None:
        """Note what a job has after a fact about it, if that has changed."""
        job, before = view.jobs.get(job_id), self.given.get(job_id, NOTHING)
        after = NOTHING if job is None else job.allocation
        if after == before:
            return
        if after.shares:
            self.given[job_id] = after
        else:
            del self.given[job_id]
        oldest_us = view.now_us - self.span_us
        past = 0
        while past < len(self.changes) and self.changes[past].at_us < oldest_us:
            past += 1
        del self.changes[:past]
        self.changes.append(Passed(view.now_us, view.seq, before, after, job_id))

    def look_back(self, draft: Draft, at_us: int) -> int | None:
        """Undo in a draft what changed after an instant.

        Returns:
            the number of the last fact before that; None: nothing has changed since.
        """
        version: int | None = None
        for passed in reversed(self.changes):
            if passed.at_us <= at_us:
                break
            draft.undo(passed.job_id, passed.before, passed.after)
            version = passed.seq - 1
        return version


_GIVING = (
    *(facts.AllocationChanged, facts.JobReshaped, *JOB_ENDS),
    *(
        facts.AllocationLearned,
        facts.AttemptLost,
        facts.GpusReleased,
        facts.JobSuspended,
        facts.LaunchFailed,
    ),
)
"""The kinds after which a job may have been given something else."""


@dataclass(slots=True)
class ProposalMemory:
    """When job schedulers propose next, and what changed that they may not see.

    `due` are the admitted jobs; `waking` is when a plan is to keep GPUs for a job of whom others
    propose, or to give up what is kept for it.
    """

    history: AllocationHistory
    due: dict[JobId, int] = field(default_factory=dict)
    waking: dict[JobId, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scheme: Decentralised, view: View) -> "ProposalMemory":
        """Return what is true at a start: who is admitted, and what each job has."""
        memory = cls(AllocationHistory(scheme.staleness_us))
        memory.history.begin(view.jobs.values())
        if scheme.built_in:
            memory.due = dict.fromkeys(view.proposals.admitted, view.now_us)
        return memory

    def is_due(self, job_id: JobId, now_us: int) -> bool:
        """Say whether the scheduler of a job proposes at an instant."""
        return self.due.get(job_id, now_us) <= now_us

    def next_us(self) -> int | None:
        """Return when a plan is needed next, though nothing happens; None: never."""
        return min((*self.due.values(), *self.waking.values()), default=None)

    def forget(self, job_id: JobId) -> None:
        """Drop a job that proposes no more."""
        self.due.pop(job_id, None)
        self.waking.pop(job_id, None)


def proposal_observers(memory: ProposalMemory, scheme: Decentralised) -> Observers:
    """Return who keeps what job schedulers remember up to date."""

    def planned(event: facts.RoundPlanned, view: View) -> None:
        if scheme.built_in:
            memory.due.update(dict.fromkeys(event.admitted, event.at_us))
        for job_id in event.dismissed:
            memory.forget(job_id)
        for job_id in [one for one, at_us in memory.waking.items() if at_us <= event.at_us]:
            del memory.waking[job_id]
        again_us = event.at_us + scheme.looks_again_us
        for job_id, due_us in memory.due.items():
            if due_us <= event.at_us:  # unless it is rejected now, which says when
                memory.due[job_id] = again_us

    def rejected(event: facts.GangRejected, view: View) -> None:
        job_id, book = event.job_id, view.proposals
        rejected = book.rejected_in_a_row(job_id)
        is_kept = rejected >= scheme.reserve_after
        if job_id in memory.due:
            # GPUs that can be kept for it are looked for at once; if there are none, it waits.
            waits = rejected != scheme.reserve_after
            retry_us = event.at_us if event.retry_us is None else event.retry_us
            memory.due[job_id] = retry_us if waits else event.at_us
        elif is_kept and job_id in book.admitted and job_id not in book.reserved:
            memory.waking[job_id] = event.at_us

    def approved(event: facts.GangApproved, view: View) -> None:
        memory.forget(event.job_id)

    def kept(event: facts.ReservationSet, view: View) -> None:
        memory.waking.pop(event.job_id, None)
        if event.start_us is not None and event.shares and not scheme.built_in:
            memory.waking[event.job_id] = event.start_us + scheme.reserve_for_us

    def given(event: Any, view: View) -> None:
        memory.history.note(event.job_id, view)

    def ended(event: Any, view: View) -> None:
        memory.forget(event.job_id)
        memory.history.note(event.job_id, view)

    observers: dict[type[Event], Observer] = {
        facts.RoundPlanned: planned,
        facts.GangRejected: rejected,
        facts.GangApproved: approved,
        facts.ReservationSet: kept,
    }
    if scheme.staleness_us:
        observers |= dict.fromkeys(_GIVING, given)
    return observers | dict.fromkeys(JOB_ENDS, ended)


# Proposed are only starts of gangs that wait for GPUs of their own: each can be granted or not
# without regard to the rest of the plan. Moves, shared GPUs, gangs that leave and start again, and
# room made for a gang depend on the rest. These come first, so proposals get only what they leave.

_EXCLUSIVE = Sharing.exclusive


def divided(plan: Plan) -> tuple[list[Start], tuple[Change, ...]]:
    """Return the starts of a plan that are proposed, and its other changes."""
    leave = {change.job_id for change in plan.changes if type(change) is Suspend}
    starts = [
        change
        for change in plan.changes
        if type(change) is Start
        and change.allocation.gpus
        and change.allocation.sharing is _EXCLUSIVE
        and change.because.rule != ROOM_MADE
        and change.job_id not in leave
    ]
    names = {start.job_id for start in starts}
    return starts, tuple([change for change in plan.changes if change.job_id not in names])


Reserved = Mapping[JobId, tuple[Share, ...]]


def decentralised_plan(
    plan: Plan,
    scheme: Decentralised,
    memory: ProposalMemory,
    view: View,
    placement: Placement,
    rng: Rng,
    needs: Needs | None = None,
) -> Plan:
    """Return a plan in which job schedulers propose what the order would start.

    Args:
        plan: that of the order, with places for all its starts.
        scheme: how job schedulers propose.
        memory: what they remember.
        view: the state as it is.
        placement: how each of them looks for places.
        rng: where the age of their views comes from, and which place they prefer.
        needs: what jobs must find; None: what they ask for.
    """
    starts, others = divided(plan)
    names = {start.job_id for start in starts}
    admitted = view.proposals.admitted
    new = tuple([start.job_id for start in starts if start.job_id not in admitted])
    gone = tuple([job_id for job_id in admitted if job_id not in names])
    with Draft(view) as draft:
        if needs is not None:
            needs.settle(draft)
        reserved = dict(_reserved(starts, others, scheme, draft, view, needs))
        proposals: tuple[Proposal, ...] = ()
        if scheme.built_in:
            schedulers = _Schedulers(scheme, memory, view, placement, rng, draft, reserved, needs)
            proposals = tuple(schedulers.propose(starts, others))
    if not (others or new or gone or reserved or proposals) and plan == EMPTY_PLAN:
        return EMPTY_PLAN
    since_us = {job_id: view.reservations[job_id] for job_id in view.proposals.reserved}
    promises = [
        Reservation(
            job_id, since_us.get(job_id, view.now_us), sum([share.gpus for share in shares]), shares
        )
        for job_id, shares in reserved.items()
    ]
    return replace(
        plan,
        changes=others,
        reservations=(*plan.reservations, *promises),
        proposals=proposals,
        admitted=new,
        dismissed=gone,
    )


def without_proposed(plan: Plan) -> Plan:
    """Return a plan without the starts that job schedulers propose."""
    starts, others = divided(plan)
    return replace(plan, changes=others) if starts else plan


# Two jobs may want the same GPUs, and one is rejected. After so many rejections the place that the
# order found for it is kept; so is a place that others leave for a gang that has no other.


@dataclass(frozen=True)
class _Schedulers:
    """The schedulers of the admitted jobs, in the order of the policy."""

    scheme: Decentralised
    memory: ProposalMemory
    view: View
    placement: Placement
    rng: Rng
    draft: Draft
    reserved: Reserved
    needs: Needs | None

    def propose(self, starts: Sequence[Start], others: Sequence[Change]) -> Iterator[Proposal]:
        """Yield what they propose whose turn it is, each in its own view.

        Without staleness a view has all that was proposed before: as if there were one lock.
        """
        draft, stale = self.draft, self.scheme.staleness_us > 0
        if not stale:
            draft.carry_out(others, self.view.jobs)
            for shares in self.reserved.values():
                _take(shares, draft)
        for start in starts:
            kept = self.reserved.get(start.job_id)
            if kept is not None:
                yield Proposal(start.job_id, self.view.seq, (Allocation(kept),), start.because)
                continue
            if not self.memory.is_due(start.job_id, self.view.now_us):
                continue
            version, found = self._found(start, stale=stale)
            if found:
                yield Proposal(start.job_id, version, tuple(found), start.because)
                if not stale:
                    _take(found[0].shares, draft)

    def _found(self, start: Start, *, stale: bool) -> tuple[int, list[Allocation]]:
        """Return the version of a job's view, and the places found in it, the best first."""
        draft, view, rng = self.draft, self.view, self.rng
        mark, version = draft.mark, view.seq
        if stale:
            at_us = view.now_us - rng.below(self.scheme.staleness_us + 1)
            seen = self.memory.history.look_back(draft, at_us)
            version = view.seq if seen is None else seen
            for shares in self.reserved.values():
                _take(shares, draft)
        pool = view.cluster.servers[start.allocation.shares[0].node].configuration.gpu_type
        job = view.jobs[start.job_id]
        demand = job.waits_as
        if self.needs is not None:
            demand = self.needs.demand(demand, job, pool)
        found: list[Allocation] = []
        while len(found) < self.scheme.candidates:
            place = draft.place(self.placement, pool, demand)
            if not isinstance(place, tuple):
                break
            found.append(Allocation(place))
        draft.rollback(mark)
        if stale:  # whoever looks at the same instant finds the same places
            for last in range(len(found) - 1, 0, -1):
                other = rng.below(last + 1)
                found[last], found[other] = found[other], found[last]
        return version, found


def _reserved(
    starts: Sequence[Start],
    others: Sequence[Change],
    scheme: Decentralised,
    draft: Draft,
    view: View,
    needs: Needs | None,
) -> Iterator[tuple[JobId, tuple[Share, ...]]]:
    """Yield what is kept for jobs, each with free GPUs."""
    book, mark = view.proposals, draft.mark
    needing = {
        gainer
        for change in others
        if isinstance(change, Suspend | Move) and change.because.rule == MAKES_ROOM
        for gainer in change.because.beneficiaries
    }
    needing.update(book.reserved)
    wanting = [
        start
        for start in starts
        if start.job_id in needing or book.rejected_in_a_row(start.job_id) >= scheme.reserve_after
    ]
    if not wanting:
        return
    draft.carry_out(others, view.jobs)
    # What goes beside the GPUs running jobs may have, who give it up for what is proposed.
    has = draft.has if needs is None or needs.are_looked_at else draft.has_gpus
    found: list[tuple[JobId, tuple[Share, ...]]] = []
    for kept_first in (True, False):  # what is kept already stays so
        for start in wanting:
            job_id = start.job_id
            if (job_id in book.reserved) is not kept_first:
                continue
            since_us = view.reservations.get(job_id, view.now_us)
            is_over = not scheme.built_in and view.now_us >= since_us + scheme.reserve_for_us
            if kept_first and is_over:  # nobody came for it, for as long as it is kept
                continue
            shares = book.reserved.get(job_id, start.allocation.shares)
            if not all(map(has, shares)):
                shares = start.allocation.shares
            if all(map(has, shares)):
                _take(shares, draft)
                found.append((job_id, shares))
    draft.rollback(mark)
    yield from found


def _take(shares: Sequence[Share], draft: Draft) -> None:
    for share in shares:
        draft.take(share)
