"""From who shall run to a plan: suspensions, then starts with their GPUs, and what others wait for.

The simulators played here count GPUs and ask for nothing else, so any free ones will do.
"""

from collections.abc import Sequence

from shunter.core import EMPTY_PLAN, Change, Plan, Start, Suspend, View
from shunter.core.planning import Placement, place
from shunter.events import Allocation, Because, ClassWait, Demand, Reason, Wait
from shunter_peers.queueing.items import Item


def seated(
    view: View,
    placement: Placement,
    rule: str,
    started: list[Item],
    stopped: list[Item],
    waiting: Sequence[Demand],
) -> Plan:
    """Return the plan for these jobs; who finds no place is left out."""
    changes: list[Change] = []
    if started or stopped:
        _change(changes, view, placement, rule, started, stopped)
    waits = _waits(view, waiting) if waiting or view.class_waits else ()
    return Plan(tuple(changes), waits) if changes or waits else EMPTY_PLAN


def _change(
    changes: list[Change],
    view: View,
    placement: Placement,
    rule: str,
    started: list[Item],
    stopped: list[Item],
) -> None:
    scratch = [pool.copied() for pool in view.pools.values()]
    gainers = tuple([item.job_id for item in started[:4]])
    for item in stopped:
        changes.append(Suspend(item.job_id, Because("outranked", (item.queue,), gainers)))
        for share in view.jobs[item.job_id].allocation.shares:
            server = view.cluster.servers[share.node]
            for pool in scratch:
                if pool.gpu_type == server.configuration.gpu_type and server.is_up:
                    freed = share.gpu_mask & ~server.unavailable
                    pool.set_free(server.position, pool.free[server.position] | freed)
    for item in started:
        for pool in scratch:
            shares = place(placement, pool, item.demand)
            if not isinstance(shares, Reason):
                because = Because(rule, (item.queue,))
                changes.append(Start(item.job_id, Allocation(shares), because))
                break


def _waits(view: View, waiting: Sequence[Demand]) -> tuple[ClassWait, ...]:
    """Return the classes that begin or cease to wait; all that wait, if asked for."""
    told = view.class_waits
    demands = dict.fromkeys(waiting)
    free = sum(pool.gpus_free for pool in view.pools.values())
    found = [
        ClassWait(demand, Wait(Reason.outranked, demand.gpus, free))
        for demand in demands
        if view.all_reasons or demand not in told
    ]
    found += [ClassWait(demand, None) for demand in told if demand not in demands]
    return tuple(found)
