"""Other CPUs and memory for running jobs: what a plan may ask, and what becomes of it."""

import pytest

from shunter.core import NO_GUARDS, JobPhase, Plan, Reshape, State
from shunter.core.fold import apply, replay
from shunter.core.planning import Approval, approve
from shunter.errors import IllegalEventError
from shunter.events import NOTHING, Allocation, Because, Event, Reason, Share, Sharing, facts
from tests.factories import attempt_started, job_id, job_submitted, node_name, revoked, servers
from tests.property.invariants import check_resources

RULE = Because("rule")
J0, J1, J2 = job_id(0), job_id(1), job_id(2)


def shares(mask: int, cpus_milli: int, memory_mb: int, server: int = 0) -> Allocation:
    return Allocation((Share(node_name(server), mask, cpus_milli, memory_mb),))


def cluster(*more: Event) -> State:
    """Return a server of 4 GPUs, 8 CPUs and 64 MB; jobs 0 and 1 have half of it each."""
    events: list[Event] = [
        *servers(4, cpus_milli=8000, memory_mb=64),
        job_submitted(0, 2, cpus_milli=1000, memory_mb=8),
        job_submitted(1, 2),
        facts.AllocationChanged(0, J0, shares(0b0011, 4000, 32), RULE),
        attempt_started(0),
        facts.AllocationChanged(0, J1, shares(0b1100, 4000, 32), RULE),
        attempt_started(1),
        job_submitted(2, 2),
        *more,
    ]
    return replay(events)


def asked(state: State, *changes: Reshape) -> Approval:
    return approve(Plan(tuple(changes)), state, NO_GUARDS, 0)


def reshape(job: str, what: Allocation) -> Reshape:
    return Reshape(job_id(int(job[1:])), what, RULE)


def test_what_one_gives_up_another_gets_also_in_a_circle() -> None:
    changes = [reshape(J0, shares(0b0011, 6000, 16)), reshape(J1, shares(0b1100, 2000, 48))]
    approval = asked(cluster(), *changes)
    assert (approval.granted, approval.refused) == (changes, [])


def test_more_than_a_server_has_is_refused_to_all_that_stand_together() -> None:
    state = cluster()
    changes = [reshape(J0, shares(0b0011, 5000, 32)), reshape(J1, shares(0b1100, 3500, 32))]
    approval = asked(state, *changes)
    assert approval.granted == []
    assert [(event.job_id, event.reason) for event in approval.refused] == [
        (J0, Reason.cpu_or_memory_short),
        (J1, Reason.cpu_or_memory_short),
    ]


@pytest.mark.parametrize(
    ("what", "detail"),
    [
        (shares(0b0110, 4000, 32), "keeps its GPUs"),
        (shares(0b0011, -1, 32), "less than nothing"),
        (shares(0b0011, 500, 32), "less CPU or memory than the job asks for"),
        (Allocation(shares(0b0011, 4000, 32).shares, Sharing.packed), "keeps its GPUs"),
        (NOTHING, "keeps its GPUs"),
    ],
)
def test_change_that_is_none_of_shares_is_refused(what: Allocation, detail: str) -> None:
    approval = asked(cluster(), reshape(J0, what), reshape(J1, shares(0b1100, 3000, 32)))
    assert detail in approval.refused[0].detail
    assert [change.job_id for change in approval.granted] == [J1]


def test_job_that_waits_has_no_shares_to_change() -> None:
    approval = asked(cluster(), reshape("j2", shares(0b0011, 1000, 8)))
    assert approval.granted == []
    assert "has no shares to change" in approval.refused[0].detail


def test_job_is_reshaped_once_in_a_plan_and_only_if_there_is_one() -> None:
    once = reshape(J1, shares(0b1100, 3000, 32))
    approval = asked(cluster(), once, once, reshape("j9", shares(0b0011, 1000, 8)))
    assert [change.job_id for change in approval.granted] == [J1]
    assert [event.job_id for event in approval.refused] == [J1, "j9"]


def test_drained_server_shares_out_what_it_has() -> None:
    state = cluster(facts.NodeDrained(0, node_name(0), "ana"))
    less, more = reshape(J0, shares(0b0011, 2000, 32)), reshape(J1, shares(0b1100, 6000, 32))
    assert asked(state, less, more).granted == [less, more]
    assert asked(state, more).granted == []


def test_reshaped_job_works_on_with_other_shares() -> None:
    state = cluster()
    target = shares(0b0011, 1000, 8)
    apply(state, facts.JobReshaped(5, J0, target, RULE))
    job = state.jobs[J0]
    assert (job.phase, job.attempt, job.migrations) == (JobPhase.running, 1, 0)
    assert job.allocation == job.held == target
    assert state.cluster.servers[node_name(0)].beside_free.cpus_milli == 3000
    check_resources(state)


@pytest.mark.parametrize(
    ("name", "what"),
    [(0, shares(0b0110, 1000, 8)), (2, shares(0b0011, 1000, 8)), (9, shares(0b0011, 1000, 8))],
)
def test_fact_that_fits_no_job_is_illegal(name: int, what: Allocation) -> None:
    with pytest.raises(IllegalEventError):
        apply(cluster(), facts.JobReshaped(5, job_id(name), what, RULE))


def test_job_that_was_granted_gpus_starts_with_its_new_shares() -> None:
    state = cluster(
        revoked(0),
        facts.AllocationChanged(0, J2, shares(0b0011, 4000, 32), RULE),
        facts.JobReshaped(0, J2, shares(0b0011, 1000, 8), RULE),
        facts.JobSuspended(0, J0, 1, None, 0),
        facts.GpusReleased(0, J0, 1),
    )
    job = state.jobs[J2]
    assert (job.phase, job.held) == (JobPhase.launching, shares(0b0011, 1000, 8))
    check_resources(state)
