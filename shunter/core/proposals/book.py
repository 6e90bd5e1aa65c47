"""What is true of proposals: who may propose, who was rejected, which GPUs are kept for whom."""

from dataclasses import dataclass, field

from shunter.events.records import record
from shunter.events.values import JobId, NodeName, Reason, Share


@record
class Rejection:
    """The last rejection of a job's proposals, and how many there were in a row.

    `conflicts` are the masks of the GPUs that were not free for it, by server.
    """

    at_us: int
    count: int
    reason: Reason
    conflicts: tuple[tuple[NodeName, int], ...] = ()
    detail: str = ""
    retry_us: int | None = None


@dataclass(slots=True)
class ProposalBook:
    """The part of the state that is about proposals.

    `admitted` are the jobs that the order lets start and that have not started. `reserved` are the
    GPUs that proposals of other jobs may not have. The rest counts proposals since the log began;
    `conflicts` are those of the rejected ones that wanted GPUs which were not free for them.
    """

    admitted: dict[JobId, None] = field(default_factory=dict)
    rejections: dict[JobId, Rejection] = field(default_factory=dict)
    reserved: dict[JobId, tuple[Share, ...]] = field(default_factory=dict)
    approved: int = 0
    rejected: int = 0
    conflicts: int = 0

    @property
    def proposed(self) -> int:
        """How many proposals there were."""
        return self.approved + self.rejected

    @property
    def conflict_rate(self) -> float:
        """The part of all proposals that wanted GPUs which were not free for them."""
        return self.conflicts / self.proposed if self.proposed else 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any job."""
        return not (self.admitted or self.rejections or self.reserved)

    def rejected_in_a_row(self, job_id: JobId) -> int:
        """Return how often a job was rejected since it was admitted, or last approved."""
        known = self.rejections.get(job_id)
        return 0 if known is None else known.count

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job that has started, ended, or may not start now."""
        self.admitted.pop(job_id, None)
        self.rejections.pop(job_id, None)
        self.reserved.pop(job_id, None)
