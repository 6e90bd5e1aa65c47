"""What became of the proposals of a run: how many collided, and how long approval took.

A job's approval takes from the instant at which the order let it start up to the one at which a
proposal for it was approved.
"""

from dataclasses import asdict, dataclass, field
from typing import TypedDict

from shunter.core.interfaces import Observers
from shunter.core.metrics import distribution_of
from shunter.core.proposals.book import ProposalBook
from shunter.core.view import View
from shunter.events.facts import JOB_ENDS, Event, GangApproved, RoundPlanned
from shunter.events.values import JobId


class ProposalsDocument(TypedDict):
    """The part of a run's document about proposals; docs/reference/results.md."""

    proposed: int
    approved: int
    rejected: int
    conflicts: int
    conflict_rate: float
    approval_s: dict[str, float | None]


@dataclass(slots=True)
class ProposalNumbers:
    """Follows who is admitted, at the instants `admitted_us`, and approved."""

    admitted_us: list[int] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    _since_us: dict[JobId, int] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it listens to."""
        return {
            RoundPlanned: self._planned,
            GangApproved: self._approved,
            **dict.fromkeys(JOB_ENDS, self._ended),
        }

    def document(self, book: ProposalBook) -> ProposalsDocument:
        """Return counts, the conflict rate, and times to approval in seconds."""
        times = distribution_of(self.waits_s)
        return {
            "proposed": book.proposed,
            "approved": book.approved,
            "rejected": book.rejected,
            "conflicts": book.conflicts,
            "conflict_rate": book.conflict_rate,
            "approval_s": asdict(times),
        }

    def _planned(self, event: RoundPlanned, view: View) -> None:
        for job_id in event.admitted:
            self._since_us[job_id] = event.at_us
            self.admitted_us.append(event.at_us)
        for job_id in event.dismissed:
            self._since_us.pop(job_id, None)

    def _approved(self, event: GangApproved, view: View) -> None:
        since_us = self._since_us.pop(event.job_id, None)
        if since_us is not None:
            self.waits_s.append((event.at_us - since_us) / 1e6)

    def _ended(self, event: Event, view: View) -> None:
        self._since_us.pop(getattr(event, "job_id", JobId("")), None)
