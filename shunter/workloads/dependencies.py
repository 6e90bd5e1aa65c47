"""Jobs that wait for other jobs of their trace: no loose ends, no circles."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shunter.errors import TraceError
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.quality import Fault, Inspection
from shunter.workloads.trace import TraceJob

__all__ = ["settle_dependencies"]


def settle_dependencies(
    path: str,
    selected: Sequence[TraceJob],
    dependents: Iterable[tuple[TraceJob, int]],
    inspection: Inspection,
) -> None:
    """Take dependencies on jobs that were not selected as met; note each.

    `dependents` are the jobs of the whole file that depend on any, with their places.

    Raises:
        TraceError: jobs wait for each other in a circle; they could never start.
    """
    ids = {job.job_id for job in selected}
    specs: dict[JobSpec, JobSpec] = {}
    inside = [(job, place) for job, place in dependents if job.job_id in ids]
    for job, place in inside:
        within = tuple(each for each in job.spec.depends_on if each.job_id in ids)
        if len(within) < len(job.spec.depends_on):
            lost = next(each.job_id for each in job.spec.depends_on if each.job_id not in ids)
            inspection.note(Fault.outside, "depends_on", lost, place)
            spec = replace(job.spec, depends_on=within)
            job.spec = specs.setdefault(spec, spec)
    _refuse_circles(path, [job for job, _ in inside])


def _refuse_circles(path: str, jobs: Sequence[TraceJob]) -> None:
    """Take away jobs that wait for nothing, until none or only circles are left."""
    needs = {job.job_id: len({each.job_id for each in job.spec.depends_on}) for job in jobs}
    waited_by: dict[JobId, list[JobId]] = {}
    for job in jobs:
        for needed in dict.fromkeys(each.job_id for each in job.spec.depends_on):
            waited_by.setdefault(needed, []).append(job.job_id)
    free = [needed for needed in waited_by if not needs.get(needed)]
    while free:
        for waiting in waited_by.get(free.pop(), ()):
            needs[waiting] -= 1
            if not needs[waiting]:
                free.append(waiting)
    stuck = [job_id for job_id, count in needs.items() if count]
    if stuck:
        shown = ", ".join(stuck[:5]) + (", …" if len(stuck) > 5 else "")
        raise TraceError(f"{path}: jobs {shown} depend on each other in a circle: remove one link")
