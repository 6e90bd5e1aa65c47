"""Why an admitted job waits: nothing was proposed for it yet, or it was rejected."""

from collections.abc import Sequence

from shunter.core.proposals.book import ProposalBook
from shunter.events.values import JobId, NodeName, Reason, Wait

PROPOSING = (Reason.awaiting_proposal, Reason.proposal_rejected)
"""Why jobs wait that the order lets start, where job schedulers propose; never recorded."""


def proposal_wait_of(job_id: JobId, book: ProposalBook) -> Wait | None:
    """Return why a job waits that the order lets start; None: it does not."""
    if job_id not in book.admitted:
        return None
    last = book.rejections.get(job_id)
    return admitted_wait() if last is None else rejected_wait(last.conflicts)


def admitted_wait() -> Wait:
    """Return that a job may be proposed, and was not rejected since."""
    return Wait(Reason.awaiting_proposal)


def rejected_wait(conflicts: Sequence[tuple[NodeName, int]]) -> Wait:
    """Return that a job was rejected, with the masks that were not free for it."""
    detail = " ".join(f"{node}:{mask:#x}" for node, mask in conflicts)
    return Wait(Reason.proposal_rejected, detail=detail)
