"""GPUs with several tenants: what a plan may do on purpose, and what follows when one leaves.

Servers n0 and n1 have four GPUs each; jobs want two of them unless they say otherwise.
"""

from typing import Any

import pytest

from shunter.core import (
    NO_GUARDS,
    Change,
    Guards,
    JobLedger,
    JobPhase,
    Launch,
    Move,
    Pack,
    Plan,
    Start,
    State,
    Suspend,
    SuspendAttempt as SuspendOrder,
    View,
)
from shunter.core.fold import apply, replay
from shunter.core.planning import Approval, approve
from shunter.errors import IllegalEventError
from shunter.events import (
    NOTHING,
    Allocation,
    Because,
    Event,
    QueueName,
    Reason,
    SuspendMode,
    decode_record,
    encode_record,
    facts,
)
from tests.factories import (
    BECAUSE,
    World,
    allocation,
    attempt_started,
    granted,
    job_finished,
    job_id,
    job_submitted,
    node_name,
    packed,
    quota,
    revoked,
    servers,
)
from tests.property.invariants import check_state
from tests.property.puppet import Puppet

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
QUEUED: tuple[Event, ...] = (
    *servers(4, 4),
    quota("few", 3),
    *(job_submitted(name, 2) for name in range(4)),
    job_submitted(4, 2, queue="few"),
    job_submitted(5, 2, queue="few"),
    job_submitted(6, 2, gpu_types=["k80"]),
    job_submitted(7, 2, suspend_mode=SuspendMode.never),
)
HERE = packed(n0=0b11)
RULE = Because("rule")


def put(
    name: int, what: Allocation, at: int = 0, *, instant: bool = True
) -> facts.AllocationChanged:
    return facts.AllocationChanged(at, job_id(name), what, BECAUSE, instant)


def approved(state: State, *changes: Change, guards: Guards = NO_GUARDS) -> Approval:
    return approve(Plan(changes), state, guards, state.now_us)


def refusals(approval: Approval) -> list[tuple[str, Reason]]:
    return [(str(refused.job_id), refused.reason) for refused in approval.refused]


def pack(name: int, what: Allocation) -> Pack:
    return Pack(job_id(name), what, RULE)


def start(name: int, what: Allocation) -> Start:
    return Start(job_id(name), what, RULE)


def again(state: State) -> State:
    copy: State = decode_record(State, encode_record(state))
    return copy


def couple(*more: Event) -> State:
    """Return jobs 0 and 1 on the same two GPUs, since 0 and 10."""
    state = replay([*QUEUED, put(0, HERE), put(1, HERE, 10), *more])
    check_state(state)
    return state


def test_shared_gpus_are_taken_once() -> None:
    state = couple()
    assert state.cluster.servers[node_name(0)].decided == 0b11
    assert state.cluster.pools["v100"].gpus_free == 6
    assert state.queues[QueueName("default")].gpus == 4


def test_gpus_stay_taken_until_the_last_tenant_leaves() -> None:
    state = couple(revoked(0, 20, instant=True))
    assert state.cluster.servers[node_name(0)].held == 0b11
    apply(state, revoked(1, 30, instant=True))
    assert state.cluster.servers[node_name(0)].held == 0
    assert state.cluster.pools["v100"].gpus_free == 8


@pytest.mark.parametrize("first", [0, 1])
def test_end_of_one_partner_leaves_the_other_where_it_is(first: int) -> None:
    state = couple(job_finished(first, 20))
    other = state.jobs[job_id(1 - first)]
    assert other.held == HERE
    assert other.phase is JobPhase.running
    check_state(state)


def test_exclusive_job_is_not_given_a_gpu_that_is_shared() -> None:
    with pytest.raises(IllegalEventError, match="given away twice"):
        couple(granted(2, 20, instant=True, n0=0b110))


def test_packed_job_is_not_given_a_gpu_of_one_that_does_not_share() -> None:
    with pytest.raises(IllegalEventError, match="given away twice"):
        replay([*QUEUED, granted(0, instant=True, n0=0b11), put(1, HERE)])


def test_job_that_runs_can_be_opened_to_others_without_leaving() -> None:
    state = replay([*QUEUED, granted(0, instant=True, n0=0b11), put(0, HERE, 5, instant=False)])
    job = state.jobs[J0]
    assert (job.phase, job.attempt, job.preemptions, job.migrations) == ("running", 1, 0, 0)
    assert job.allocation == job.held == HERE
    apply(state, put(1, HERE, 6))
    check_state(state)


def test_partner_waits_only_for_those_who_are_to_leave() -> None:
    """Job 0 leaves, job 1 stays: job 2 may come beside job 1 once job 0 is gone."""
    state = couple(revoked(0, 20), put(2, HERE, 20, instant=False))
    assert state.jobs[J2].phase is JobPhase.granted
    left: list[Event] = [facts.JobSuspended(21, J0, 1, None), facts.GpusReleased(22, J0, 1)]
    for event in left:
        apply(state, event)
        check_state(state)
    assert state.jobs[J2].phase is JobPhase.launching
    assert state.jobs[J2].held == HERE


def test_exclusive_job_waits_for_both_partners() -> None:
    state = couple(revoked(0, 20), revoked(1, 20), granted(2, 20, n0=0b11))
    for name in (0, 1):
        assert state.jobs[J2].phase is JobPhase.granted
        apply(state, facts.JobSuspended(21, job_id(name), 1, None))
        apply(state, facts.GpusReleased(21, job_id(name), 1))
        check_state(state)
    assert state.jobs[J2].phase is JobPhase.launching


def test_job_that_ends_slowly_frees_its_part_last() -> None:
    state = couple(facts.AttemptEnded(20, J0, 1, 0))
    assert state.cluster.holding.overcommit == 2
    apply(state, facts.GpusReleased(21, J0, 1))
    apply(state, facts.JobFinished(21, J0))
    assert state.cluster.holding.overcommit == 0
    check_state(state)


def test_job_that_moves_where_others_have_to_leave_first_waits_again() -> None:
    history: list[Event] = [
        granted(0, instant=True, n0=0b11),
        granted(1, instant=True, n1=0b11),
        revoked(1, 5),
        put(0, allocation(n1=0b11), 5, instant=False),
        facts.JobSuspended(6, J0, 1, None),
        facts.GpusReleased(7, J0, 1),
    ]
    state = replay([*QUEUED, *history])
    assert state.jobs[J0].phase is JobPhase.granted
    assert state.jobs[J0].waiting_since_us == 7
    check_state(state)


def test_tenants_follow_from_the_jobs_alone() -> None:
    """They stand in order of submission, whoever came first."""
    state = replay([*QUEUED, put(1, HERE), put(2, HERE), put(0, HERE, 10)])
    assert state.cluster.deciding.of((node_name(0), 0)) == (J0, J1, J2)
    assert again(state).cluster == state.cluster
    assert again(state).cluster.pools == state.cluster.pools


def test_view_names_the_partners_of_a_job() -> None:
    state = couple(put(2, packed(n1=0b101), 11))
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    assert view.partners(state.jobs[J0]) == (J1,)
    assert view.partners(state.jobs[J2]) == ()


def test_each_partner_attains_service_and_a_gpu_is_used_once() -> None:
    """Two GPUs of eight: both jobs hold them for 10 of the 20 us, job 0 all the time."""
    state, ledger = State(), JobLedger()
    told: Any = dict(ledger.observers())
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    ends = (job_finished(0, 20), job_finished(1, 20))
    events: list[Event] = [*QUEUED, put(0, HERE), put(1, HERE, 10), *ends]
    for event in events:
        view.result = apply(state, event)
        if type(event) in told:
            told[type(event)](event, view)
    assert [story.service_gpu_us for story in ledger.results()] == [40, 20]
    assert ledger.utilisation(state) == 40 / (8 * 20)


def test_time_of_shared_gpus_is_part_of_a_snapshot() -> None:
    state = couple(revoked(1, 25, instant=True))
    assert state.overcommit_us(99) == 2 * 15
    assert again(state).overcommit_us(99) == 2 * 15
    assert again(couple()).overcommit_us(30) == 2 * 20


def test_plan_packs_on_purpose() -> None:
    state = replay([*QUEUED, granted(0, instant=True, n0=0b11)])
    assert refusals(approved(state, pack(0, HERE), start(1, HERE), start(2, HERE))) == []


def test_plan_moves_jobs_together() -> None:
    state = replay([*QUEUED, *(granted(n, instant=True, **{f"n{n}": 3}) for n in (0, 1))])
    there = packed(n1=0b1100)
    moves = [Move(job_id(name), there, RULE) for name in (0, 1)]
    assert refusals(approved(state, *moves)) == []


REFUSED: dict[str, tuple[list[Change], list[tuple[str, Reason]]]] = {
    "beside one that does not share": ([start(2, packed(n1=0b11))], [("j2", Reason.no_capacity)]),
    "exclusive on shared GPUs": ([start(2, allocation(n0=0b11))], [("j2", Reason.no_capacity)]),
    "beside one that has left": (
        [Suspend(J0, RULE), Suspend(J1, RULE), start(2, allocation(n0=0b11)), start(4, HERE)],
        [("j4", Reason.no_capacity)],
    ),
    "half a gang": ([start(2, packed(n0=0b1))], [("j2", Reason.refused)]),
    "another GPU type": ([start(6, HERE)], [("j6", Reason.gpu_type_unavailable)]),
    "no such GPUs": ([start(2, packed(n0=0b11 << 4))], [("j2", Reason.refused)]),
    "no such node": ([start(2, packed(n9=0b11))], [("j2", Reason.refused)]),
    "quota, where each partner counts": (
        [start(4, HERE), start(5, HERE)],
        [("j5", Reason.quota)],
    ),
    "opened elsewhere": ([pack(3, packed(n1=0b110))], [("j3", Reason.refused)]),
    "opened twice": ([pack(0, HERE)], [("j0", Reason.refused)]),
    "opened to nobody": ([pack(3, allocation(n1=0b11))], [("j3", Reason.refused)]),
    "opened and suspended": (
        [pack(3, packed(n1=0b11)), Suspend(job_id(3), RULE)],
        [("j3", Reason.refused)],
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_change_that_shares_by_mistake_is_refused_alone(
    case: tuple[list[Change], list[tuple[str, Reason]]],
) -> None:
    state = couple(granted(3, 10, instant=True, n1=0b11))
    changes, expected = case
    approval = approved(state, *changes)
    assert refusals(approval) == expected
    assert len(approval.granted) == len(changes) - len(expected)


@pytest.mark.parametrize(
    "trouble", [facts.NodeDrained(10, node_name(0)), facts.GpuQuarantined(10, node_name(0), 1)]
)
def test_nobody_joins_gpus_that_are_not_offered(trouble: Event) -> None:
    approval = approved(couple(trouble), start(2, HERE))
    assert [refused.job_id for refused in approval.refused] == [J2]


def test_tenant_that_may_not_be_suspended_may_have_company() -> None:
    state = replay([*QUEUED, granted(7, instant=True, n0=0b11)])
    assert refusals(approved(state, pack(7, HERE), start(1, HERE))) == []


def test_opening_sends_no_order_to_the_job_and_joining_launches_the_partner() -> None:
    puppet = Puppet()
    world = World(servers=servers(4), jobs=())
    core, _ = world.scheduler(puppet, instant=False)
    events: list[Event] = [*QUEUED[3:5], granted(0, 0, n0=0b11), attempt_started(0, 0)]
    for event in events:
        core.emit(event)
    core.step(0, ())
    puppet.wishes = [pack(0, HERE), start(1, HERE)]
    _, effects = core.step(1, ())
    assert [type(effect) for effect in effects] == [Launch]
    puppet.wishes = [Suspend(J0, RULE)]
    _, effects = core.step(2, ())
    assert effects == [SuspendOrder(J0, 1)]
    assert core.state.jobs[J0].allocation == NOTHING
