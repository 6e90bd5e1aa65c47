"""The fold: what each fact makes true, and which facts cannot be true.

Tests read: given events, when one more, then what is true, or why it cannot be.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from shunter.core import Cluster, Health, JobPhase, State
from shunter.core.fold import RULES, apply, replay
from shunter.errors import IllegalEventError
from shunter.events import (
    DISPLACED,
    HELD,
    KINDS,
    NODE_LOST,
    NOTHING,
    RESIZED,
    Allocation,
    AllocationChanged,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Because,
    CheckpointSaved,
    Dependency,
    DependsWhen,
    Event,
    EventsLost,
    GangApproved,
    GangProposed,
    GangRejected,
    GpuQuarantined,
    GpuRestored,
    GpusReleased,
    JobCancelled,
    JobCancelRequested,
    JobFailed,
    JobGroupChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReleased,
    JobResized,
    JobSuspended,
    LaunchFailed,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    Outcome,
    PlanRejected,
    ProfileMeasured,
    ProfileSampled,
    Reason,
    ReservationSet,
    RoundPlanned,
    SegmentSealed,
    Share,
    Sharing,
    Size,
    SizesSet,
    TimeLimitReached,
    TurnEnded,
    TurnStarted,
    Wait,
    WaitReasonChanged,
    decode_record,
    encode_record,
)
from tests.factories import (
    BECAUSE,
    allocation,
    attempt_started,
    granted,
    job_finished,
    job_id,
    job_submitted,
    node_added,
    node_name,
    quota,
    revoked,
    round_planned,
    scheduler_started,
    servers,
)

J0, N0 = job_id(0), node_name(0)

QUEUED: list[Event] = [node_added(0, 4), job_submitted(0, 2), job_submitted(1, 2)]
LAUNCHED: list[Event] = [*QUEUED, granted(0, n0=0b11)]
RUNNING: list[Event] = [*LAUNCHED, attempt_started(0)]
SUSPENDING: list[Event] = [*RUNNING, revoked(0)]
ENDED: list[Event] = [*RUNNING, job_finished(0)]


def test_rules_cover_exactly_the_kinds_of_events() -> None:
    assert set(RULES) == set(KINDS.values())


class Illegal(NamedTuple):
    """A fact that cannot be true after a history, and what the error must say."""

    history: Sequence[Event]
    event: Event
    says: str


ILLEGAL = {
    "submitted twice": Illegal(QUEUED, job_submitted(0), "job j0 was submitted twice"),
    "end of an unknown job": Illegal(
        QUEUED, job_finished(7), "JobFinished of job j7, which is unknown"
    ),
    "end of an ended job": Illegal(
        ENDED,
        JobFailed(0, J0, "exit"),
        "JobFailed of job j0, which is unknown or has ended already",
    ),
    "second cancellation": Illegal(
        [*QUEUED, JobCancelled(0, J0)],
        JobCancelled(0, J0),
        "JobCancelled of job j0, which is unknown or has ended already",
    ),
    "rejection of an unknown job": Illegal(
        [], JobRejected(0, J0, Reason.infeasible), "JobRejected of job j0, which is unknown"
    ),
    "hold of an ended job": Illegal(ENDED, JobHeld(0, J0), "JobHeld of job j0"),
    "priority of an ended job": Illegal(
        ENDED, JobPriorityChanged(0, J0, 1), "JobPriorityChanged of job j0"
    ),
    "cancel request of an ended job": Illegal(
        ENDED, JobCancelRequested(0, J0), "JobCancelRequested of job j0"
    ),
    "time limit of an ended job": Illegal(
        ENDED, TimeLimitReached(0, J0, 1), "TimeLimitReached of job j0"
    ),
    "release without hold": Illegal(QUEUED, JobReleased(0, J0), "job j0 was released but not held"),
    "start of a waiting job": Illegal(
        QUEUED, attempt_started(0), "AttemptStarted of attempt 1 of job j0, which is at attempt 0"
    ),
    "start of another attempt": Illegal(
        LAUNCHED, attempt_started(0, attempt=2), "attempt 2 of job j0, which is at attempt 1"
    ),
    "second start": Illegal(RUNNING, attempt_started(0), "attempt 1 of job j0 started twice"),
    "second start while suspending": Illegal(
        SUSPENDING, attempt_started(0), "attempt 1 of job j0 started twice"
    ),
    "end of another attempt": Illegal(
        RUNNING, AttemptEnded(0, J0, 2, 0), "AttemptEnded of attempt"
    ),
    "loss of another attempt": Illegal(
        RUNNING, AttemptLost(0, J0, 2, "node"), "AttemptLost of attempt 2"
    ),
    "launch failure of a waiting job": Illegal(
        QUEUED, LaunchFailed(0, J0, 1, "x"), "LaunchFailed of attempt 1"
    ),
    "suspension of a waiting job": Illegal(
        QUEUED, JobSuspended(0, J0, 1), "JobSuspended of attempt 1"
    ),
    "checkpoint of an unknown job": Illegal(
        [], CheckpointSaved(0, J0, 1, "c"), "CheckpointSaved of job j0, which is unknown"
    ),
    "sample of another attempt": Illegal(
        RUNNING, ProfileSampled(0, J0, 3), "ProfileSampled of attempt 3"
    ),
    "release while running": Illegal(
        RUNNING, GpusReleased(0, J0, 1), "GPUs of job j0 were released while running"
    ),
    "release while launching": Illegal(
        LAUNCHED, GpusReleased(0, J0, 1), "GPUs of job j0 were released while launching"
    ),
    "second release": Illegal(
        [*SUSPENDING, GpusReleased(0, J0, 1)], GpusReleased(0, J0, 1), "GpusReleased of attempt 1"
    ),
    "GPUs given twice": Illegal(
        RUNNING, granted(1, n0=0b110), "GPUs 0x2 of node n0 were given away twice"
    ),
    "GPUs given twice at once": Illegal(
        RUNNING, granted(1, n0=0b110, instant=True), "GPUs of node n0 were given away twice"
    ),
    "GPUs of an unknown node": Illegal(QUEUED, granted(0, n9=1), "node n9 is not in the cluster"),
    "GPUs the node does not have": Illegal(
        QUEUED, granted(0, n0=0b11_0000), "node n0 has no GPUs 0x30"
    ),
    "GPUs the node does not have, at once": Illegal(
        QUEUED, granted(0, n0=0b11_0000, instant=True), "node n0 has no GPUs 0x30"
    ),
    "less than no CPUs": Illegal(
        QUEUED,
        AllocationChanged(0, J0, Allocation((Share(N0, 3, -1),)), BECAUSE),
        "less than nothing of node n0",
    ),
    "GPUs for an unknown job": Illegal(
        QUEUED, granted(7, n0=1), "AllocationChanged of job j7, which is unknown"
    ),
    "GPUs for an ending job": Illegal(
        [*RUNNING, JobCancelRequested(0, J0)],
        granted(0, n0=0b1100),
        "AllocationChanged of job j0, which is ending",
    ),
    "turns where nothing takes time": Illegal(
        QUEUED,
        AllocationChanged(
            0, J0, Allocation((Share(N0, 3),), Sharing.sliced), BECAUSE, instant=True
        ),
        "job j0 is to take turns where nothing takes time",
    ),
    "turn of a job that takes none": Illegal(
        RUNNING, TurnStarted(0, J0, 1, (Share(N0, 3),)), "TurnStarted of job j0, which takes no"
    ),
    "end of a turn of a job that takes none": Illegal(
        RUNNING, TurnEnded(0, J0, 1), "TurnEnded of job j0, which takes no turns"
    ),
    "node added twice": Illegal(QUEUED, node_added(0), "node n0 was added twice"),
    "node removed in use": Illegal(
        RUNNING, NodeRemoved(0, N0), "node n0 was removed while jobs held GPUs of it"
    ),
    "node removed while held only": Illegal(
        SUSPENDING, NodeRemoved(0, N0), "node n0 was removed while jobs held GPUs of it"
    ),
    "unknown node drained": Illegal([], NodeDrained(0, N0), "node n0 is not in the cluster"),
    "unknown node lost": Illegal([], NodeLost(0, N0), "node n0 is not in the cluster"),
    "removed node drained": Illegal(
        [node_added(0), NodeRemoved(0, N0)], NodeDrained(0, N0), "node n0 is not in the cluster"
    ),
    "restored without drain": Illegal(
        QUEUED, NodeRestored(0, N0), "node n0 was restored but not drained"
    ),
    "reachable while up": Illegal(
        QUEUED, NodeReachable(0, N0), "node n0 became reachable but always was"
    ),
    "GPU restored without quarantine": Illegal(
        QUEUED, GpuRestored(0, N0, 1), "GPU 1 of node n0 was not quarantined"
    ),
    "quarantine of a GPU there is not": Illegal(
        QUEUED, GpuQuarantined(0, N0, 4), "there is no GPU 4 on node n0"
    ),
    "quarantine on an unknown node": Illegal(
        [], GpuQuarantined(0, N0, 0), "there is no GPU 0 on node n0"
    ),
    "same term": Illegal(
        [scheduler_started(2)], scheduler_started(2), "term 2 was started after term 2"
    ),
    "falling term": Illegal(
        [scheduler_started(2)], scheduler_started(1), "term 1 was started after term 2"
    ),
    "round that saw the future": Illegal(
        QUEUED, round_planned(seen=4), "round 0 saw event 4 before it happened"
    ),
    "segment of the future": Illegal(
        QUEUED, SegmentSealed(0, 1, 4, "d"), "a segment up to 4 was sealed at 3"
    ),
    "loss of events that are there": Illegal(
        QUEUED, EventsLost(0, 4, 6, 9), "events 4 to 6 were noted as lost at 3"
    ),
    "loss of nothing": Illegal(
        QUEUED, EventsLost(0, 3, 1, 9), "events 3 to 1 were noted as lost at 3"
    ),
    "wait of an unknown job": Illegal(
        [], WaitReasonChanged(0, J0, Wait(Reason.held)), "WaitReasonChanged of job j0"
    ),
    "refusal of an unknown job": Illegal(
        [], PlanRejected(0, J0, Reason.refused, "r"), "PlanRejected of job j0"
    ),
    "size of an ended job": Illegal(
        ENDED, SizesSet(0, (Size(J0, 1000, 1),), 1.0, 1.0), "SizesSet of job j0"
    ),
    "promise to an ended job": Illegal(ENDED, ReservationSet(0, J0, 9), "ReservationSet of job j0"),
    "time going back": Illegal(
        [job_submitted(0, at=5)],
        job_submitted(1, at=4),
        "JobSubmitted at 4 us follows an event at 5 us",
    ),
    "proposal for an ended job": Illegal(
        ENDED, GangProposed(0, J0, 1, (allocation(n0=1),)), "GangProposed of job j0"
    ),
    "proposal without a candidate": Illegal(
        QUEUED, GangProposed(0, J0, 1, ()), "of job j0 names no candidate"
    ),
    "proposal that saw the future": Illegal(
        QUEUED, GangProposed(0, J0, 99, (allocation(n0=1),)), "goes by event 99 before it happened"
    ),
    "approval for an ended job": Illegal(
        ENDED, GangApproved(0, J0, 1, 0), "GangApproved of job j0"
    ),
    "rejection of no proposal": Illegal(
        QUEUED, GangRejected(0, J0, 1, Reason.refused, count=0), "of job j0 counts 0"
    ),
    "admission of an ended job": Illegal(
        ENDED, RoundPlanned(0, 0, 0, 0, admitted=(J0,)), "RoundPlanned of job j0"
    ),
    "resized to nothing": Illegal(RUNNING, JobResized(0, J0, 0), "to 0 GPUs"),
    "CPU job resized": Illegal(
        [job_submitted(0, gpus=0, cpus_milli=1000)], JobResized(0, J0, 2), "from 0 to 2 GPUs"
    ),
}
NOT_EMITTED = (JobGroupChanged(0, J0, "g"),)


@pytest.mark.parametrize("case", ILLEGAL.values(), ids=ILLEGAL)
def test_fact_that_does_not_fit_is_illegal_and_says_why(case: Illegal) -> None:
    state = replay(case.history)
    with pytest.raises(IllegalEventError) as caught:
        apply(state, case.event)
    assert case.says in str(caught.value)


@pytest.mark.parametrize("event", NOT_EMITTED, ids=lambda event: type(event).__name__)
def test_kind_that_is_not_emitted_yet_is_illegal(event: Event) -> None:
    state = replay(RUNNING)
    with pytest.raises(IllegalEventError, match=rf"{type(event).__name__} .*not emitted by this"):
        apply(state, event)


def test_measurement_of_a_model_changes_nothing() -> None:
    gpu_type = node_added().configuration.gpu_type
    before, after = replay(RUNNING), replay(RUNNING)
    apply(after, ProfileMeasured(0, "resnet", gpu_type, 1, 1.0))
    after.seq = before.seq
    assert after == before


@pytest.mark.parametrize("free", [Cluster.undecide, Cluster.vacate], ids=["decided", "both"])
def test_gpus_freed_twice_are_illegal(free: Any) -> None:
    cluster = replay(RUNNING).cluster
    free(cluster, allocation(n0=0b11).shares)
    with pytest.raises(IllegalEventError, match="GPUs of node n0 were freed twice"):
        free(cluster, allocation(n0=0b10).shares)


class Step(NamedTuple):
    """A fact, and what is true of one job and of node n0 after it."""

    event: Event
    phase: JobPhase
    decided: int
    held: int
    service_us: int
    occupied_us: int
    done_us: int


def told(state: State, event: Event, name: int) -> Step:
    """Fold a fact and return what is true then."""
    apply(state, event)
    return seen(state, event, name)


def seen(state: State, event: Event, name: int) -> Step:
    """Return what is true of a job and of server 0."""
    job, server, now_us = state.jobs[job_id(name)], state.cluster.servers[N0], state.now_us
    return Step(
        event,
        job.phase,
        server.decided,
        server.held,
        job.service_us(now_us),
        job.occupied_us(now_us),
        job.done_us(now_us),
    )


P = JobPhase


def test_job_with_costs_lives_from_launch_to_the_queue_and_back() -> None:
    """Job 0 runs, is suspended for job 1, and comes back with what it had done but 1 us."""
    steps = [
        Step(granted(0, 10, n0=3), P.launching, 0b11, 0b11, 0, 0, 0),
        Step(attempt_started(0, 14), P.running, 0b11, 0b11, 8, 4, 0),
        Step(revoked(0, 20), P.suspending, 0b00, 0b11, 20, 10, 6),
        Step(JobSuspended(22, J0, 1, lost_us=1), P.suspending, 0b00, 0b11, 24, 12, 7),
        Step(GpusReleased(25, J0, 1), P.waiting, 0b00, 0b00, 30, 15, 7),
        Step(granted(0, 40, n0=0b1100), P.launching, 0b1100, 0b1100, 30, 15, 7),
        Step(attempt_started(0, 43, 2), P.running, 0b1100, 0b1100, 36, 18, 7),
        Step(AttemptEnded(50, J0, 2, 0), P.ending, 0b1100, 0b1100, 50, 25, 14),
        Step(GpusReleased(52, J0, 2), P.ending, 0b1100, 0b0000, 54, 27, 14),
    ]
    state = replay(QUEUED)
    job = state.jobs[J0]
    assert [told(state, step.event, 0) for step in steps] == steps
    apply(state, job_finished(0, 52))
    server = state.cluster.servers[N0]
    assert (server.decided, server.held, state.jobs.get(J0)) == (0, 0, None)
    assert state.outcomes == {Outcome.finished: 1}
    assert (job.attempt, job.preemptions, job.migrations) == (2, 1, 0)
    assert (job.first_start_us, job.preempted_at_us) == (10, (20,))


def test_job_granted_gpus_of_another_is_launched_when_they_are_free() -> None:
    steps = [
        Step(granted(1, 20, n0=0b11), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(JobSuspended(21, J0, 1), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(GpusReleased(25, J0, 1), P.launching, 0b11, 0b11, 0, 0, 0),
        Step(attempt_started(1, 26), P.running, 0b11, 0b11, 2, 1, 0),
        Step(JobHeld(30, J0), P.running, 0b11, 0b11, 10, 5, 4),
    ]
    state = replay(SUSPENDING)
    assert [told(state, step.event, 1) for step in steps] == steps
    assert not state.granted


def test_job_granted_gpus_of_another_can_lose_them_before_it_had_them() -> None:
    steps = [
        Step(granted(1, 20, n0=0b11), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(revoked(1, 21), P.waiting, 0b00, 0b11, 0, 0, 0),
        Step(GpusReleased(25, J0, 1), P.waiting, 0b00, 0b00, 0, 0, 0),
    ]
    state = replay(SUSPENDING)
    assert [told(state, step.event, 1) for step in steps] == steps
    assert (state.jobs[job_id(1)].preemptions, len(state.granted)) == (0, 0)


def test_migrating_job_holds_its_old_gpus_until_it_leaves_them() -> None:
    steps = [
        Step(granted(0, 10, n0=0b1100), P.suspending, 0b1100, 0b0011, 20, 10, 10),
        Step(JobSuspended(11, J0, 1), P.suspending, 0b1100, 0b0011, 22, 11, 11),
        Step(GpusReleased(13, J0, 1), P.launching, 0b1100, 0b1100, 26, 13, 11),
        Step(attempt_started(0, 15, 2), P.running, 0b1100, 0b1100, 30, 15, 11),
    ]
    state = replay(RUNNING)
    assert [told(state, step.event, 0) for step in steps] == steps
    assert (state.jobs[J0].migrations, state.jobs[J0].preemptions) == (1, 0)


def test_job_with_other_cpus_on_its_gpus_has_not_migrated() -> None:
    more = Allocation((Share(N0, 1, 2000, 0),))
    state = replay(
        [
            node_added(0, cpus_milli=8000),
            job_submitted(0),
            granted(0, instant=True, n0=1),
            AllocationChanged(5, J0, more, BECAUSE, instant=True),
        ]
    )
    job = state.jobs[J0]
    assert (job.allocation, job.migrations, job.preemptions) == (more, 0, 0)


def test_migrating_job_waits_for_the_one_on_its_new_gpus() -> None:
    """Jobs 0 and 1 change places; each is launched when the other has left."""
    history = [*RUNNING, granted(1, 2, n0=0b1100), attempt_started(1, 2), revoked(1, 5)]
    state = replay([*history, granted(0, 5, n0=0b1100)])
    steps = [
        Step(GpusReleased(7, J0, 1), P.granted, 0b1100, 0b1100, 14, 7, 7),
        Step(GpusReleased(9, job_id(1), 1), P.launching, 0b1100, 0b1100, 14, 7, 7),
    ]
    assert [told(state, step.event, 0) for step in steps] == steps


def test_instant_decision_launches_and_suspends_in_one_fact() -> None:
    steps = [
        Step(granted(0, 10, n0=0b11, instant=True), P.running, 0b11, 0b11, 0, 0, 0),
        Step(granted(0, 20, n0=0b1100, instant=True), P.running, 0b1100, 0b1100, 20, 10, 10),
        Step(revoked(0, 30, instant=True), P.waiting, 0, 0, 40, 20, 20),
    ]
    state = replay(QUEUED)
    assert [told(state, step.event, 0) for step in steps] == steps
    job = state.jobs[J0]
    assert (job.attempt, job.migrations, job.preemptions) == (2, 1, 1)
    assert job.waiting_since_us == 30


def test_job_works_at_the_speed_its_attempt_started_with() -> None:
    steps = [
        Step(AttemptStarted(2, J0, 1, speed=0.5), P.running, 0b11, 0b11, 4, 2, 0),
        Step(JobHeld(13, J0), P.running, 0b11, 0b11, 26, 13, 5),
        Step(AttemptLost(14, J0, 1, "node", lost_us=2), P.waiting, 0, 0, 28, 14, 4),
    ]
    state = replay(LAUNCHED)
    assert [told(state, step.event, 0) for step in steps] == steps


def test_launch_that_failed_leaves_a_waiting_job_and_free_gpus() -> None:
    state = replay(LAUNCHED)
    step = told(state, LaunchFailed(5, J0, 1, "no such image"), 0)
    assert step[1:] == (P.waiting, 0, 0, 10, 5, 0)
    assert state.jobs[J0].attempt == 1


def test_work_lost_is_never_more_than_the_work_done() -> None:
    state = replay(RUNNING)
    assert told(state, AttemptLost(4, J0, 1, "node", lost_us=9), 0).done_us == 0


def test_job_asked_to_leave_before_it_started_stays_suspending() -> None:
    state = replay([*LAUNCHED, revoked(0, 3)])
    step = told(state, attempt_started(0, 4), 0)
    assert (step.phase, step.done_us) == (P.suspending, 0)


def test_job_that_suspends_itself_gives_its_gpus_back() -> None:
    state = replay(RUNNING)
    step = told(state, JobSuspended(4, J0, 1), 0)
    assert (step.phase, step.decided, step.held) == (P.suspending, 0b00, 0b11)


def test_end_launches_the_job_that_was_granted_the_gpus() -> None:
    state = replay([*SUSPENDING, granted(1, 2, n0=0b11)])
    end = job_finished(0, 8)
    result = apply(state, end)
    step = seen(state, end, 1)
    assert (step.phase, step.decided, step.held) == (P.launching, 0b11, 0b11)
    assert [job.job_id for job in result.launched] == ["j1"]


def test_end_by_request_keeps_the_first_cause() -> None:
    state = replay([*RUNNING, TimeLimitReached(5, J0, 5), JobCancelRequested(6, J0)])
    job = state.jobs[J0]
    assert (job.phase, job.end_cause) == (JobPhase.ending, "timeout")


def test_waiting_job_asked_to_end_still_waits() -> None:
    state = replay([*QUEUED, JobCancelRequested(6, J0)])
    job = state.jobs[J0]
    assert (job.phase, job.end_cause) == (JobPhase.waiting, "cancelled")


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (job_finished(0), Outcome.finished),
        (JobFailed(0, J0, "exit"), Outcome.failed),
        (JobFailed(0, J0, "timeout"), Outcome.timeout),
        (JobCancelled(0, J0), Outcome.cancelled),
        (JobRejected(0, J0, Reason.infeasible), Outcome.rejected),
    ],
    ids=lambda value: str(value) if isinstance(value, Outcome) else type(value).__name__,
)
def test_end_frees_all_and_is_remembered(end: Event, outcome: Outcome) -> None:
    state = replay(RUNNING)
    departed = apply(state, end).departed
    assert departed is not None
    assert (departed.job_id, departed.outcome) == (J0, outcome)
    server = state.cluster.servers[N0]
    assert (server.decided, server.held) == (0, 0)
    assert (state.outcomes, J0 in state.jobs) == ({outcome: 1}, False)
    assert J0 not in state.durations_us
    assert state.cluster.pools["v100"].gpus_free == 4
    assert state.queues[job_submitted(0).spec.queue].gpus == 0


@pytest.mark.parametrize(
    ("when", "end", "unblocked", "stranded"),
    [
        (DependsWhen.ok, job_finished(0), ["j1"], []),
        (DependsWhen.ok, JobCancelled(0, J0), [], ["j1"]),
        (DependsWhen.any, JobCancelled(0, J0), ["j1"], []),
    ],
    ids=["ok and well", "ok and not", "any and not"],
)
def test_end_tells_who_waited_for_it(
    when: DependsWhen, end: Event, unblocked: list[str], stranded: list[str]
) -> None:
    needs = (Dependency(J0, when),)
    state = replay([node_added(), job_submitted(0), job_submitted(1, depends_on=needs)])
    assert not state.jobs[job_id(1)].is_eligible
    result = apply(state, end)
    assert result.departed is not None
    assert result.departed.job_id == J0
    assert ([*result.unblocked], [*result.stranded]) == (unblocked, stranded)
    assert state.jobs[job_id(1)].is_eligible == bool(unblocked)


@pytest.mark.parametrize(
    ("facts", "offered", "gpus_up"),
    [
        ([NodeDrained(0, N0)], 0, 0),
        ([NodeDrained(0, N0), NodeRestored(0, N0)], 0b1100, 4),
        ([NodeUnreachable(0, N0)], 0, 0),
        ([NodeUnreachable(0, N0), NodeReachable(0, N0)], 0b1100, 4),
        ([NodeLost(0, N0)], 0, 0),
        ([NodeLost(0, N0), NodeReachable(0, N0)], 0b1100, 4),
        ([NodeLost(0, N0), NodeDrained(0, N0), NodeReachable(0, N0)], 0, 0),
        ([GpuQuarantined(0, N0, 2)], 0b1000, 3),
        ([GpuQuarantined(0, N0, 0)], 0b1100, 3),
        ([GpuQuarantined(0, N0, 2), GpuRestored(0, N0, 2)], 0b1100, 4),
    ],
    ids=lambda facts: (
        "+".join(type(fact).__name__ for fact in facts) if isinstance(facts, list) else None
    ),
)
def test_pool_offers_what_is_free_and_healthy(
    facts: list[Event], offered: int, gpus_up: int
) -> None:
    pool = replay([*RUNNING, *facts]).cluster.pools["v100"]
    assert (pool.free, pool.gpus_free, pool.gpus_up) == (
        [offered],
        offered.bit_count(),
        gpus_up,
    )
    assert pool.buckets == [int(count == offered.bit_count()) for count in range(5)]


def test_gpus_freed_on_a_server_that_takes_no_jobs_are_offered_once_it_does() -> None:
    state = replay([*RUNNING, NodeDrained(0, N0), GpuQuarantined(0, N0, 3), job_finished(0)])
    assert state.cluster.pools["v100"].gpus_free == 0
    apply(state, NodeRestored(0, N0))
    assert state.cluster.pools["v100"].free == [0b0111]


def test_server_that_left_can_join_again_under_its_name() -> None:
    state = replay([*servers(4, 4), NodeRemoved(0, N0), node_added(0, 8)])
    server = state.cluster.servers[N0]
    assert (server.position, server.health, server.offered) == (2, Health.up, 0xFF)
    assert state.cluster.pools["v100"].free == [0, 0xF, 0xFF]


def test_cpus_and_memory_are_taken_and_given_back() -> None:
    share = Share(N0, 1, 3000, 20)
    given = AllocationChanged(0, J0, Allocation((share,)), BECAUSE)
    state = replay([node_added(0, cpus_milli=8000, memory_mb=64), job_submitted(0), given])
    pool = state.cluster.pools["v100"]
    assert (pool.cpus_free, pool.memory_free) == ([5000], [44])
    apply(state, job_finished(0))
    pool = state.cluster.pools["v100"]
    assert (pool.cpus_free, pool.memory_free) == ([8000], [64])


def test_quota_keeps_what_the_jobs_of_the_queue_use() -> None:
    state = replay([*RUNNING, quota("default", 3)])
    queue = state.queue_of(state.jobs[J0])
    assert (queue.quota_gpus, queue.gpus) == (3, 2)
    assert state.jobs[J0].demand.queue == "default"


def test_demands_of_equal_jobs_are_one_object() -> None:
    state = replay(QUEUED)
    assert state.jobs[J0].demand is state.jobs[job_id(1)].demand


def test_hold_keeps_a_job_from_being_eligible_until_it_is_released() -> None:
    state = replay([*QUEUED, JobHeld(0, J0)])
    assert not state.jobs[J0].is_eligible
    apply(state, JobReleased(0, J0))
    assert state.jobs[J0].is_eligible


def test_promise_is_withdrawn_by_none_and_by_the_end() -> None:
    state = replay([*QUEUED, ReservationSet(0, J0, 9), ReservationSet(0, job_id(1), 8)])
    assert state.reservations == {"j0": 9, "j1": 8}
    apply(state, ReservationSet(0, J0, None))
    apply(state, job_finished(1))
    assert state.reservations == {}


def suspended_by(because: Because) -> AllocationChanged:
    return AllocationChanged(20, J0, NOTHING, because)


@pytest.mark.parametrize("because", [HELD, RESIZED, NODE_LOST, DISPLACED])
def test_who_leaves_for_another_cause_than_a_policy_is_not_preempted(because: Because) -> None:
    state = replay([*RUNNING, suspended_by(because)])
    job = state.jobs[J0]
    assert (job.phase, job.preemptions, job.preempted_at_us) == (P.suspending, 0, ())


@pytest.mark.parametrize(
    "end",
    [
        AttemptEnded(25, J0, 1, 0),
        AttemptLost(25, J0, 1, "server"),
        JobCancelRequested(25, J0, "ana"),
        TimeLimitReached(25, J0, 25),
    ],
    ids=["ends", "lost", "cancelled", "time limit"],
)
def test_who_ends_before_it_has_left_is_not_preempted(end: Event) -> None:
    state = replay([*RUNNING, suspended_by(BECAUSE)])
    assert (state.jobs[J0].preemptions, state.jobs[J0].preempted_at_us) == (1, (20,))
    apply(state, end)
    assert (state.jobs[J0].preemptions, state.jobs[J0].preempted_at_us) == (0, ())


def test_preemption_of_an_attempt_before_stays_counted() -> None:
    again: list[Event] = [
        granted(0, 30, n0=0b11),
        attempt_started(0, 31, 2),
        AllocationChanged(40, J0, NOTHING, HELD),
    ]
    left: list[Event] = [JobSuspended(21, J0, 1), GpusReleased(22, J0, 1)]
    state = replay([*RUNNING, suspended_by(BECAUSE), *left, *again, AttemptEnded(45, J0, 2, 0)])
    assert (state.jobs[J0].preemptions, state.jobs[J0].preempted_at_us) == (1, (20,))


@pytest.mark.parametrize("instant", [False, True])
def test_who_gets_other_gpus_at_the_same_instant_is_moved(instant: bool) -> None:
    """So a plan says it whose gangs change places."""
    given = granted(0, 0, n0=0b11, instant=instant)
    begun = [] if instant else [attempt_started(0)]
    state = replay([*QUEUED, given, *begun, revoked(0, 20, instant=instant)])
    assert state.jobs[J0].preemptions == 1
    apply(state, granted(0, 20, n0=0b1100, instant=instant))
    job = state.jobs[J0]
    assert (job.preemptions, job.preempted_at_us, job.migrations) == (0, (), 1)


def test_who_gets_gpus_again_later_was_preempted() -> None:
    left: list[Event] = [JobSuspended(20, J0, 1), GpusReleased(20, J0, 1)]
    state = replay([*RUNNING, suspended_by(BECAUSE), *left, granted(0, 21, n0=0b11)])
    assert (state.jobs[J0].preemptions, state.jobs[J0].migrations) == (1, 0)


def test_only_recent_preemptions_are_remembered() -> None:
    state = replay(QUEUED)
    for at_us in range(20):
        apply(state, granted(0, at_us, n0=0b11, instant=True))
        apply(state, revoked(0, at_us, instant=True))
    job = state.jobs[J0]
    assert job.preemptions == 20
    assert job.preempted_at_us == tuple(range(4, 20))


def test_resized_job_asks_for_its_new_gang_with_its_share_of_cpus_and_memory() -> None:
    asked = job_submitted(0, gpus=4, cpus_milli=3000, memory_mb=10, shapes=((2, 2), (2, 1, 1)))
    state = replay([*servers(4, 4), asked, JobResized(0, J0, 2, "ana")])
    spec, demand = state.jobs[J0].spec, state.jobs[J0].demand
    assert (spec.gpus, spec.cpus_milli, spec.memory_mb, spec.shapes) == (2, 1500, 5, ())
    assert (demand.gpus, demand.cpus_milli, demand.memory_mb, demand.shapes) == (2, 1500, 5, ())
    apply(state, JobResized(0, J0, 3))
    assert (state.jobs[J0].spec.cpus_milli, state.jobs[J0].spec.memory_mb) == (2250, 8)


def test_running_job_keeps_its_gpus_until_its_next_attempt() -> None:
    state = replay([*servers(4), job_submitted(0, gpus=1), granted(0, n0=1), attempt_started(0)])
    apply(state, JobResized(10, J0, 2))
    job = state.jobs[J0]
    assert (job.gpus, job.held, job.demand.gpus) == (1, allocation(n0=1), 2)
    assert job.service_us(20) == 20
    for fact in (revoked(0, 20), JobSuspended(20, J0, 1, None, 0), GpusReleased(20, J0, 1)):
        apply(state, fact)
    apply(state, granted(0, 20, n0=0b11))
    assert (job.gpus, job.service_us(30)) == (2, 20 + 2 * 10)


def test_resized_job_is_not_bound_to_the_split_of_its_checkpoints() -> None:
    started = replace(attempt_started(0), keeps_split=True)
    state = replay([*servers(4), job_submitted(0, gpus=2), granted(0, n0=0b11), started])
    assert state.jobs[J0].demand.shapes == ((2,),)
    apply(state, JobResized(0, J0, 3))
    assert (state.jobs[J0].demand.gpus, state.jobs[J0].demand.shapes) == (3, ())


def test_size_of_a_gang_is_in_a_snapshot() -> None:
    state = replay([*servers(4), job_submitted(0, gpus=1), JobResized(0, J0, 2)])
    read = decode_record(State, encode_record(state))
    assert read.jobs[J0].spec.gpus == read.jobs[J0].demand.gpus == 2
