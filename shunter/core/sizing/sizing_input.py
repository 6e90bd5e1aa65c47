"""What sizing goes by in one round: who is where, who starts and leaves, and in which order."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from shunter.core.planning.plan import Move, Plan, Proposal, Start, Suspend
from shunter.core.sizing.book import SizeBook
from shunter.core.sizing.guarantees import Guarantees
from shunter.core.view import View
from shunter.events.values.allocation import Share
from shunter.events.values.ids import JobId

Shares = tuple[Share, ...]
Rank = Callable[[JobId], int]


class SizingInput(NamedTuple):
    """One round, with its starts placed and nobody sized.

    Attributes:
        guarantees: what each job must have.
        book: who is on which server.
        view: the cluster.
        starts: where jobs start, in order; they may be on GPUs that victims have yet to leave. Who
            is moved leaves and starts.
        victims: the jobs that leave; what they hold is still theirs for a while.
        rank: the place of a job in the order of the policy; lower is first.
        proposals: who may start on one of several places, and where that is nobody knows yet.
    """

    guarantees: Guarantees
    book: SizeBook
    view: View
    starts: Mapping[JobId, Shares]
    victims: Mapping[JobId, None]
    rank: Rank
    proposals: tuple[Proposal, ...] = ()

    @classmethod
    def of(
        cls, plan: Plan, guarantees: Guarantees, book: SizeBook, view: View, rank: Rank
    ) -> "SizingInput":
        """Return the round that a plan without sizes makes."""
        starts = {
            change.job_id: change.allocation.shares
            for change in plan.changes
            if type(change) is Start or type(change) is Move
        }
        leave = [change.job_id for change in plan.changes if type(change) in _LEAVING]
        return cls(guarantees, book, view, starts, dict.fromkeys(leave), rank, plan.proposals)


_LEAVING = (Suspend, Move)
