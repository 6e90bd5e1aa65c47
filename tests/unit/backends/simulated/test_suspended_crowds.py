"""Jobs of every suspend mode: what a suspension loses is lost to the scheduler's count as well."""

from itertools import pairwise
from typing import Any

from hypothesis import given, strategies as st

from shunter.backends.simulated import Costs
from shunter.core import JobLedger, Observers, View
from shunter.events import AllocationChanged, JobFinished, JobId, JobSuspended, SuspendMode
from shunter.workloads import TraceJob
from tests.factories import World, las_policy, run, servers, trace_job


@st.composite
def crowds(draw: st.DrawFn) -> tuple[TraceJob, ...]:
    """Draw jobs that make each other leave; those that lose work save now and then."""
    jobs = []
    for number in range(draw(st.integers(2, 6))):
        mode = draw(st.sampled_from([mode for mode in SuspendMode if mode.is_preemptible]))
        # Without checkpoints two jobs that always begin anew would never end.
        interval = draw(st.integers(1, 9)) if mode.loses_work else None
        jobs.append(
            trace_job(
                number,
                draw(st.integers(1, 4)),
                at=10 * number,
                lasts=draw(st.integers(1, 60)),
                suspend_mode=mode,
                checkpoint_interval_us=interval,
            )
        )
    return tuple(jobs)


@given(jobs=crowds(), suspend_us=st.integers(0, 5), resume_us=st.integers(0, 5))
def test_work_that_is_counted_at_the_end_is_all_there_was(
    jobs: tuple[TraceJob, ...], suspend_us: int, resume_us: int
) -> None:
    """Goal: work lost by a suspension is done again, and neither forgotten nor counted twice."""
    worked: dict[JobId, int] = {}
    ledger = JobLedger()

    def ended(event: Any, view: View) -> None:
        assert view.departed is not None, "an end without a job"
        worked[event.job_id] = view.departed.work_us

    costs = Costs(suspend_us=suspend_us, resume_us=resume_us)
    world = World(servers=servers(2, 2), jobs=jobs, costs=costs, round_us=10, until_us=5_000)
    told: list[Observers] = [ledger.observers(), {JobFinished: ended}]
    outcome = run(world, las_policy((15, 40)), listeners=told)
    assert worked == {job.job_id: job.duration_us for job in jobs}
    losing = {job.job_id for job in jobs if job.spec.suspend_mode.loses_work}
    assert {e.job_id for e in outcome.of(JobSuspended) if e.lost_us} <= losing
    places: dict[JobId, list[Any]] = {job.job_id: [] for job in jobs}
    for event in outcome.of(AllocationChanged):
        if event.allocation.shares:
            places[event.job_id].append(event.allocation.shares)
    moves = {
        job_id: sum(one != other for one, other in pairwise(seen))
        for job_id, seen in places.items()
    }
    assert {result.job_id: result.migrations for result in ledger.results()} == moves
