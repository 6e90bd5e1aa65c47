"""Jobs without GPUs, among whom no objective divides anything: they start where there is room."""

from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.planning.plan import Change, Start
from shunter.core.view import View
from shunter.events.values.allocation import Allocation
from shunter.events.values.reasons import Because, Reason

__all__ = ["cpu_starts"]


def cpu_starts(placement: Placement, view: View) -> list[Change]:
    """Return starts in the order of submission, on servers without GPUs first.

    They are placed on what was free before this plan; should it take more CPUs or memory there,
    the approver refuses them, and they are tried again.
    """
    waiting = [job for job in view.jobs.values() if not job.spec.gpus and job.is_eligible]
    if not waiting:
        return []
    starts: list[Change] = []
    with Draft(view) as draft:
        for job in waiting:
            found = draft.place_without_gpus(placement, job.demand)
            if not isinstance(found, Reason):
                starts.append(Start(job.job_id, Allocation(found), Because("spare_cpus")))
    return starts
