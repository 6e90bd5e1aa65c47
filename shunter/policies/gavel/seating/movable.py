"""Who could lose its GPUs in a turn, and what there is then to divide."""

from collections.abc import Container, Sequence

from shunter.core.cluster import Gpu, gpus_of
from shunter.core.state import ENDING, Job
from shunter.core.view import View
from shunter.events.values.allocation import Sharing
from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.seating.choosing import Candidate, Room


def room_among(candidates: Sequence[Candidate], view: View) -> Room:
    """Return what candidates share: what is free, and what they hold."""
    gpus = {GpuType(name): pool.gpus_free for name, pool in view.pools.items()}
    quotas = {
        name: view.quota_free(name)
        for name, queue in view.queues.items()
        if queue.quota_gpus is not None
    }
    movable = {candidate.job.job_id for candidate in candidates}
    for candidate in candidates:
        if candidate.on is None:
            continue
        held, queue = candidate.job.allocation, candidate.job.spec.queue
        packed = held.sharing is Sharing.packed
        gpus[candidate.on] += len(left_by(candidate.job, movable, view)) if packed else held.gpus
        if queue in quotas:
            quotas[queue] += held.gpus
    return Room(gpus, quotas)


def left_by(job: Job, movable: Container[JobId], view: View) -> list[Gpu]:
    """Return the GPUs a job leaves free if all leave that may, a shared one once.

    It counts with the tenant that was submitted first.
    """
    found = [gpu for share in job.allocation.shares for gpu in gpus_of(share)]
    if job.allocation.sharing is not Sharing.packed:
        return found
    deciding = view.cluster.deciding
    return [
        gpu
        for gpu in found
        if deciding.of(gpu)[0] == job.job_id and all(who in movable for who in deciding.of(gpu))
    ]


def may_leave(job: Job, view: View, turn_us: int) -> bool:
    """Say whether a job could lose its GPUs in this turn, with those beside it.

    One whose start took time has its turn from its first mini-batch on.
    """
    if job.allocation.sharing is not Sharing.packed:
        return _may_leave(job, view, turn_us)
    together = (job.job_id, *view.partners(job))
    return all(_may_leave(view.jobs[name], view, turn_us) for name in together)


def _may_leave(job: Job, view: View, turn_us: int) -> bool:
    if job.end_cause or job.phase is ENDING or view.guards.pinned_by(job, view.now_us):
        return False
    counts_from_us = job.counts_from_us if turn_us and view.guards.launches_first else None
    if counts_from_us is not None and view.now_us < counts_from_us + turn_us:
        return False
    servers = view.cluster.servers
    return all(servers[share.node].is_up for share in job.allocation.shares)
