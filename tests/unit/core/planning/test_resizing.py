"""Elastic gangs: which sizes a plan may give them, and what the wish of a person does."""

import pytest

from shunter.core import NO_GUARDS, Change, Guards, JobPhase, Plan, Resize, Start, State, View
from shunter.core.fold import apply, replay
from shunter.core.planning import Approval, Planner, approve, unfit_for_sizes
from shunter.events import (
    BY_POLICY,
    AllocationChanged,
    Because,
    Event,
    FactClass,
    GpusReleased,
    JobCancelRequested,
    JobResized,
    JobSpec,
    JobSuspended,
    Reason,
    RoundPlanned,
    SuspendMode,
    Trigger,
    class_of,
)
from tests.behaviour.waits_scenes import Row, check, rows
from tests.factories import (
    World,
    allocation,
    attempt_started,
    granted,
    job_id,
    job_submitted,
    quota,
    servers,
)
from tests.property.puppet import Puppet

J0, J1, J2, J3, J9 = (job_id(number) for number in (0, 1, 2, 3, 9))
WHY = Because("grow")
ELASTIC = {"gpus_min": 1, "gpus_max": 4}


def cluster(*more: Event) -> State:
    """Return two servers of four GPUs; job 0, elastic, runs on two of n0, jobs 1 and 2 wait."""
    return replay(
        [
            *servers(4, 4, cpus_milli=8000, memory_mb=64),
            quota("few", 3),
            job_submitted(0, 2, **ELASTIC),
            job_submitted(1, 2),
            job_submitted(2, 4, gpus_min=2, queue="few"),
            job_submitted(9, 1),
            granted(0, n0=0b11),
            attempt_started(0),
            *more,
        ]
    )


def approved(state: State, *changes: Change, guards: Guards = NO_GUARDS) -> Approval:
    return approve(Plan(changes), state, guards, state.now_us)


@pytest.mark.parametrize(
    "change",
    [
        Resize(J0, allocation(n0=0b1111), WHY),
        Resize(J0, allocation(n0=0b10), WHY),
        Resize(J0, allocation(n1=0b111), WHY),
        Resize(J2, allocation(n1=0b111), WHY),
    ],
    ids=["grows where it is", "shrinks", "grows elsewhere", "waits and starts smaller"],
)
def test_size_within_the_bounds_of_a_job_is_granted(change: Resize) -> None:
    assert approved(cluster(), change).granted == [change]


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (Resize(J0, allocation(n0=0b11), WHY), Reason.refused, "of that size already"),
        (Resize(J0, allocation(n0=0b11, n1=1), WHY), Reason.refused, "on one server"),
        (Resize(J1, allocation(n1=0b111), WHY), Reason.refused, "not elastic"),
        (Resize(J2, allocation(n1=1), WHY), Reason.refused, "takes 2 to 4 GPUs, not 1"),
        (Resize(J0, allocation(n1=0b11111), WHY), Reason.refused, "takes 1 to 4 GPUs, not 5"),
        (Resize(J0, allocation(n0=0b11111), WHY), Reason.refused, "takes 1 to 4 GPUs, not 5"),
        (Resize(J0, allocation(), WHY), Reason.refused, "takes 1 to 4 GPUs, not 0"),
    ],
    ids=str,
)
def test_size_that_may_not_be_is_refused_alone(change: Resize, reason: Reason, words: str) -> None:
    approval = approved(cluster(), change, Start(J9, allocation(n1=0b1000), WHY))
    assert [one.job_id for one in approval.granted] == [J9]
    (refused,) = approval.refused
    assert (refused.job_id, refused.reason) == (change.job_id, reason)
    assert words in refused.detail


def test_gpus_of_others_quotas_and_guards_bound_a_size_too() -> None:
    state = cluster(granted(1, n0=0b1100))
    (taken,) = approved(state, Resize(J0, allocation(n0=0b111), WHY)).refused
    assert taken.reason is Reason.no_capacity
    (pinned,) = approved(
        cluster(), Resize(J0, allocation(n0=1), WHY), guards=Guards(min_runtime_us=5)
    ).refused
    assert pinned.reason is Reason.guard_min_runtime
    full = cluster(job_submitted(3, 1, queue="few"), granted(3, n1=1))
    (bounded,) = approved(full, Resize(J2, allocation(n1=0b1110), WHY)).refused
    assert bounded.reason is Reason.quota
    assert approved(full, Resize(J2, allocation(n1=0b110), WHY)).granted


def test_job_that_loses_its_state_or_is_about_to_end_is_not_resized() -> None:
    state = cluster(
        job_submitted(3, 1, gpus_max=2, suspend_mode=SuspendMode.restart), JobCancelRequested(0, J0)
    )
    approval = approved(
        state, Resize(J3, allocation(n1=0b11), WHY), Resize(J0, allocation(n0=1), WHY)
    )
    assert not approval.granted
    assert "lose its state" in approval.refused[0].detail
    assert "nothing to give back" in approval.refused[1].detail


def test_planner_makes_a_decided_size_and_the_allocation_of_it() -> None:
    state, target = cluster(), allocation(n0=0b1111)
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    rules = World().rules(instant=False)
    puppet = Puppet(wishes=[Resize(J0, target, WHY), Resize(J0, allocation(n1=1), WHY)])
    facts = Planner(puppet, None, state, view, rules).decisions(7, Trigger.event)
    assert isinstance(facts[0], RoundPlanned)
    assert facts[1:3] == [JobResized(7, J0, 4, BY_POLICY), AllocationChanged(7, J0, target, WHY)]
    assert [class_of(fact) for fact in facts[1:3]] == [FactClass.decided] * 2
    assert class_of(JobResized(7, J0, 4, "ana")) is FactClass.commanded
    for fact in facts:
        apply(state, fact)
    job = state.jobs[J0]
    assert (job.phase, job.held, job.allocation) == (JobPhase.suspending, allocation(n0=3), target)
    for seen in (JobSuspended(9, J0, 1, None, 0), GpusReleased(9, J0, 1)):
        apply(state, seen)
    assert (job.phase, job.held, job.attempt, job.gpus) == (JobPhase.launching, target, 2, 4)
    assert (job.service_us(19), job.preemptions, job.migrations) == (2 * 9 + 4 * 10, 0, 0)


def test_sizes_are_counted_from_what_was_submitted() -> None:
    """Goal: no rounding adds up. Method: 1,000 thousandths of a CPU for 3 GPUs, there and back."""
    state = replay([*servers(4), job_submitted(0, 3, cpus_milli=1000, shapes=((3,), (2, 1)))])
    before = state.jobs[J0].spec
    for gpus in (1, 4, 2):
        apply(state, JobResized(0, J0, gpus))
    job = state.jobs[J0]
    assert (job.spec.gpus, job.spec.cpus_milli, job.submitted_spec) == (2, 667, before)
    apply(state, JobResized(0, J0, 3))
    assert (job.spec, job.first_spec) == (before, None)


LIVE = "live; servers 4; leaving takes 5"
TABLE = [
    *rows(f"""
a person resizes a job that runs, and it goes on with as many GPUs, and was not preempted
    {LIVE}; j0: 1 GPU, gpus_min=1, gpus_max=4; ana resizes j0 to 4 at 30; until 40
    => j0, then: 30: resized to 4, resized; 35: leaves, attempt 2 starts on n0[0,1,2,3]
    => j0, preemptions: 0
one that waits is resized, and nothing else happens; a second time neither
    {LIVE}; j1: 4 GPUs; j0: 2 GPUs, gpus_min=1, gpus_max=4; ana resizes j0 to 3 at 30;
    ana resizes j0 to 3 at 40
    => j0, then: 30: resized to 3
one that is ending is not
    {LIVE}; ending takes 99; j0: 4 GPUs, gpus_min=1; ana cancels j0 at 20; ana resizes j0 to 3 at 30
    => j0, then: 20: ana cancels
""")
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_persons_resize_jobs_as_the_row_says(case: Row) -> None:
    check(case)


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (JobSpec(2, gpus_min=3, gpus_max=2), "gpus_min", "gpus_max = 2 at most"),
        (JobSpec(2, gpus_min=3), "gpus_min", "gpus = 2 at most"),
        (JobSpec(2, gpus_min=0), "gpus_min", "1 at least"),
        (JobSpec(2, gpus_max=1), "gpus_max", "gpus = 2 at least"),
        (JobSpec(0, gpus_max=1), "gpus_max", "a job with GPUs"),
        (JobSpec(0, gpus_min=1), "gpus_min", "a job with GPUs"),
        (
            JobSpec(1, gpus_max=2, suspend_mode=SuspendMode.restart),
            "suspend_mode",
            "cooperative or signal",
        ),
    ],
    ids=str,
)
def test_contradiction_of_sizes_names_its_field(spec: JobSpec, field: str, words: str) -> None:
    found = unfit_for_sizes(spec)
    assert found is not None
    assert found[0] == field
    assert words in found[1]


@pytest.mark.parametrize(
    "spec", [JobSpec(2), JobSpec(0, cpus_milli=1), JobSpec(2, gpus_min=2), JobSpec(2, gpus_max=4)]
)
def test_sizes_that_agree_are_none(spec: JobSpec) -> None:
    assert unfit_for_sizes(spec) is None
