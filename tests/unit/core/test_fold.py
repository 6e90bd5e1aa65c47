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
    Because,
    Dependency,
    DependsWhen,
    Event,
    Reason,
    Share,
    Sharing,
    Wait,
    decode_record,
    encode_record,
    facts,
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


def test_warning_counts_among_the_notes_of_its_attempt_and_changes_nothing_else() -> None:
    state, warned = replay(RUNNING), replay([*RUNNING, facts.JobWarned(0, J0, 1, "of chance", 7)])
    job = warned.jobs[J0]
    assert job.notes == 1
    job.notes = 0
    assert encode_record(job) == encode_record(state.jobs[J0])


ILLEGAL: dict[str, list[tuple[Sequence[Event], Event]]] = {
    "job j0 was submitted twice": [(QUEUED, job_submitted(0))],
    "{} of job j0, which is unknown": [
        ([node_added(0, 4)], job_finished(0)),
        (ENDED, facts.JobFailed(0, J0, "exit")),
        ([*QUEUED, facts.JobCancelled(0, J0)], facts.JobCancelled(0, J0)),
        ([], facts.JobRejected(0, J0, Reason.infeasible)),
        (ENDED, facts.JobHeld(0, J0)),
        (ENDED, facts.JobPriorityChanged(0, J0, 1)),
        (ENDED, facts.JobCancelRequested(0, J0)),
        (ENDED, facts.TimeLimitReached(0, J0, 1)),
        ([], facts.CheckpointSaved(0, J0, 1, "c")),
        ([node_added(0, 4)], granted(0, n0=1)),
        ([], facts.WaitReasonChanged(0, J0, Wait(Reason.held))),
        ([], facts.PlanRejected(0, J0, Reason.refused, "r")),
        (ENDED, facts.SizesSet(0, (facts.Size(J0, 1000, 1),), 1.0, 1.0)),
        (ENDED, facts.ReservationSet(0, J0, 9)),
        (ENDED, facts.GangProposed(0, J0, 1, (allocation(n0=1),))),
        (ENDED, facts.GangApproved(0, J0, 1, 0)),
        (ENDED, facts.RoundPlanned(0, 0, 0, 0, admitted=(J0,))),
    ],
    "job j0 was released but not held": [(QUEUED, facts.JobReleased(0, J0))],
    "{} of attempt 1": [
        (QUEUED, attempt_started(0)),
        (QUEUED, facts.LaunchFailed(0, J0, 1, "x")),
        (QUEUED, facts.JobSuspended(0, J0, 1)),
        ([*SUSPENDING, facts.GpusReleased(0, J0, 1)], facts.GpusReleased(0, J0, 1)),
    ],
    "{} of attempt 2": [
        (LAUNCHED, attempt_started(0, attempt=2)),
        (RUNNING, facts.AttemptEnded(0, J0, 2, 0)),
        (RUNNING, facts.JobWarned(0, J0, 2, "of nothing")),
        (RUNNING, facts.AttemptLost(0, J0, 2, "node")),
    ],
    "attempt 1 of job j0 started twice": [
        (RUNNING, attempt_started(0)),
        (SUSPENDING, attempt_started(0)),
    ],
    "{} of attempt 3": [(RUNNING, facts.ProfileSampled(0, J0, 3))],
    "GPUs of job j0 were released while": [
        (RUNNING, facts.GpusReleased(0, J0, 1)),
        (LAUNCHED, facts.GpusReleased(0, J0, 1)),
    ],
    "of node n0 were given away twice": [
        (RUNNING, granted(1, n0=0b110)),
        (RUNNING, granted(1, n0=0b110, instant=True)),
    ],
    "node n9 is not in the cluster": [(QUEUED, granted(0, n9=1))],
    "node n0 has no GPUs 0x30": [
        (QUEUED, granted(0, n0=0b11_0000)),
        (QUEUED, granted(0, n0=0b11_0000, instant=True)),
    ],
    "less than nothing of node n0": [
        (QUEUED, facts.AllocationChanged(0, J0, Allocation((Share(N0, 3, -1),)), BECAUSE)),
    ],
    "{} of job j0, which is ending": [
        ([*RUNNING, facts.JobCancelRequested(0, J0)], granted(0, n0=0b1100)),
    ],
    "job j0 is to take turns where nothing takes time": [
        (
            QUEUED,
            facts.AllocationChanged(
                0, J0, Allocation((Share(N0, 3),), Sharing.sliced), BECAUSE, instant=True
            ),
        ),
    ],
    "{} of job j0, which takes no": [
        (RUNNING, facts.TurnStarted(0, J0, 1, (Share(N0, 3),))),
        (RUNNING, facts.TurnEnded(0, J0, 1)),
    ],
    "node n0 was added twice": [(QUEUED, node_added(0))],
    "removed while jobs held GPUs of it": [
        (RUNNING, facts.NodeRemoved(0, N0)),
        (SUSPENDING, facts.NodeRemoved(0, N0)),
    ],
    "node n0 is not in the cluster": [
        ([], facts.NodeDrained(0, N0)),
        ([], facts.NodeLost(0, N0)),
        ([node_added(0), facts.NodeRemoved(0, N0)], facts.NodeDrained(0, N0)),
    ],
    "node n0 was restored but not drained": [(QUEUED, facts.NodeRestored(0, N0))],
    "node n0 became reachable but always was": [(QUEUED, facts.NodeReachable(0, N0))],
    "GPU 1 of node n0 was not quarantined": [(QUEUED, facts.GpuRestored(0, N0, 1))],
    "there is no GPU": [
        (QUEUED, facts.GpuQuarantined(0, N0, 4)),
        ([], facts.GpuQuarantined(0, N0, 0)),
    ],
    "was started after term 2": [
        ([scheduler_started(2)], scheduler_started(2)),
        ([scheduler_started(2)], scheduler_started(1)),
    ],
    "round 0 saw event 4 before it happened": [(QUEUED, round_planned(seen=4))],
    "a segment up to 4 was sealed at 3": [(QUEUED, facts.SegmentSealed(0, 1, 4, "d"))],
    "were noted as lost at 3": [
        (QUEUED, facts.EventsLost(0, 4, 6, 9)),
        (QUEUED, facts.EventsLost(0, 3, 1, 9)),
    ],
    "{} at 4 us follows an event at 5 us": [([job_submitted(0, at=5)], job_submitted(1, at=4))],
    "of job j0 names no candidate": [(QUEUED, facts.GangProposed(0, J0, 1, ()))],
    "goes by event 99 before it happened": [
        (QUEUED, facts.GangProposed(0, J0, 99, (allocation(n0=1),)))
    ],
    "of job j0 counts 0": [(QUEUED, facts.GangRejected(0, J0, 1, Reason.refused, count=0))],
    "to 0 GPUs": [(RUNNING, facts.JobResized(0, J0, 0))],
    "from 0 to 2 GPUs": [([job_submitted(0, gpus=0, cpus_milli=1000)], facts.JobResized(0, J0, 2))],
}
"""What an error says, `{}` being the kind: histories, and what cannot follow."""
NOT_EMITTED = (facts.JobGroupChanged(0, J0, "g"),)


@pytest.mark.parametrize(
    ("says", "history", "event"),
    [(says, *case) for says, cases in ILLEGAL.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_fact_that_does_not_fit_is_illegal_and_says_why(
    says: str, history: Sequence[Event], event: Event
) -> None:
    state = replay(history)
    with pytest.raises(IllegalEventError) as caught:
        apply(state, event)
    assert says.format(type(event).__name__) in str(caught.value)


@pytest.mark.parametrize("event", NOT_EMITTED, ids=lambda event: type(event).__name__)
def test_kind_that_is_not_emitted_yet_is_illegal(event: Event) -> None:
    state = replay(RUNNING)
    with pytest.raises(IllegalEventError, match=rf"{type(event).__name__} .*not emitted by this"):
        apply(state, event)


def test_measurement_of_a_model_changes_nothing() -> None:
    gpu_type = node_added().configuration.gpu_type
    before, after = replay(RUNNING), replay(RUNNING)
    apply(after, facts.ProfileMeasured(0, "resnet", gpu_type, 1, 1.0))
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
        Step(facts.JobSuspended(22, J0, 1, lost_us=1), P.suspending, 0b00, 0b11, 24, 12, 7),
        Step(facts.GpusReleased(25, J0, 1), P.waiting, 0b00, 0b00, 30, 15, 7),
        Step(granted(0, 40, n0=0b1100), P.launching, 0b1100, 0b1100, 30, 15, 7),
        Step(attempt_started(0, 43, 2), P.running, 0b1100, 0b1100, 36, 18, 7),
        Step(facts.AttemptEnded(50, J0, 2, 0), P.ending, 0b1100, 0b1100, 50, 25, 14),
        Step(facts.GpusReleased(52, J0, 2), P.ending, 0b1100, 0b0000, 54, 27, 14),
    ]
    state = replay(QUEUED)
    job = state.jobs[J0]
    assert [told(state, step.event, 0) for step in steps] == steps
    apply(state, job_finished(0, 52))
    server = state.cluster.servers[N0]
    assert (server.decided, server.held, state.jobs.get(J0)) == (0, 0, None)
    assert state.outcomes == {facts.Outcome.finished: 1}
    assert (job.attempt, job.preemptions, job.migrations) == (2, 1, 0)
    assert (job.first_start_us, job.preempted_at_us) == (10, (20,))


def test_job_granted_gpus_of_another_is_launched_when_they_are_free() -> None:
    steps = [
        Step(granted(1, 20, n0=0b11), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(facts.JobSuspended(21, J0, 1), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(facts.GpusReleased(25, J0, 1), P.launching, 0b11, 0b11, 0, 0, 0),
        Step(attempt_started(1, 26), P.running, 0b11, 0b11, 2, 1, 0),
        Step(facts.JobHeld(30, J0), P.running, 0b11, 0b11, 10, 5, 4),
    ]
    state = replay(SUSPENDING)
    assert [told(state, step.event, 1) for step in steps] == steps
    assert not state.granted


def test_job_granted_gpus_of_another_can_lose_them_before_it_had_them() -> None:
    steps = [
        Step(granted(1, 20, n0=0b11), P.granted, 0b11, 0b11, 0, 0, 0),
        Step(revoked(1, 21), P.waiting, 0b00, 0b11, 0, 0, 0),
        Step(facts.GpusReleased(25, J0, 1), P.waiting, 0b00, 0b00, 0, 0, 0),
    ]
    state = replay(SUSPENDING)
    assert [told(state, step.event, 1) for step in steps] == steps
    assert (state.jobs[job_id(1)].preemptions, len(state.granted)) == (0, 0)


def test_migrating_job_holds_its_old_gpus_until_it_leaves_them() -> None:
    steps = [
        Step(granted(0, 10, n0=0b1100), P.suspending, 0b1100, 0b0011, 20, 10, 10),
        Step(facts.JobSuspended(11, J0, 1), P.suspending, 0b1100, 0b0011, 22, 11, 11),
        Step(facts.GpusReleased(13, J0, 1), P.launching, 0b1100, 0b1100, 26, 13, 11),
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
            facts.AllocationChanged(5, J0, more, BECAUSE, instant=True),
        ]
    )
    job = state.jobs[J0]
    assert (job.allocation, job.migrations, job.preemptions) == (more, 0, 0)


def test_migrating_job_waits_for_the_one_on_its_new_gpus() -> None:
    """Jobs 0 and 1 change places; each is launched when the other has left."""
    history = [*RUNNING, granted(1, 2, n0=0b1100), attempt_started(1, 2), revoked(1, 5)]
    state = replay([*history, granted(0, 5, n0=0b1100)])
    steps = [
        Step(facts.GpusReleased(7, J0, 1), P.granted, 0b1100, 0b1100, 14, 7, 7),
        Step(facts.GpusReleased(9, job_id(1), 1), P.launching, 0b1100, 0b1100, 14, 7, 7),
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
        Step(facts.AttemptStarted(2, J0, 1, speed=0.5), P.running, 0b11, 0b11, 4, 2, 0),
        Step(facts.JobHeld(13, J0), P.running, 0b11, 0b11, 26, 13, 5),
        Step(facts.AttemptLost(14, J0, 1, "node", lost_us=2), P.waiting, 0, 0, 28, 14, 4),
    ]
    state = replay(LAUNCHED)
    assert [told(state, step.event, 0) for step in steps] == steps


def test_launch_that_failed_leaves_a_waiting_job_and_free_gpus() -> None:
    state = replay(LAUNCHED)
    step = told(state, facts.LaunchFailed(5, J0, 1, "no such image"), 0)
    assert step[1:] == (P.waiting, 0, 0, 10, 5, 0)
    assert state.jobs[J0].attempt == 1


def test_work_lost_is_never_more_than_the_work_done() -> None:
    state = replay(RUNNING)
    assert told(state, facts.AttemptLost(4, J0, 1, "node", lost_us=9), 0).done_us == 0


def test_job_asked_to_leave_before_it_started_stays_suspending() -> None:
    state = replay([*LAUNCHED, revoked(0, 3)])
    step = told(state, attempt_started(0, 4), 0)
    assert (step.phase, step.done_us) == (P.suspending, 0)


def test_job_that_suspends_itself_gives_its_gpus_back() -> None:
    state = replay(RUNNING)
    step = told(state, facts.JobSuspended(4, J0, 1), 0)
    assert (step.phase, step.decided, step.held) == (P.suspending, 0b00, 0b11)


def test_end_launches_the_job_that_was_granted_the_gpus() -> None:
    state = replay([*SUSPENDING, granted(1, 2, n0=0b11)])
    end = job_finished(0, 8)
    result = apply(state, end)
    step = seen(state, end, 1)
    assert (step.phase, step.decided, step.held) == (P.launching, 0b11, 0b11)
    assert [job.job_id for job in result.launched] == ["j1"]


def test_end_by_request_keeps_the_first_cause() -> None:
    state = replay([*RUNNING, facts.TimeLimitReached(5, J0, 5), facts.JobCancelRequested(6, J0)])
    job = state.jobs[J0]
    assert (job.phase, job.end_cause) == (JobPhase.ending, "timeout")


def test_waiting_job_asked_to_end_still_waits() -> None:
    state = replay([*QUEUED, facts.JobCancelRequested(6, J0)])
    job = state.jobs[J0]
    assert (job.phase, job.end_cause) == (JobPhase.waiting, "cancelled")


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (job_finished(0), facts.Outcome.finished),
        (facts.JobFailed(0, J0, "exit"), facts.Outcome.failed),
        (facts.JobFailed(0, J0, "timeout"), facts.Outcome.timeout),
        (facts.JobCancelled(0, J0), facts.Outcome.cancelled),
        (facts.JobRejected(0, J0, Reason.infeasible), facts.Outcome.rejected),
    ],
    ids=lambda value: str(value) if isinstance(value, facts.Outcome) else type(value).__name__,
)
def test_end_frees_all_and_is_remembered(end: Event, outcome: facts.Outcome) -> None:
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
        (DependsWhen.ok, facts.JobCancelled(0, J0), [], ["j1"]),
        (DependsWhen.any, facts.JobCancelled(0, J0), ["j1"], []),
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
    ("happened", "offered", "gpus_up"),
    [
        ([facts.NodeDrained(0, N0)], 0, 0),
        ([facts.NodeDrained(0, N0), facts.NodeRestored(0, N0)], 0b1100, 4),
        ([facts.NodeUnreachable(0, N0)], 0, 0),
        ([facts.NodeUnreachable(0, N0), facts.NodeReachable(0, N0)], 0b1100, 4),
        ([facts.NodeLost(0, N0)], 0, 0),
        ([facts.NodeLost(0, N0), facts.NodeReachable(0, N0)], 0b1100, 4),
        ([facts.NodeLost(0, N0), facts.NodeDrained(0, N0), facts.NodeReachable(0, N0)], 0, 0),
        ([facts.GpuQuarantined(0, N0, 2)], 0b1000, 3),
        ([facts.GpuQuarantined(0, N0, 0)], 0b1100, 3),
        ([facts.GpuQuarantined(0, N0, 2), facts.GpuRestored(0, N0, 2)], 0b1100, 4),
    ],
    ids=lambda happened: (
        "+".join(type(fact).__name__ for fact in happened) if isinstance(happened, list) else None
    ),
)
def test_pool_offers_what_is_free_and_healthy(
    happened: list[Event], offered: int, gpus_up: int
) -> None:
    pool = replay([*RUNNING, *happened]).cluster.pools["v100"]
    assert (pool.free, pool.gpus_free, pool.gpus_up) == (
        [offered],
        offered.bit_count(),
        gpus_up,
    )
    assert pool.buckets == [int(count == offered.bit_count()) for count in range(5)]


def test_gpus_freed_on_a_server_that_takes_no_jobs_are_offered_once_it_does() -> None:
    state = replay(
        [*RUNNING, facts.NodeDrained(0, N0), facts.GpuQuarantined(0, N0, 3), job_finished(0)]
    )
    assert state.cluster.pools["v100"].gpus_free == 0
    apply(state, facts.NodeRestored(0, N0))
    assert state.cluster.pools["v100"].free == [0b0111]


def test_server_that_left_can_join_again_under_its_name() -> None:
    state = replay([*servers(4, 4), facts.NodeRemoved(0, N0), node_added(0, 8)])
    server = state.cluster.servers[N0]
    assert (server.position, server.health, server.offered) == (2, Health.up, 0xFF)
    assert state.cluster.pools["v100"].free == [0, 0xF, 0xFF]


def test_cpus_and_memory_are_taken_and_given_back() -> None:
    share = Share(N0, 1, 3000, 20)
    given = facts.AllocationChanged(0, J0, Allocation((share,)), BECAUSE)
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
    state = replay([*QUEUED, facts.JobHeld(0, J0)])
    assert not state.jobs[J0].is_eligible
    apply(state, facts.JobReleased(0, J0))
    assert state.jobs[J0].is_eligible


def test_promise_is_withdrawn_by_none_and_by_the_end() -> None:
    state = replay([*QUEUED, facts.ReservationSet(0, J0, 9), facts.ReservationSet(0, job_id(1), 8)])
    assert state.reservations == {"j0": 9, "j1": 8}
    apply(state, facts.ReservationSet(0, J0, None))
    apply(state, job_finished(1))
    assert state.reservations == {}


def suspended_by(because: Because) -> facts.AllocationChanged:
    return facts.AllocationChanged(20, J0, NOTHING, because)


@pytest.mark.parametrize("because", [HELD, RESIZED, NODE_LOST, DISPLACED])
def test_who_leaves_for_another_cause_than_a_policy_is_not_preempted(because: Because) -> None:
    state = replay([*RUNNING, suspended_by(because)])
    job = state.jobs[J0]
    assert (job.phase, job.preemptions, job.preempted_at_us) == (P.suspending, 0, ())


@pytest.mark.parametrize(
    "end",
    [
        facts.AttemptEnded(25, J0, 1, 0),
        facts.AttemptLost(25, J0, 1, "server"),
        facts.JobCancelRequested(25, J0, "ana"),
        facts.TimeLimitReached(25, J0, 25),
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
        facts.AllocationChanged(40, J0, NOTHING, HELD),
    ]
    left: list[Event] = [facts.JobSuspended(21, J0, 1), facts.GpusReleased(22, J0, 1)]
    state = replay(
        [*RUNNING, suspended_by(BECAUSE), *left, *again, facts.AttemptEnded(45, J0, 2, 0)]
    )
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
    left: list[Event] = [facts.JobSuspended(20, J0, 1), facts.GpusReleased(20, J0, 1)]
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
    state = replay([*servers(4, 4), asked, facts.JobResized(0, J0, 2, "ana")])
    spec, demand = state.jobs[J0].spec, state.jobs[J0].demand
    assert (spec.gpus, spec.cpus_milli, spec.memory_mb, spec.shapes) == (2, 1500, 5, ())
    assert (demand.gpus, demand.cpus_milli, demand.memory_mb, demand.shapes) == (2, 1500, 5, ())
    apply(state, facts.JobResized(0, J0, 3))
    assert (state.jobs[J0].spec.cpus_milli, state.jobs[J0].spec.memory_mb) == (2250, 8)


def test_running_job_keeps_its_gpus_until_its_next_attempt() -> None:
    state = replay([*servers(4), job_submitted(0, gpus=1), granted(0, n0=1), attempt_started(0)])
    apply(state, facts.JobResized(10, J0, 2))
    job = state.jobs[J0]
    assert (job.gpus, job.held, job.demand.gpus) == (1, allocation(n0=1), 2)
    assert job.service_us(20) == 20
    for fact in (
        revoked(0, 20),
        facts.JobSuspended(20, J0, 1, None, 0),
        facts.GpusReleased(20, J0, 1),
    ):
        apply(state, fact)
    apply(state, granted(0, 20, n0=0b11))
    assert (job.gpus, job.service_us(30)) == (2, 20 + 2 * 10)


def test_resized_job_is_not_bound_to_the_split_of_its_checkpoints() -> None:
    started = replace(attempt_started(0), keeps_split=True)
    state = replay([*servers(4), job_submitted(0, gpus=2), granted(0, n0=0b11), started])
    assert state.jobs[J0].demand.shapes == ((2,),)
    apply(state, facts.JobResized(0, J0, 3))
    assert (state.jobs[J0].demand.gpus, state.jobs[J0].demand.shapes) == (3, ())


def test_size_of_a_gang_is_in_a_snapshot() -> None:
    state = replay([*servers(4), job_submitted(0, gpus=1), facts.JobResized(0, J0, 2)])
    read = decode_record(State, encode_record(state))
    assert read.jobs[J0].spec.gpus == read.jobs[J0].demand.gpus == 2
