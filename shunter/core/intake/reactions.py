"""What the core itself decides, without any policy: the facts that must follow others at once.

A job that can never run is rejected, a job whose dependency ended otherwise than it needs is
cancelled, and what was promised on a lost server is taken back. The scheduler emits these facts;
`replay --verify` expects them.
"""

from shunter.core.intake.admission import Admission
from shunter.core.state import GRANTED, SUSPENDING, Job, State
from shunter.events.facts.cluster import NodeLost
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.jobs import JobCancelled, JobRejected
from shunter.events.values.allocation import NOTHING
from shunter.events.values.causes import DEPENDENCY, HELD, NODE_LOST
from shunter.events.values.reasons import Reason

__all__ = ["DEPENDENCY", "HELD", "NODE_LOST", "to_end", "to_lost_node", "to_submission"]


def to_submission(
    state: State, admission: Admission, at_us: int, job: Job
) -> JobRejected | JobCancelled | None:
    """Return how a new job that can never run ends at once; None if it may wait."""
    refusal = admission.refusal(job.demand, job.spec.user, state.queue_of(job))
    if refusal is not None:
        return JobRejected(
            at_us, job.job_id, refusal.reason, refusal.needed, refusal.most, refusal.detail
        )
    deadline_us = job.spec.deadline_us
    if deadline_us is not None and deadline_us <= at_us:
        detail = "its deadline is not after its submission"
        return JobRejected(at_us, job.job_id, Reason.infeasible, 0, 0, detail)
    if job.blocked_by:
        pending = sum(1 for other in job.spec.depends_on if other.job_id in state.jobs)
        if job.blocked_by > pending:
            return JobCancelled(at_us, job.job_id, DEPENDENCY)
    return None


def to_end(state: State, at_us: int) -> list[JobCancelled]:
    """Return the ends of the jobs that needed the one that left to end otherwise."""
    return [JobCancelled(at_us, job_id, DEPENDENCY) for job_id in state.stranded]


def to_lost_node(state: State, lost: NodeLost) -> list[AllocationChanged]:
    """Return the withdrawals of what was promised on a lost server.

    That is where waiting jobs were to start and running ones to move, none of it launched yet.
    """
    return [
        AllocationChanged(lost.at_us, job_id, NOTHING, NODE_LOST)
        for job_id, job in state.jobs.items()
        if (job.phase is GRANTED or job.phase is SUSPENDING)
        and any(share.node == lost.node for share in job.allocation.shares)
    ]
