"""What holds back each class of equal waiting jobs, told when it changes."""

from shunter.core.planning.guards import Band
from shunter.core.ranking.keys import ordinal_of, pack
from shunter.core.ranking.ranked_usage import RankedUsage
from shunter.core.ranking.ranking import NO_POOL
from shunter.core.ranking.selection import Walk
from shunter.core.ranking.waiting_class import WaitingClass
from shunter.core.view import View
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import ClassWait, Reason, Wait

_BLOCKERS = 3
_OUTRANKED, _NO_CAPACITY = Reason.outranked, Reason.no_capacity
_PINNED_END = pack(Band.starved, 1 << 22, 0, 0)


def class_waits(walk: Walk, view: View) -> tuple[ClassWait, ...]:
    """Return the classes whose reason is not the recorded one (all, if asked for)."""
    ranking, picked = walk.ranking, walk.picked
    started: dict[int, int] = {}
    moved = set[JobId]()
    for entry, _ in picked.starts:
        number = entry.number
        if entry.pool is NO_POOL:
            started[number] = started.get(number, 0) + 1
        else:
            moved.add(entry.job_id)
    left = {victim.number for victim in picked.victims if victim.job_id not in moved}
    usual = _OUTRANKED if walk.preemptive else _NO_CAPACITY
    queued = 0 if walk.skips else max(walk.free.values(), default=0)
    misfits, every = picked.misfits, view.all_reasons
    guarded = bool(view.guards.min_runtime_us or view.guards.preemptions_per_hour is not None)
    found: list[ClassWait] = []
    for waiting in ranking.classes:
        number = waiting.number
        if not waiting.keys or (number in started and waiting.count == started[number]):
            if waiting.recorded is not None and number not in left:
                found.append(ClassWait(waiting.demand, None))
            continue
        reason = waiting.barrier or (misfits.get(number, usual) if misfits else usual)
        if reason is usual and waiting.gpus <= queued:
            reason = _OUTRANKED
        elif guarded and reason is _OUTRANKED:
            reason = _guard(waiting, walk, view) or reason
        if every or waiting.recorded is not reason:
            wait = Wait(
                reason, waiting.gpus, _free(waiting, reason, walk), _blockers(waiting, walk)
            )
            found.append(ClassWait(waiting.demand, wait))
    return tuple(found)


def _free(waiting: WaitingClass, reason: Reason, walk: Walk) -> int:
    """Return how many GPUs the class finds free after this plan."""
    if reason is Reason.quota:
        return max(0, walk.quota_free[waiting.demand.queue])
    names = waiting.demand.gpu_types or walk.free
    return max((walk.free[name] for name in names if name in walk.free), default=0)


def _blockers(waiting: WaitingClass, walk: Walk) -> tuple[JobId, ...]:
    """Return the head it must not overtake, and the running jobs that rank last."""
    picked, ranking = walk.picked, walk.ranking
    found: list[JobId] = []
    if not walk.skips and picked.head and picked.head.key < waiting.keys[waiting.first]:
        found.append(picked.head.job_id)
    for name in waiting.demand.gpu_types or walk.free:
        budget = ranking.pools.get(name, RankedUsage())
        last = reversed(budget.keys[-_BLOCKERS:])
        found.extend(ranking.by_ordinal[ordinal_of(key)].job_id for key in last)
    return tuple(found[:_BLOCKERS])


def _guard(waiting: WaitingClass, walk: Walk, view: View) -> Reason | None:
    """Return the guard that keeps GPUs from a class which would be enough for it."""
    for name in waiting.demand.gpu_types or walk.free:
        budget = walk.ranking.pools.get(name)
        if budget is None:
            continue
        pinned = budget.total - budget.after(_PINNED_END)
        first = waiting.keys[waiting.first]
        if pinned and walk.free[name] + budget.after(first) + pinned >= waiting.gpus:
            job = view.jobs[walk.ranking.entry_at(budget.keys[0]).job_id]
            return view.guards.pinned_by(job, view.now_us)
    return None
