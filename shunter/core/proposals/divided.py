"""What of a plan job schedulers propose, and what the plan itself carries out.

Proposed are the starts of gangs that wait and are to have their GPUs to themselves: each of them
can be granted or not without regard to the rest of the plan. All else is the plan's own. Moves rest
on what others leave in the same plan, jobs that share GPUs are started beside each other, and a
gang that goes round in a circle has left before it starts. Those come first, so that what is
granted to a proposal was left by all of them.
"""

from collections.abc import Iterable

from shunter.core.planning.draft import Draft
from shunter.core.planning.plan import Change, Pack, Plan, Reshape, Start, Suspend
from shunter.core.view import View
from shunter.events.values.allocation import Sharing

__all__ = ["carry_out", "divided"]

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
        and change.job_id not in leave
    ]
    names = {start.job_id for start in starts}
    return starts, tuple([change for change in plan.changes if change.job_id not in names])


def carry_out(changes: Iterable[Change], draft: Draft, view: View) -> None:
    """Do in a draft what a plan changes; whether it may is not asked here."""
    for change in changes:
        job = view.jobs.get(change.job_id)
        if job is None:
            continue  # the approver refuses it
        if type(change) is Pack:
            draft.open_up(job, change.allocation)
        elif type(change) is Reshape:
            draft.reshape(job.allocation, change.allocation)
        else:
            if type(change) is not Start:
                draft.free(job)
            if type(change) is not Suspend:
                draft.allocate(job, change.allocation)
