"""Where the picked jobs go: in a draft, after the victims have left."""

from collections.abc import Sequence

from shunter.core.cluster import gpus_of
from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.ranking.ranking import Entry
from shunter.core.ranking.selection import Selection
from shunter.core.ranking.waiting import WaitingClass
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Reason

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up

Placed = dict[JobId, tuple[Share, ...]]


def place_starts(
    picked: Selection, placement: Placement, view: View, classes: Sequence[WaitingClass]
) -> Placed | tuple[Entry, str, Reason]:
    """Place starts in rank order; return the first that finds no place, and why."""
    placed: Placed = {}
    if not picked.starts:
        return placed
    with Draft(view) as draft:
        for victim in picked.victims:
            for share in _freed_by(victim, picked.victims, view):
                draft.give(share)
        for entry, pool in picked.starts:
            demand = classes[entry.number].demand
            if demand.gpus:
                shares = draft.place(placement, pool, demand)
            else:
                shares = draft.place_without_gpus(placement, demand)
            if isinstance(shares, Reason):
                return entry, pool, shares
            placed[entry.job_id] = shares
    return placed


def _freed_by(victim: Entry, victims: list[Entry], view: View) -> Sequence[Share]:
    """Return what is free once a victim has left, and the others have."""
    left = view.jobs[victim.job_id].allocation
    return left.shares if left.sharing is _EXCLUSIVE else _freed_of(left, victims, view)


def _freed_of(left: Allocation, victims: list[Entry], view: View) -> list[Share]:
    """Return the shares of a packed job with only the GPUs whose tenants all leave."""
    leaving = {victim.job_id for victim in victims}
    found = []
    for share in left.shares:
        mask = 0
        for gpu in gpus_of(share):
            if leaving.issuperset(view.cluster.deciding.of(gpu)):
                mask |= 1 << gpu[1]
        found.append(Share(share.node, mask, share.cpus_milli, share.memory_mb))
    return found
