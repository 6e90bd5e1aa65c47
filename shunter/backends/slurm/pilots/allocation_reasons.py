"""Why a node is held, waited for or not asked for: one sentence for people."""

from shunter.backends.slurm.batch_jobs import NOTICE_LEAD_MOST_S
from shunter.backends.slurm.limit_reasons import reason_in_words
from shunter.backends.slurm.pilots.allocation_view import (
    AllocationLimits,
    AllocationView,
    Pilot,
    PilotNode,
    PilotState,
)
from shunter.backends.slurm.quantities import duration
from shunter.events.values.ids import NodeName

NOTICE_SIGNAL = "SIGUSR1"
SURELY_EARLY_S = 5.0  # before the time limit, by clocks of two machines


def reason_of(
    node: PilotNode,
    holder: Pilot | None,
    asked: Pilot | None,
    view: AllocationView,
    limits: AllocationLimits,
    *,
    is_submitted: bool,
    is_unmet: bool,
) -> str:
    """Return why a node can be used, or cannot yet.

    Args:
        node: which.
        holder: the pilot that holds it.
        asked: the pilot that waits for it.
        view: what is known.
        limits: the bounds.
        is_submitted: whether it is asked for by this decision.
        is_unmet: whether jobs need it that it is not asked for.
    """
    name, now_s = node.name, view.now_s
    slurm, successor = _in_slurm(node, view, limits), ""
    if asked is not None:
        because = f" ({reason_in_words(asked.reason)})" if asked.reason else ""
        ago = duration(now_s - asked.asked_at_s)
        if holder is None:
            return f"waiting for Slurm to give node {name}, asked {ago} ago{because}{slurm}"
        successor = f"; its successor was asked for {ago} ago{because}"
    elif is_submitted and holder is not None:
        successor = "; its successor is asked for now"
    if holder is not None:
        left = duration(holder.left_s(now_s))
        if holder.state is PilotState.DRAINING or holder.left_s(now_s) <= limits.drain_lead_s(
            holder
        ):
            return f"node {name} is drained: {left} of its time limit are left{successor}{slurm}"
        return f"node {name} is held: {left} of its time limit are left{successor}{slurm}"
    if is_submitted:
        return f"Slurm is asked for node {name} now{slurm}"
    if slurm and (name in view.out_of_service or not view.limit_s(name, limits)):
        return slurm.removeprefix("; ")
    refusals = view.refusals.get(name)
    if refusals is not None and now_s < (retry_at_s := limits.retry_at_s(name, refusals)):
        wait = duration(retry_at_s - now_s)
        return f"Slurm refused node {name}: {refusals.cause}; it is asked again in {wait}"
    if is_unmet:
        taken = len({pilot.node for pilot in view.pilots})
        if taken < limits.pilots_max:
            return f"node {name} is asked for soon: {limits.submits_max} are at once"
        return (
            f"node {name} is not asked for: {taken} nodes are held or asked for, of "
            f"{limits.pilots_max} that pilots_max allows"
        )
    return f"node {name} is not asked for: no job that waits needs it"


def announced_end(signal: str, left_s: float, pilot: Pilot, now_s: float) -> str:
    """Return why a pilot is about to end that Slurm has sent a signal.

    Args:
        signal: its name; Slurm sends `NOTICE_SIGNAL` before the time limit, people at any time.
        left_s: how long the pilot lets its jobs save.
        pilot: which.
        now_s: when.
    """
    limit = f"its time limit of {duration(pilot.limit_s)} in Slurm"
    lead_s = NOTICE_LEAD_MOST_S if signal == NOTICE_SIGNAL else SURELY_EARLY_S
    began_s = pilot.asked_at_s if pilot.started_at_s is None else pilot.started_at_s
    if began_s + pilot.limit_s - now_s > lead_s:  # it began then or later
        why = "scancel or preemption"
    elif signal == NOTICE_SIGNAL and pilot.started_at_s is not None:
        why = limit
    else:
        why = f"scancel, preemption or {limit}"
    # SIGTERM may reach the processes of jobs at once; the notice reaches the pilot alone.
    whom = "" if signal == NOTICE_SIGNAL else " to programs that handle it"
    return f"Slurm has sent it {signal} ({why}), which leaves {duration(left_s)}{whom}"


def _in_slurm(node: PilotNode, view: AllocationView, limits: AllocationLimits) -> str:
    """Return what Slurm says of a node that bears on its use; nothing if nothing."""
    out = view.out_of_service.get(NodeName(node.name), "")
    kept = view.reservation(node.name)
    if not out and kept is not None and kept.start_s - view.now_s < limits.limit_s:
        out = kept.in_words(node.name)
    return f"; {out}" if out else ""
