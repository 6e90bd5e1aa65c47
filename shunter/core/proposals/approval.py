"""The approver of proposals: a gang is granted whole on the state of the GPUs, or not at all.

What counts is whether the GPUs are free now, not how old the view is in which they were found
(optimistic concurrency; Xiao, SOSP student research competition 2017). All that is checked of the
changes of a plan is checked here as well, by the same code: health, GPUs, types, CPUs, memory,
quota, level, split. Guarded jobs keep their GPUs, which are not free. And GPUs that are kept for
another job are as good as taken.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from shunter.core.planning.approver import Check, Refusal, no_such_job, refused_shape
from shunter.core.planning.draft import Draft
from shunter.core.planning.guards import Guards
from shunter.core.planning.plan import Plan, Reshape
from shunter.core.proposals.scheme import Decentralised
from shunter.core.state import Job, State
from shunter.events.facts import (
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobReshaped,
    PlanRejected,
)
from shunter.events.records import fact
from shunter.events.values import (
    CALLER,
    PROPOSED,
    Allocation,
    JobId,
    NodeName,
    Reason,
    Share,
    Sharing,
)

# What running jobs give up of CPUs and memory so that a proposed gang has its own.
#
# A gang is granted where its GPUs are free. What goes beside them others may have, above what
# they must have (Synergy's tuning): the proposal says what each of them would give up. No more of
# that is done than the first candidate needs whose GPUs are free, and nothing where none is
# granted.


def taken_with(
    job: Job, target: Allocation, gives: Sequence[Reshape], check: Check
) -> tuple[Refusal | None, tuple[Reshape, ...]]:
    """Take an allocation for a job, after others have given up what it lacks.

    Args:
        job: for whom it is.
        target: the allocation.
        gives: what others can give up, in the order in which they do.
        check: what is left; as it was, where the allocation is refused.
    Returns:
        why the allocation cannot be had, and what they gave up.
    """
    mark, before = check.draft.mark, dict(check.reshaped) if gives else {}
    given = tuple(_given(target, gives, check)) if gives else ()
    refusal = check.take(job, target, job.demand)
    if refusal is None:
        return None, given
    if given:
        check.draft.rollback(mark)
        check.reshaped = before
    return refusal, ()


def _given(target: Allocation, gives: Sequence[Reshape], check: Check) -> list[Reshape]:
    """Let jobs give up what servers of an allocation lack; return what they did."""
    given = []
    for share in target.shares:
        server = check.servers.get(share.node)
        if server is None or not server.is_up:
            continue
        for give in gives:
            if check.draft.has_beside(share):
                break
            is_there = any(each.node == share.node for each in give.allocation.shares)
            if is_there and _gives_up(give, check):
                given.append(give)
    return given


def _gives_up(give: Reshape, check: Check) -> bool:
    """Let a job give something up, if it may and has not yet; say whether it did."""
    job = check.state.jobs.get(give.job_id)
    if job is None or job.job_id in check.otherwise:
        return False
    before, after = check.reshaped.get(job.job_id, job.allocation), give.allocation
    if before == after or refused_shape(job, after) is not None:
        return False
    pairs = zip(before.shares, after.shares, strict=True)
    if not all(new.beside.fit_beside(old.beside) for old, new in pairs):
        return False
    check.draft.reshape(before, after)
    check.reshaped[job.job_id] = after
    return True


KEPT = "kept for a job that was rejected too often"
NOT_ADMITTED = "the order does not let the job start now"

_EXCLUSIVE = Sharing.exclusive

Masks = Mapping[NodeName, Mapping[JobId, int]]


class Rules(Protocol):
    """What the approver needs to know of the rules of a round."""

    @property
    def guards(self) -> Guards:
        """Which jobs keep what they have."""

    @property
    def seed(self) -> int:
        """The seed of the back-off."""

    @property
    def instant(self) -> bool:
        """Whether what is granted is had at once."""

    @property
    def decentralised(self) -> Decentralised | None:
        """How job schedulers propose; None: they do not."""


@fact
class Granted:
    """Which candidate is granted, and what others gave up for it."""

    choice: int
    gives: tuple[Reshape, ...] = ()


@fact
class Refused:
    """Why the first candidate cannot be granted, nor any other; its taken GPUs."""

    reason: Reason
    detail: str
    conflicts: tuple[tuple[NodeName, int], ...] = ()


def settled(plan: Plan, check: Check, rules: Rules) -> Iterator[Event]:
    """Yield the facts of proposals, each checked on what those before it left.

    Args:
        plan: its changes have been made in the draft of the check.
        check: what is left, and takes what is granted.
        rules: those of the round.
    """
    state, now_us = check.state, check.now_us
    kept = kept_masks({promise.job_id: promise.shares for promise in plan.reservations})
    proposed: set[JobId] = set()
    for proposal in plan.proposals:
        job_id = proposal.job_id
        job = state.jobs.get(job_id)
        if job is None:
            yield no_such_job(job_id, "proposal", now_us)
            continue
        if job_id in proposed or not proposal.candidates:
            detail = "a plan proposes a job once, with one candidate or more"
            yield PlanRejected(now_us, job_id, Reason.refused, "proposal", detail)
            continue
        proposed.add(job_id)
        version = min(proposal.version, state.seq)
        yield GangProposed(now_us, job_id, version, proposal.candidates)
        granted = judged(job, proposal.candidates, check, kept, proposal.gives)
        if isinstance(granted, Refused):
            yield _rejected(granted, job, state, now_us, rules)
        else:
            target = proposal.candidates[granted.choice]
            for give in granted.gives:
                yield JobReshaped(now_us, give.job_id, give.allocation, give.because)
            yield GangApproved(now_us, job_id, state.seq, granted.choice)
            yield AllocationChanged(now_us, job_id, target, proposal.because, rules.instant)


def gang_reactions(
    state: State, rules: Rules
) -> dict[type[Event], Callable[[GangProposed, None], Sequence[Event]]]:
    """Return what follows from proposals: from those of callers, an answer."""

    def proposed(event: GangProposed, before: None) -> Sequence[Event]:
        return answered(event, state, rules) if event.cause == CALLER else ()

    return {GangProposed: proposed}


def answered(event: GangProposed, state: State, rules: Rules) -> list[Event]:
    """Return what follows from a proposal of a caller that has just been folded."""
    granted = looked_at(event, state, rules)
    job = state.jobs[event.job_id]
    if isinstance(granted, Refused):
        return [_rejected(granted, job, state, event.at_us, rules, CALLER)]
    target = event.candidates[granted.choice]
    return [
        GangApproved(event.at_us, job.job_id, state.seq, granted.choice, CALLER),
        AllocationChanged(event.at_us, job.job_id, target, PROPOSED, rules.instant),
    ]


def looked_at(event: GangProposed, state: State, rules: Rules) -> Granted | Refused:
    """Return which candidate of a caller's proposal can be granted now, or why none."""
    book, job = state.proposals, state.jobs[event.job_id]
    if rules.decentralised is None:
        return Refused(Reason.refused, "job schedulers do not propose here")
    if job.job_id not in book.admitted:
        wait = job.wait or state.class_waits.get(job.waits_as)
        return Refused(Reason.waiting_for_round if wait is None else wait.reason, NOT_ADMITTED)
    with Draft(state) as draft:
        check = Check(state, draft, rules.guards, event.at_us)
        return judged(job, event.candidates, check, kept_masks(book.reserved))


def judged(
    job: Job,
    candidates: tuple[Allocation, ...],
    check: Check,
    kept: Masks,
    gives: Sequence[Reshape] = (),
) -> Granted | Refused:
    """Take the first candidate that is wholly free; return which, or why none is.

    Args:
        job: for whom it is.
        candidates: the best first.
        check: what is left.
        kept: the masks of the GPUs that are kept for jobs, by server and job.
        gives: what others can give up of CPUs and memory.
    """
    if not job.is_eligible:
        return Refused(Reason.refused, f"the job is {job.phase}, on hold or blocked")
    first: tuple[Reason, str] | None = None
    for number, target in enumerate(candidates):
        refusal = _kept_from(job, target, kept) if kept else None
        if refusal is None and target.sharing is not _EXCLUSIVE:
            refusal = Reason.refused, "a gang that is proposed has its GPUs to itself"
        if refusal is None:
            refusal, given = taken_with(job, target, gives, check)
            if refusal is None:
                return Granted(number, given)
        first = first or refusal
    assert first is not None, "a proposal names a candidate"
    return Refused(*first, _conflicts(job, candidates[0], check, kept))


def kept_masks(reserved: Mapping[JobId, tuple[Share, ...]]) -> Masks:
    """Return the masks of the GPUs that are kept for jobs, by server."""
    found: dict[NodeName, dict[JobId, int]] = {}
    for job_id, shares in reserved.items():
        for share in shares:
            found.setdefault(share.node, {})[job_id] = share.gpu_mask
    return found


def _kept_from(job: Job, target: Allocation, kept: Masks) -> tuple[Reason, str] | None:
    for share in target.shares:
        if share.gpu_mask & _of_others(job, share.node, kept):
            return Reason.outranked, KEPT
    return None


def _of_others(job: Job, node: NodeName, kept: Masks) -> int:
    """Return the mask of the GPUs of a server that are kept for other jobs."""
    mask = 0
    for job_id, theirs in kept.get(node, {}).items():
        if job_id != job.job_id:
            mask |= theirs
    return mask


def _conflicts(
    job: Job, target: Allocation, check: Check, kept: Masks
) -> tuple[tuple[NodeName, int], ...]:
    """Return the masks of the GPUs of an allocation that are not free for a job."""
    found = []
    for share in target.shares:
        server = check.servers.get(share.node)
        if server is None:
            continue
        free = check.draft.pools[server.configuration.gpu_type].free[server.position]
        taken = share.gpu_mask & server.all_gpus & ~(free & ~_of_others(job, share.node, kept))
        if taken:
            found.append((share.node, taken))
    return tuple(found)


def _rejected(
    refused: Refused, job: Job, state: State, now_us: int, rules: Rules, cause: str = ""
) -> GangRejected:
    """Return the fact of a rejection, with when the job may be proposed again."""
    scheme, retry_us = rules.decentralised, None
    if scheme is not None:
        rejected = state.proposals.rejected_in_a_row(job.job_id) + 1
        retry_us = scheme.retry_at(job, rejected, now_us, rules.seed)
    return GangRejected(
        *(now_us, job.job_id, state.seq, refused.reason, refused.conflicts, cause, refused.detail),
        retry_us=retry_us,
    )
