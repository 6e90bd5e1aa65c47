"""Moves of several jobs in one plan, in an order in which each finds its GPUs free."""

from collections.abc import Mapping

from shunter.core.cluster import Health
from shunter.core.planning.plan import Change, Move, Start, Suspend
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Share, Sharing
from shunter.events.values.ids import JobId, NodeName

_EXCLUSIVE, _UP = Sharing.exclusive, Health.up  # members are slow to look up


def may_move_evicted(job: Job, view: View) -> bool:
    """Say whether the plan that evicts a job may give it other GPUs at once.

    One that shares its GPUs, or whose checkpoint would be out of reach, waits as others do.
    """
    return (
        job.spec.migratable
        and not job.is_on_hold
        and job.allocation.sharing is _EXCLUSIVE
        and all(view.cluster.servers[share.node].health is _UP for share in job.allocation.shares)
    )


def untangled(moves: Mapping[JobId, Move], view: View) -> tuple[list[Change], list[Change]]:
    """Return what breaks circles, and moves that find what they need free in turn.

    Those that move in a circle are suspended and started by one plan. A job whose CPUs or memory
    are not free yet waits for all that leave the server.
    """
    held: dict[NodeName, list[tuple[int, JobId]]] = {}
    for job_id in moves:
        for share in view.jobs[job_id].allocation.shares:
            held.setdefault(share.node, []).append((share.gpu_mask, job_id))
    before = {
        job_id: {
            other
            for share in move.allocation.shares
            for mask, other in held.get(share.node, ())
            if other != job_id and (mask & share.gpu_mask or _is_short(share, view))
        }
        for job_id, move in moves.items()
    }
    straight: list[Change] = []
    pending = dict(moves)
    while pending:
        free = [job_id for job_id in pending if before[job_id].isdisjoint(pending)]
        if not free:
            break
        straight += [pending.pop(job_id) for job_id in free]
    circles: list[Change] = [Suspend(job_id, move.because) for job_id, move in pending.items()]
    starts = [Start(job_id, move.allocation, move.because) for job_id, move in pending.items()]
    return circles, [*straight, *starts]


def _is_short(share: Share, view: View) -> bool:
    """Say whether a server has not the CPUs or memory of a share free now."""
    if share.beside.are_gpus_alone:
        return False
    return not share.beside.fit_beside(view.cluster.servers[share.node].beside_free)
