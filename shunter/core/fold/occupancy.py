"""How an allocation marks the cluster: alone on its GPUs, or packed beside others.

A GPU that several jobs share is decided (or held) from its first tenant on until its last one
leaves, so the bitmaps count it once; CPUs and memory are each job's own.
"""

from shunter.core.state import Job, State
from shunter.events.values.allocation import Allocation, Sharing

_PACKED = Sharing.packed  # members are slow to look up


def decide(state: State, job: Job) -> None:
    """Mark what was decided for a job as given away.

    Raises:
        IllegalEventError: somebody else has one of the GPUs and does not share it.
    """
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is _PACKED:
        shares = cluster.deciding.join(job.ordinal, job.job_id, shares)
    cluster.decide(shares)


def undecide(state: State, job: Job) -> None:
    """Mark what was decided for a job as free, but for GPUs with other tenants."""
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is _PACKED:
        shares = cluster.deciding.leave(job.ordinal, job.job_id, shares)
    cluster.undecide(shares)


def hold(state: State, job: Job, at_us: int) -> None:
    """Mark what was decided for a job as physically in use by it."""
    what, cluster = job.allocation, state.cluster
    shares = what.shares
    if what.sharing is _PACKED:
        _count_surplus(state, at_us)
        shares = cluster.holding.join(job.ordinal, job.job_id, shares)
    cluster.hold(shares)


def release(state: State, job: Job, at_us: int) -> None:
    """Mark what a job held as physically free, but for GPUs with other tenants."""
    what, cluster = job.held, state.cluster
    shares = what.shares
    if what.sharing is _PACKED:
        _count_surplus(state, at_us)
        shares = cluster.holding.leave(job.ordinal, job.job_id, shares)
    cluster.release(shares)


def open_up(state: State, job: Job, packed: Allocation, at_us: int) -> None:
    """Let a job that has its GPUs to itself have company from now on."""
    cluster = state.cluster
    _count_surplus(state, at_us)
    cluster.deciding.join(job.ordinal, job.job_id, packed.shares)
    cluster.holding.join(job.ordinal, job.job_id, packed.shares)
    job.allocation = job.held = packed


def may_launch(state: State, job: Job) -> bool:
    """Say whether nobody is left on the GPUs decided for a job but its partners."""
    what = job.allocation
    if what.sharing is _PACKED:
        return state.cluster.is_joinable(what.shares)
    return state.cluster.is_released(what.shares)


def _count_surplus(state: State, at_us: int) -> None:
    """Add up the GPU time that more than one job held, before that changes."""
    state.surplus_gpu_us = state.surplus_us(at_us)
    state.surplus_since_us = at_us
