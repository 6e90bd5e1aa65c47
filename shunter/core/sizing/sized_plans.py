"""A plan with the sizes of all that it starts, moves and lets go on."""

from shunter.core.planning.plan import EMPTY_PLAN, Change, Move, Plan, Start, Suspend
from shunter.core.sizing.servers import size_servers
from shunter.core.sizing.sizing_input import SizingInput
from shunter.events.values.allocation import Allocation
from shunter.events.values.fact import replace

__all__ = ["sized_plan"]


def sized_plan(plan: Plan, given: SizingInput, *, is_drafted: bool) -> Plan:
    """Return a plan in which jobs get their sizes, and those that run others where they should.

    Suspensions come first, then what jobs give up and get, and then all that needs it.

    Args:
        plan: what the policy wants; jobs have what they are guaranteed.
        given: the round that it makes.
        is_drafted: whether changed sizes alone need no approval.
    """
    sized = size_servers(given)
    if not (plan.changes or sized.reshapes):
        return plan
    if plan is EMPTY_PLAN:
        return Plan(sized.reshapes, is_drafted=is_drafted)
    leave: list[Change] = []
    come: list[Change] = []
    for change in plan.changes:
        if type(change) is Suspend:
            leave.append(change)
        elif type(change) is Start or type(change) is Move:
            shares = sized.starts[change.job_id]
            come.append(replace(change, allocation=Allocation(shares)))
        else:
            come.append(change)
    return replace(plan, changes=(*leave, *sized.reshapes, *come))
