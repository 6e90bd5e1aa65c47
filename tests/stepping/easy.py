"""EASY backfilling as its papers tell it (Lifka 1995; Mu'alem and Feitelson 2001)."""

from dataclasses import dataclass

from shunter.core import Job, View
from tests.stepping.room import Room


@dataclass(frozen=True)
class End:
    """The latest end of a job, and the GPUs it frees."""

    at_us: int
    pool: str
    queue: str
    gpus: int


def backfilled(
    order: list[Job], starts: list[tuple[Job, str]], room: Room, view: View, no_limit_us: int
) -> list[tuple[Job, str]]:
    """Return who starts behind the first of `order`, the head, without delaying it.

    `starts` are the jobs before the head that start now.
    """
    head, found = order[0], list[tuple[Job, str]]()
    shadow = _shadow(head, starts, room, view, no_limit_us)
    for job in order[1:]:
        for pool in room.pools_for(job):
            if shadow is not None and pool == shadow.pool:
                late = _end(job, pool, view, no_limit_us).at_us > shadow.start_us
                if late and job.spec.gpus > shadow.spare:
                    continue
                shadow.spare -= job.spec.gpus if late else 0
            room.start(job, pool)
            found.append((job, pool))
            break
    return found


class Shadow:
    """When the head will start, where, and how many GPUs it leaves to others then."""

    def __init__(self, pool: str, start_us: int, spare: int) -> None:
        self.pool = pool
        self.start_us = start_us
        self.spare = spare


def _shadow(
    head: Job, starts: list[tuple[Job, str]], room: Room, view: View, no_limit_us: int
) -> Shadow | None:
    """Return the earliest start of the head over the pools it accepts, the first of equals."""
    ends = _ends(starts, view, no_limit_us)
    found = [
        shadow
        for pool in list[str](head.spec.gpu_types or room.left)
        if (shadow := _shadow_in(pool, head, ends, room, view)) is not None
    ]
    return min(found, key=lambda shadow: shadow.start_us, default=None)


def _shadow_in(pool: str, head: Job, ends: list[End], room: Room, view: View) -> Shadow | None:
    wanted, queue = head.spec.gpus, head.spec.queue
    for start_us in sorted({view.now_us} | {end.at_us for end in ends}):
        gone = [end for end in ends if end.at_us <= start_us]
        free = room.loose.get(pool, 0) + sum(end.gpus for end in gone if end.pool == pool)
        quota = room.quotas.get(queue, wanted)
        quota += sum(end.gpus for end in gone if end.queue == queue)
        if free >= wanted and quota >= wanted:
            return Shadow(pool, start_us, free - wanted)
    return None


def _ends(starts: list[tuple[Job, str]], view: View, no_limit_us: int) -> list[End]:
    """Return when jobs reach their limits: those that run, and those that start now."""
    ends = []
    for job in view.jobs.values():
        if job.allocation.shares and not job.end_cause and job.exit_code is None:
            first = view.cluster.servers[job.allocation.shares[0].node]
            pool = first.configuration.gpu_type
            ends.append(_end(job, pool, view, no_limit_us))
    return ends + [_end(job, pool, view, no_limit_us) for job, pool in starts]


def _end(job: Job, pool: str, view: View, no_limit_us: int) -> End:
    limit_us, used_us = job.spec.time_limit_us, job.held_us
    if limit_us is None:
        limit_us = no_limit_us
    if job.since_us is not None:
        used_us += view.now_us - job.since_us
    return End(view.now_us + max(0, limit_us - used_us), pool, job.spec.queue, job.spec.gpus)
