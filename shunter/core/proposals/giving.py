"""What running jobs give up of CPUs and memory so that a proposed gang has its own.

A gang is granted where its GPUs are free. What goes beside them others may have, above what they
must have (Synergy's tuning): the proposal says what each of them would give up. No more of that is
done than the first candidate needs whose GPUs are free, and nothing where none is granted.
"""

from collections.abc import Sequence

from shunter.core.planning.approver import Check, Refusal
from shunter.core.planning.plan import Reshape
from shunter.core.planning.reshaping import refused_shape
from shunter.core.state import Job
from shunter.events.values.allocation import Allocation


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
