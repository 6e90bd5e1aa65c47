"""Jobs without GPUs, among whom no objective divides anything: they start where there is room."""

from collections.abc import Iterator

from shunter.core.cluster import CPU_POOL
from shunter.core.placement import Placement, place
from shunter.core.planning.plan import Change, Start
from shunter.core.view import View
from shunter.events.values.allocation import Allocation
from shunter.events.values.reasons import Because, Reason

__all__ = ["cpu_starts"]


def cpu_starts(placement: Placement, view: View) -> Iterator[Change]:
    """Yield starts in the order of submission, on servers without GPUs first.

    They are placed on what was free before this plan; should it take more CPUs or memory there,
    the approver refuses them, and they are tried again.
    """
    waiting = [job for job in view.jobs.values() if not job.spec.gpus and job.is_eligible]
    if not waiting:
        return
    scratch = {name: pool.copied() for name, pool in view.pools.items()}
    order = [CPU_POOL, *(name for name in scratch if name != CPU_POOL)]
    for job in waiting:
        for name in order:
            found = place(placement, scratch[name], job.demand) if name in scratch else None
            if found is not None and not isinstance(found, Reason):
                yield Start(job.job_id, Allocation(found), Because("spare_cpus"))
                break
