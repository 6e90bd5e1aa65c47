"""EASY backfill: jobs behind the head may start if they do not delay it.

The head of the queue gets a reservation: the first instant at which the declared limits of the
running jobs leave it enough GPUs. A job behind it starts now if its own limit ends before that
instant, or if it uses only GPUs which the head will not need then (Lifka, JSSPP 1995; Mu'alem and
Feitelson, IEEE TPDS 2001). A job that declared no limit counts as `default_limit_us`.
"""

from dataclasses import dataclass
from heapq import merge

from shunter.core.planning.plan import Reservation
from shunter.core.ranking.ranking import NO_POOL, Entry
from shunter.core.ranking.selection import Walk
from shunter.core.state import Job
from shunter.core.view import View


@dataclass(slots=True)
class Backfill:
    """The head's reservation: on which pool, from when, how many GPUs it leaves over."""

    pool: str
    start_us: int
    spare: int

    def allows(self, pool: str, gpus: int, ends_us: int) -> bool:
        """Say whether a start does not delay the head; count GPUs it takes for longer."""
        if pool != self.pool or ends_us <= self.start_us:
            return True
        if gpus > self.spare:
            return False
        self.spare -= gpus
        return True


def backfill(walk: Walk, view: View, default_limit_us: int) -> Reservation | None:
    """Let jobs behind the head of a finished walk start; return its reservation."""
    head = walk.picked.head
    if head is None:
        return None
    promise = _reserve(walk, head, view, default_limit_us)
    ranking = walk.ranking
    for key in merge(*(waiting.in_order for waiting in ranking.classes)):
        if key <= head.key:
            continue
        entry = ranking.entry_at(key)
        if key in walk.skipped:
            walk.picked.misfits.setdefault(entry.number, walk.skipped[key])
            continue
        ends_us = _ends_us(view.jobs[entry.job_id], view, default_limit_us)
        for pool in _fitting(walk, entry):
            if promise is None or promise.allows(pool, entry.gpus, ends_us):
                walk.take(entry, pool)
                break
    if promise is None:
        return None
    return Reservation(head.job_id, promise.start_us, head.gpus)


def _reserve(walk: Walk, head: Entry, view: View, default_limit_us: int) -> Backfill | None:
    """Return the earliest promise to the head, over its acceptable pools."""
    promises = [
        promise
        for pool in walk.ranking.classes[head.number].demand.gpu_types or walk.free
        if (promise := _reserve_in(pool, walk, head, view, default_limit_us)) is not None
    ]
    return min(promises, key=lambda promise: promise.start_us, default=None)


def _reserve_in(
    pool: str, walk: Walk, head: Entry, view: View, default_limit_us: int
) -> Backfill | None:
    """Return when the head has enough GPUs of a pool, and of its queue's quota."""
    ranking = walk.ranking
    queue = ranking.classes[head.number].demand.queue
    free, quota = walk.free.get(pool, 0), walk.quota_free.get(queue, head.gpus)
    starting = {entry.job_id: chosen for entry, chosen in walk.picked.starts}
    ends = sorted(
        (_ends_us(view.jobs[entry.job_id], view, default_limit_us), entry.ordinal)
        for entry in ranking.entries.values()
        if entry.pool != NO_POOL or entry.job_id in starting
    )
    at_us = view.now_us
    for end_us, ordinal in ends:
        if free >= head.gpus and quota >= head.gpus and end_us > at_us:
            break
        entry = ranking.by_ordinal[ordinal]
        free += entry.gpus if starting.get(entry.job_id, entry.pool) == pool else 0
        quota += entry.gpus if ranking.classes[entry.number].demand.queue == queue else 0
        at_us = max(at_us, end_us)
    if free < head.gpus or quota < head.gpus:
        return None
    return Backfill(pool, at_us, free - head.gpus)


def _fitting(walk: Walk, entry: Entry) -> list[str]:
    """Return all pools in which a job fits now, the most acceptable first."""
    waiting = walk.ranking.classes[entry.number]
    first = walk.fitting(waiting, entry.key)
    if first is None or not entry.gpus:
        return [] if first is None else [first]
    return [
        name
        for name in waiting.demand.gpu_types or walk.free
        if walk.free.get(name, 0) >= entry.gpus
        and not walk.is_barred(entry.number, name, entry.key)
    ]


def _ends_us(job: Job, view: View, default_limit_us: int) -> int:
    """Return when a job that runs, or starts now, reaches its declared limit."""
    limit_us = job.spec.time_limit_us
    left_us = (default_limit_us if limit_us is None else limit_us) - job.occupied_us(view.now_us)
    return view.now_us + max(0, left_us)
