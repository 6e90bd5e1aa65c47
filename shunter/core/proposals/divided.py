"""What of a plan job schedulers propose, and what the plan itself carries out.

Proposed are the starts of gangs that wait and are to have their GPUs to themselves: each of them
can be granted or not without regard to the rest of the plan. All else is the plan's own. Moves rest
on what others leave in the same plan, jobs that share GPUs are started beside each other, and a
gang that goes round in a circle has left before it starts; and where others are moved for a gang,
moves and start are one. Those come first, so that what is granted to a proposal was left by all.
"""

from shunter.core.planning.making_room import ROOM_MADE
from shunter.core.planning.plan import Change, Plan, Start, Suspend
from shunter.events.values.allocation import Sharing

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
