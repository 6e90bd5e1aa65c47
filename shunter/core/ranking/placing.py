"""Where the picked jobs go: on a scratch of the pools, after the victims have left."""

from collections.abc import Sequence

from shunter.core.cluster import CPU_POOL, Pool, gpus_of
from shunter.core.placement import Placement, place
from shunter.core.ranking.ranking import Entry
from shunter.core.ranking.selection import Selection
from shunter.core.ranking.waiting import WaitingClass
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up

Placed = dict[JobId, tuple[Share, ...]]


def place_starts(
    picked: Selection, placement: Placement, view: View, classes: Sequence[WaitingClass]
) -> Placed | tuple[Entry, str, Reason]:
    """Place starts in rank order; return the first that finds no place, and why."""
    if not picked.starts:
        return {}
    scratch = _after_leaving(picked.victims, view)
    placed: Placed = {}
    for entry, pool in picked.starts:
        demand = classes[entry.number].demand
        if demand.gpus:
            shares = place(placement, scratch[pool], demand)
        else:
            shares = _place_without_gpus(demand, placement, scratch)
        if isinstance(shares, Reason):
            return entry, pool, shares
        placed[entry.job_id] = shares
    return placed


def _after_leaving(victims: list[Entry], view: View) -> dict[str, Pool]:
    """Return copies of the pools where the victims' GPUs, CPUs and memory are free."""
    scratch = {name: pool.copied() for name, pool in view.pools.items()}
    servers = view.cluster.servers
    for victim in victims:
        left = view.jobs[victim.job_id].allocation
        shares = left.shares if left.sharing is _EXCLUSIVE else _freed_of(left, victims, view)
        for share in shares:
            server = servers[share.node]
            pool = scratch[server.configuration.gpu_type]
            if server.is_up:
                position = server.position
                freed = share.gpu_mask & ~server.quarantined
                pool.set_free(position, pool.free[position] | freed)
                pool.cpus_free[position] += share.cpus_milli
                pool.memory_free[position] += share.memory_mb
    return scratch


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


def _place_without_gpus(
    demand: Demand, placement: Placement, scratch: dict[str, Pool]
) -> tuple[Share, ...] | Reason:
    """Place a CPU job, on a server without GPUs if there is room."""
    order = [CPU_POOL, *(name for name in scratch if name != CPU_POOL)]
    shares: tuple[Share, ...] | Reason = Reason.cpu_or_memory_short
    for name in order:
        if name in scratch:
            shares = place(placement, scratch[name], demand)
            if not isinstance(shares, Reason):
                return shares
    return shares
