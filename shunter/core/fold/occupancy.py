"""How an allocation marks the cluster: alone on its GPUs, beside others, or in turn with them.

A GPU that several jobs share is decided (or held) from its first tenant on until its last one
leaves, so the bitmaps count it once; CPUs and memory are each job's own.
"""

from shunter.core.cluster import Gpu, gpus_of
from shunter.core.state import GRANTED, Job, State
from shunter.events.values import Allocation, Reason, Sharing, Wait

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def decide(state: State, job: Job) -> None:
    """Mark what was decided for a job as given away.

    Raises:
        IllegalEventError: somebody else has one of the GPUs and does not share it.
    """
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is not _EXCLUSIVE:
        shares = cluster.deciding.join(job.ordinal, job.job_id, what)
    cluster.decide(shares)


def undecide(state: State, job: Job) -> None:
    """Mark what was decided for a job as free, but for GPUs with other tenants."""
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is not _EXCLUSIVE:
        shares = cluster.deciding.leave(job.ordinal, job.job_id, what)
    cluster.undecide(shares)


def hold(state: State, job: Job, at_us: int) -> None:
    """Mark what was decided for a job as physically in use by it."""
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is not _EXCLUSIVE:
        count_overcommit(state, at_us)
        shares = cluster.holding.join(job.ordinal, job.job_id, what)
    cluster.hold(shares)


def release(state: State, job: Job, at_us: int) -> None:
    """Mark what a job held as physically free, but for GPUs with other tenants."""
    what, cluster = job.held, state.cluster
    shares = what.shares
    if what.sharing is not _EXCLUSIVE:
        count_overcommit(state, at_us)
        shares = cluster.holding.leave(job.ordinal, job.job_id, what)
    cluster.release(shares)


def hold_instead(state: State, job: Job, what: Allocation, at_us: int) -> None:
    """Mark other GPUs than before as physically in use by an attempt, or none."""
    release(state, job, at_us)
    job.held = what
    shares = what.shares
    if what.sharing is not _EXCLUSIVE:
        shares = state.cluster.holding.join(job.ordinal, job.job_id, what)
    state.cluster.hold(shares)


def open_up(state: State, job: Job, packed: Allocation, at_us: int) -> None:
    """Let a job that has its GPUs to itself have company from now on."""
    cluster = state.cluster
    count_overcommit(state, at_us)
    cluster.deciding.join(job.ordinal, job.job_id, packed)
    cluster.holding.join(job.ordinal, job.job_id, packed)
    job.allocation = job.held = packed


def rehome(state: State, job: Job, target: Allocation, at_us: int) -> None:
    """Let a job that takes turns have other GPUs of its server for its own."""
    undecide(state, job)
    if job.held == job.allocation:
        hold_instead(state, job, target, at_us)
    job.allocation = target
    decide(state, job)


def may_launch(state: State, job: Job) -> bool:
    """Say whether nobody is left on the GPUs decided for a job but its partners."""
    what = job.allocation
    if what.sharing is not _EXCLUSIVE:
        return state.cluster.is_joinable(what.shares)
    return state.cluster.is_released(what.shares)


def release_wait(state: State, job: Job) -> Wait | None:
    """Return who has yet to leave the GPUs granted to a job; None: none granted.

    `needed` are the GPUs it was granted, `free` those of them that nobody has to leave any more.
    """
    if job.phase is not GRANTED:
        return None
    granted = _gpus_of(job.allocation)
    leaving = {
        other.job_id: granted & _gpus_of(other.held) - _gpus_of(other.allocation)
        for other in state.jobs.values()
        if other.held.shares
    }
    blockers = tuple(job_id for job_id, gpus in leaving.items() if gpus)
    free = granted.difference(*leaving.values())
    return Wait(Reason.waiting_for_release, len(granted), len(free), blockers)


def _gpus_of(what: Allocation) -> set[Gpu]:
    return {gpu for share in what.shares for gpu in gpus_of(share)}


def count_overcommit(state: State, at_us: int, change: int = 0) -> None:
    """Add up the GPU time that more than one job held, before that changes."""
    state.overcommit_gpu_us = state.overcommit_us(at_us)
    state.overcommit_since_us = at_us
    state.cluster.holding.overcommit += change
