"""Jobs without GPUs, among whom no objective divides anything: they start where there is room."""

from collections.abc import Sequence

from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.planning.plan import Change, Move, Start, Suspend
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import NodeName
from shunter.events.values.reasons import Because, Reason


def cpu_starts(placement: Placement, view: View, changes: Sequence[Change]) -> list[Change]:
    """Return starts in the order of submission, on servers without GPUs first.

    They are placed on what is free now and left by the other changes of the plan: jobs with GPUs
    go first, and what those free that leave is theirs.
    """
    waiting = [job for job in view.jobs.values() if not job.spec.gpus and job.is_eligible]
    if not waiting:
        return []
    starts: list[Change] = []
    with Draft(view) as draft:
        for share in _taken(changes, view):
            draft.take(share)
        for job in waiting:
            found = draft.place_without_gpus(placement, job.demand)
            if not isinstance(found, Reason):
                starts.append(Start(job.job_id, Allocation(found), Because("spare_cpus")))
    return starts


def _taken(changes: Sequence[Change], view: View) -> list[Share]:
    """Return what changes take of servers' CPUs and memory beyond what they free."""
    net: dict[NodeName, tuple[int, int]] = {}
    for change in changes:
        shares: list[tuple[int, Share]] = []
        if isinstance(change, Suspend | Move):
            shares += [(-1, share) for share in view.jobs[change.job_id].allocation.shares]
        if isinstance(change, Start | Move):
            shares += [(1, share) for share in change.allocation.shares]
        for sign, share in shares:
            cpus_milli, memory_mb = net.get(share.node, (0, 0))
            net[share.node] = (
                cpus_milli + sign * share.cpus_milli,
                memory_mb + sign * share.memory_mb,
            )
    return [
        Share(node, 0, max(0, cpus_milli), max(0, memory_mb))
        for node, (cpus_milli, memory_mb) in net.items()
    ]
