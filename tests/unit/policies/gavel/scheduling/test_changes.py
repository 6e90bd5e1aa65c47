"""From places to changes that the approver takes one after the other."""

from shunter.core import NO_GUARDS, Job, Plan, View
from shunter.core.fold import replay
from shunter.core.planning import approve
from shunter.events import Allocation, AllocationChanged, Because, Event, GpuType, JobId, Share
from shunter.policies.gavel import Candidate, Placements, changes_of
from tests.factories import BECAUSE, job_id, job_submitted, node_name, servers

V100 = GpuType("v100")


class Silent:
    """Says the same of everybody."""

    def placed(self, job: Job, gpu_type: GpuType) -> Because:
        return BECAUSE

    def left(self, job: Job, gpu_type: GpuType, gainers: tuple[JobId, ...]) -> Because:
        return BECAUSE


def test_jobs_that_change_places_for_their_cpus_leave_before_they_come() -> None:
    """Each moves to a GPU that is free, on a server whose CPUs the other one has."""
    homes = [Allocation((Share(node_name(node), 0b01, 8000),)) for node in (0, 1)]
    away = [Allocation((Share(node_name(node), 0b10, 8000),)) for node in (1, 0)]
    events: list[Event] = [*servers(2, 2, cpus_milli=8000)]
    events += [job_submitted(name, cpus_milli=8000) for name in (0, 1)]
    events += [
        AllocationChanged(0, job_id(name), homes[name], BECAUSE, instant=True) for name in (0, 1)
    ]
    state = replay(events)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    seats = Placements({job_id(name): (V100, away[name]) for name in (0, 1)})
    candidates = [Candidate(job, {V100: 1.0}, V100) for job in state.jobs.values()]

    plan = Plan(changes_of(seats, Silent(), candidates, view))

    approval = approve(plan, state, NO_GUARDS, 0)
    assert approval.refused == []
    assert len(approval.granted) == len(plan.changes) > 0
