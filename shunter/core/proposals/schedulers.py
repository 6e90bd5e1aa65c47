"""The schedulers of single jobs: from what the order would start to what they propose.

The plan of a policy says who starts, who leaves for that, and where all of them would find a place
at once. In the decentralised scheme only the first two are taken from it (`divided.py`). Who may
start is admitted; the scheduler of each admitted job then looks for places of its own, in a view of
an earlier instant, and all of them at the same time. So two may want the same GPUs, and one is
rejected. After so many rejections the place that the order found for a job is kept for it: nobody
else's proposal may have that, so that its next one is approved. So is a place that others leave
because it is the only one for a gang: if somebody else took it, they would have left in vain, and
again and again.
"""

from collections.abc import Iterator, Mapping, Sequence

from shunter.core.interfaces import Rng
from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft, Needs
from shunter.core.planning.making_room import MAKES_ROOM, ROOM_MADE
from shunter.core.planning.plan import (
    EMPTY_PLAN,
    Change,
    Move,
    Plan,
    Proposal,
    Reservation,
    Start,
    Suspend,
)
from shunter.core.proposals.memory import ProposalMemory
from shunter.core.proposals.scheme import Decentralised
from shunter.core.view import View
from shunter.events.records import replace
from shunter.events.values import Allocation, JobId, Share, Sharing

# What of a plan job schedulers propose, and what the plan itself carries out.
#
# Proposed are the starts of gangs that wait and are to have their GPUs to themselves: each of
# them can be granted or not without regard to the rest of the plan. All else is the plan's own.
# Moves rest on what others leave in the same plan, jobs that share GPUs are started beside each
# other, and a gang that goes round in a circle has left before it starts; and where others are
# moved for a gang, moves and start are one. Those come first, so that what is granted to a
# proposal was left by all.

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
        Reservation(job_id, since_us.get(job_id, view.now_us), _gpus(shares), shares)
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


class _Schedulers:
    """The schedulers of the admitted jobs, in the order of the policy."""

    def __init__(
        self,
        scheme: Decentralised,
        memory: ProposalMemory,
        view: View,
        placement: Placement,
        rng: Rng,
        draft: Draft,
        reserved: Reserved,
        needs: Needs | None,
    ) -> None:
        self._needs = needs
        self._scheme = scheme
        self._memory = memory
        self._view = view
        self._placement = placement
        self._rng = rng
        self._draft = draft
        self._reserved = reserved

    def propose(self, starts: Sequence[Start], others: Sequence[Change]) -> Iterator[Proposal]:
        """Yield what they propose whose turn it is, each in its own view.

        Without staleness a view has all that was proposed before: as if there were one lock.
        """
        draft, stale = self._draft, self._scheme.staleness_us > 0
        if not stale:
            draft.carry_out(others, self._view.jobs)
            for shares in self._reserved.values():
                _take(shares, draft)
        for start in starts:
            kept = self._reserved.get(start.job_id)
            if kept is not None:
                yield Proposal(start.job_id, self._view.seq, (Allocation(kept),), start.because)
                continue
            if not self._memory.is_due(start.job_id, self._view.now_us):
                continue
            version, found = self._found(start, stale=stale)
            if found:
                yield Proposal(start.job_id, version, tuple(found), start.because)
                if not stale:
                    _take(found[0].shares, draft)

    def _found(self, start: Start, *, stale: bool) -> tuple[int, list[Allocation]]:
        """Return the version of a job's view, and the places found in it, the best first."""
        draft, view, rng = self._draft, self._view, self._rng
        mark, version = draft.mark, view.seq
        if stale:
            at_us = view.now_us - rng.below(self._scheme.staleness_us + 1)
            version = view.seq if (seen := self._memory.look_back(draft, at_us)) is None else seen
            for shares in self._reserved.values():
                _take(shares, draft)
        pool = view.cluster.servers[start.allocation.shares[0].node].configuration.gpu_type
        job = view.jobs[start.job_id]
        demand = job.waits_as
        if self._needs is not None:
            demand = self._needs.demand(demand, job, pool)
        found: list[Allocation] = []
        while len(found) < self._scheme.candidates:
            place = draft.place(self._placement, pool, demand)
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
    """Yield what is kept for jobs, each with free GPUs.

    They were rejected too often, or others leave because their very places are needed.
    """
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
            if kept_first and _is_over(job_id, scheme, view):
                continue
            shares = book.reserved.get(job_id, start.allocation.shares)
            if not all(map(has, shares)):
                shares = start.allocation.shares
            if all(map(has, shares)):
                _take(shares, draft)
                found.append((job_id, shares))
    draft.rollback(mark)
    yield from found


def _is_over(job_id: JobId, scheme: Decentralised, view: View) -> bool:
    """Say whether nobody came for what was kept for a job, for as long as it is kept."""
    since_us = view.reservations.get(job_id, view.now_us)
    return not scheme.built_in and view.now_us >= since_us + scheme.reserve_for_us


def _take(shares: Sequence[Share], draft: Draft) -> None:
    for share in shares:
        draft.take(share)


def _gpus(shares: Sequence[Share]) -> int:
    return sum([share.gpus for share in shares])
