"""The approver: of any plan, what fits goes ahead, and the rest is refused with its reason."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core import NO_GUARDS, Change, Guards, Move, Pack, Plan, Start, State, Suspend
from shunter.core.fold import apply, replay
from shunter.core.planning import Approval, approve
from shunter.events import (
    CPU_UNITS,
    NO_SUCH_JOB,
    NOTHING,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Because,
    Event,
    GpuQuarantined,
    JobCancelRequested,
    JobHeld,
    Level,
    NodeDrained,
    NodeLost,
    NodeUnreachable,
    PlanRejected,
    Reason,
    Share,
    Sharing,
    SuspendMode,
)
from tests.factories import (
    allocation,
    granted,
    job_id,
    job_submitted,
    node_added,
    node_name,
    quota,
    servers,
)

RULE = Because("rule")


def start(name: int, **masks: int) -> Start:
    return Start(job_id(name), allocation(**masks), RULE)


def move(name: int, **masks: int) -> Move:
    return Move(job_id(name), allocation(**masks), RULE)


def suspend(name: int, *beneficiaries: int) -> Suspend:
    gainers = tuple(job_id(other) for other in beneficiaries)
    return Suspend(job_id(name), Because("rule", (), gainers))


def cluster(*more: Event) -> State:
    """Return servers n0 and n1 (4 GPUs each) and n2 (a K80), with a queue for each kind of job.

    Job 0 runs on two GPUs of n0; jobs 1 and 2 wait for two, job 3 for a V100, jobs 4 and 5 in a
    queue that may use three.
    """
    events: list[Event] = [
        *servers(4, 4, cpus_milli=8000, memory_mb=64),
        node_added(2, 4, gpu_type="k80"),
        quota("few", 3),
        *(job_submitted(name, 2) for name in range(3)),
        job_submitted(3, gpu_types=["v100"]),
        job_submitted(4, 2, queue="few"),
        job_submitted(5, 2, queue="few"),
        granted(0, n0=0b11, instant=True),
    ]
    return replay([*events, *more])


def approved(state: State, *changes: Change, guards: Guards = NO_GUARDS) -> Approval:
    return approve(Plan(changes), state, guards, state.now_us)


def refusals(approval: Approval) -> list[tuple[str, Reason]]:
    return [(str(refused.job_id), refused.reason) for refused in approval.refused]


def shares(name: int, *parts: Share, sharing: Sharing = Sharing.exclusive) -> Start:
    return Start(job_id(name), Allocation(parts, sharing), RULE)


N0 = node_name(0)

GARBAGE: dict[str, tuple[tuple[Event, ...], Change, Reason, str]] = {
    "GPUs of a running job": ((), start(1, n0=0b110), Reason.no_capacity, "GPUs of node n0"),
    "half a gang": ((), start(1, n0=0b100), Reason.refused, "1 GPUs instead of the gang of 2"),
    "more than a gang": (
        (),
        start(1, n0=0b1100, n1=0b1),
        Reason.refused,
        "3 GPUs instead of the gang",
    ),
    "nothing": ((), Start(job_id(1), NOTHING, RULE), Reason.refused, "0 GPUs instead"),
    "drained node": (
        (NodeDrained(0, N0),),
        start(1, n0=0b1100),
        Reason.node_drained,
        "takes no jobs",
    ),
    "lost node": ((NodeLost(0, N0),), start(1, n0=0b1100), Reason.node_lost, "takes no jobs"),
    "silent node": ((NodeUnreachable(0, N0),), start(1, n0=12), Reason.node_lost, "takes no jobs"),
    "unknown node": ((), start(1, n9=0b11), Reason.refused, "there is no node n9"),
    "GPUs there are not": ((), start(1, n0=0b11_0000), Reason.refused, "no such GPUs to give"),
    "quarantined GPU": (
        (GpuQuarantined(0, N0, 2),),
        start(1, n0=0b1100),
        Reason.refused,
        "no such GPUs to give",
    ),
    "wrong type": ((), start(3, n2=1), Reason.gpu_type_unavailable, "does not accept this GPU"),
    "two types": ((), start(1, n1=1, n2=1), Reason.gpu_type_unavailable, "must be of one GPU type"),
    "server twice": (
        (),
        shares(1, Share(node_name(1), 1), Share(node_name(1), 2)),
        Reason.refused,
        "names a server twice",
    ),
    "same GPU twice": (
        (),
        shares(1, Share(node_name(1), 1), Share(node_name(1), 1)),
        Reason.refused,
        "names a server twice",
    ),
    "too many CPUs": ((), shares(1, Share(N0, 12, 8001)), Reason.cpu_or_memory_short, "too little"),
    "too much memory": (
        (),
        shares(1, Share(N0, 12, 0, 65)),
        Reason.cpu_or_memory_short,
        "too little",
    ),
    "sliced GPUs": (
        (),
        shares(1, Share(N0, 12), sharing=Sharing.sliced),
        Reason.refused,
        "jobs take turns on GPUs with policy.slicing only",
    ),
    "running job started": ((), start(0, n1=0b11), Reason.refused, "the job is running"),
    "held job": ((JobHeld(0, job_id(1)),), start(1, n1=3), Reason.refused, "on hold"),
    "waiting job suspended": ((), suspend(1), Reason.refused, "nothing to give back"),
    "ending job suspended": (
        (JobCancelRequested(0, job_id(0)),),
        suspend(0),
        Reason.refused,
        "the job is ending",
    ),
    "gang too far apart": (
        (job_submitted(6, 2, max_level=Level.server),),
        start(6, n0=0b100, n1=1),
        Reason.locality_not_met,
        "its GPUs would only share a cluster",
    ),
    "split that is not accepted": (
        (job_submitted(6, 3, shapes=((3,),)),),
        start(6, n0=0b100, n1=0b11),
        Reason.locality_not_met,
        "does not accept this split",
    ),
    "less than no CPUs": ((), shares(1, Share(N0, 12, -1)), Reason.refused, "less than nothing"),
    "move onto too few": ((), move(0, n1=1), Reason.refused, "1 GPUs instead"),
}


@pytest.mark.parametrize(("more", "change", "reason", "says"), GARBAGE.values(), ids=GARBAGE)
def test_change_that_does_not_fit_is_refused_alone(
    more: tuple[Event, ...], change: Change, reason: Reason, says: str
) -> None:
    """Beside each stands a start that fits, before and after it."""
    state = cluster(*more)
    before, after = start(2, n1=0b1100), start(4, n2=0b11)
    approval = approved(state, before, change, after)
    assert approval.granted == [before, after]
    assert refusals(approval) == [(str(change.job_id), reason)]
    assert says in approval.refused[0].detail
    assert (approval.refused[0].rule, approval.refused[0].at_us) == ("rule", state.now_us)


def test_second_change_of_a_job_is_refused() -> None:
    approval = approved(cluster(), start(1, n1=3), start(1, n1=12), start(2, n1=12))
    assert [change.job_id for change in approval.granted] == ["j1", "j2"]
    assert refusals(approval) == [("j1", Reason.refused)]


def test_gpus_are_given_once_a_plan() -> None:
    approval = approved(cluster(), start(1, n1=0b11), start(2, n1=0b110))
    assert [change.job_id for change in approval.granted] == ["j1"]
    assert refusals(approval) == [("j2", Reason.no_capacity)]


def test_gpus_given_back_in_a_plan_are_given_on_once() -> None:
    approval = approved(cluster(), suspend(0, 1, 2), start(1, n0=0b11), start(2, n0=0b11))
    assert [change.job_id for change in approval.granted] == ["j0", "j1"]
    assert refusals(approval) == [("j2", Reason.no_capacity)]


def test_jobs_may_change_places_in_a_circle() -> None:
    """Each is suspended first; moves could not be put in an order."""
    state = cluster(granted(1, n1=0b11, instant=True))
    changes = (suspend(0), suspend(1), start(0, n1=0b11), start(1, n0=0b11))
    assert approved(state, *changes).granted == [*changes]


def test_suspended_job_is_started_elsewhere_only_once() -> None:
    approval = approved(cluster(), suspend(0), start(0, n1=0b11), start(0, n0=0b11))
    assert approval.granted == [suspend(0), start(0, n1=0b11)]
    assert refusals(approval) == [("j0", Reason.refused)]


def test_suspended_job_does_not_get_gpus_that_others_hold() -> None:
    state = cluster(granted(1, n1=0b11, instant=True))
    approval = approved(state, suspend(0), start(0, n1=0b11))
    assert approval.granted == [suspend(0)]
    assert refusals(approval) == [("j0", Reason.no_capacity)]


def test_gpus_cannot_be_taken_before_they_are_given_back() -> None:
    approval = approved(cluster(), start(1, n0=0b11), suspend(0, 2), start(2, n0=0b11))
    assert [change.job_id for change in approval.granted] == ["j0", "j2"]
    assert refusals(approval) == [("j1", Reason.no_capacity)]


def test_cpus_given_back_in_a_plan_are_given_on() -> None:
    given_to_1 = Allocation((Share(N0, 0b1100, 8000, 64),))
    state = cluster(AllocationChanged(0, job_id(1), given_to_1, RULE, instant=True))
    wants = shares(2, Share(N0, 0b1100, 8000, 64))
    assert approved(state, suspend(1), wants).granted == [suspend(1), wants]
    more = shares(2, Share(N0, 0b1100, 8000, 65))
    assert refusals(approved(state, suspend(1), more)) == [("j2", Reason.cpu_or_memory_short)]


def test_cpus_are_given_once_a_plan() -> None:
    halves = [shares(1, Share(N0, 0b0100, 5000)), shares(3, Share(N0, 0b1000, 5000))]
    state = cluster(job_submitted(6), job_submitted(7))
    one, other = (Start(job_id(n), half.allocation, RULE) for n, half in enumerate(halves, 6))
    assert refusals(approved(state, one, other)) == [("j7", Reason.cpu_or_memory_short)]


def test_quota_bounds_what_a_plan_starts() -> None:
    approval = approved(cluster(), start(4, n1=0b11), start(5, n1=0b1100))
    assert [change.job_id for change in approval.granted] == ["j4"]
    assert refusals(approval) == [("j5", Reason.quota)]


def test_quota_counts_what_a_plan_gives_back() -> None:
    state = cluster(granted(4, n1=0b11, instant=True))
    assert refusals(approved(state, start(5, n1=0b1100))) == [("j5", Reason.quota)]
    assert not approved(state, suspend(4, 5), start(5, n1=0b1100)).refused


def test_moved_job_may_keep_some_of_its_gpus() -> None:
    approval = approved(cluster(), move(0, n0=0b110), start(1, n0=0b1001))
    assert (len(approval.granted), approval.refused) == (2, [])


def test_packed_gpus_before_the_first_are_refused() -> None:
    packed = Allocation((Share(node_name(0), -1),), Sharing.packed)
    for change in (Start(job_id(1), packed, RULE), Move(job_id(0), packed, RULE)):
        approval = approved(cluster(), change)
        assert refusals(approval) == [(change.job_id, Reason.refused)]


def test_move_that_is_refused_gives_nothing_back() -> None:
    approval = approved(cluster(), move(0, n9=0b11), start(1, n0=0b11))
    assert refusals(approval) == [("j0", Reason.refused), ("j1", Reason.no_capacity)]


@pytest.mark.parametrize("change", [suspend(0), move(0, n1=0b11)], ids=["suspended", "moved"])
def test_pinned_job_is_not_made_to_leave(change: Change) -> None:
    approval = approved(cluster(), change, guards=Guards(min_runtime_us=10))
    assert refusals(approval) == [("j0", Reason.guard_min_runtime)]


def test_job_that_must_never_be_suspended_is_not() -> None:
    never = job_submitted(6, suspend_mode=SuspendMode.never)
    state = cluster(never, granted(6, n1=1, instant=True))
    assert refusals(approved(state, suspend(6))) == [("j6", Reason.guard_preemption_limit)]


def test_job_that_prepares_may_leave_where_no_guard_is_configured() -> None:
    """A live job that has yet to tell its first mini-batch is waited for by guards alone."""
    begun = AttemptStarted(0, job_id(0), 1, may_tell_training=True)
    state = replay([*servers(4), job_submitted(0), granted(0, n0=1), begun])
    approval = approved(state, suspend(0), guards=Guards(launches_first=True))
    assert (refusals(approval), approval.granted) == ([], [suspend(0)])
    guarded = Guards(min_runtime_us=1, launches_first=True)
    assert refusals(approved(state, suspend(0), guards=guarded)) == [
        ("j0", Reason.guard_min_runtime)
    ]


def test_suspension_in_vain_is_dropped_without_a_word() -> None:
    approval = approved(cluster(), suspend(0, 1), start(1, n0=0b1), start(2, n1=0b11))
    assert [change.job_id for change in approval.granted] == ["j2"]
    assert refusals(approval) == [("j1", Reason.refused)]


def test_suspension_stays_while_one_of_its_beneficiaries_starts() -> None:
    approval = approved(cluster(), suspend(0, 1, 2), start(1, n0=0b1), start(2, n0=0b11))
    assert [change.job_id for change in approval.granted] == ["j0", "j2"]


def test_suspension_without_beneficiaries_stays() -> None:
    approval = approved(cluster(), suspend(0), start(1, n9=0b1))
    assert [change.job_id for change in approval.granted] == ["j0"]


def test_start_on_gpus_of_a_dropped_suspension_is_refused_too() -> None:
    """Job 0 leaves for job 1 only; when that is refused, job 2 finds its GPUs taken after all."""
    approval = approved(cluster(), suspend(0, 1), start(1, n0=0b1), start(2, n0=0b11))
    assert approval.granted == []
    assert refusals(approval) == [("j1", Reason.refused), ("j2", Reason.no_capacity)]


def test_units_are_given_with_their_cpus_and_to_one_job_alone() -> None:
    units = node_added(3, 2, gpu_type="cpu", cpus_milli=8000, device=CPU_UNITS)
    state = cluster(units, job_submitted(6), job_submitted(7), job_submitted(8))
    there = [Share(node_name(3), 1 << unit, 4000) for unit in (0, 1)]

    bare = approved(state, start(6, n3=1), shares(7, there[0]), shares(8, there[1]))
    assert refusals(bare) == [("j6", Reason.refused)]
    assert "without all of their CPUs" in bare.refused[0].detail
    assert len(bare.granted) == 2

    together = [shares(name, there[0], sharing=Sharing.packed) for name in (6, 7)]
    assert refusals(approved(state, *together)) == [("j6", Reason.refused), ("j7", Reason.refused)]
    apply(state, AllocationChanged(0, job_id(6), Allocation((there[0],)), RULE, instant=True))
    opened = approved(state, Pack(job_id(6), Allocation((there[0],), Sharing.packed), RULE))
    assert opened.refused[0].detail == "units of CPU are not shared"


def test_unknown_job_is_refused_and_told_of() -> None:
    approval = approved(cluster(), start(9, n1=0b11), suspend(8), start(1, n1=0b11))
    assert [change.job_id for change in approval.granted] == ["j1"]
    assert [(one.job_id, one.detail) for one in approval.refused] == [
        ("j9", NO_SUCH_JOB),
        ("j8", NO_SUCH_JOB),
    ]


def test_approving_changes_nothing() -> None:
    state = cluster()
    approved(state, suspend(0, 1), start(1, n0=0b11), start(2, n1=0b1))
    assert state == cluster()


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Return any change, sensible or not."""
    name = draw(st.integers(0, 6))
    kind: Any = draw(st.sampled_from([Start, Start, Move, Suspend, Pack]))
    if kind is Suspend:
        return suspend(name, *draw(st.lists(st.integers(0, 6), max_size=2)))
    nodes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=2))
    mask = st.sampled_from([1, 3, 3, 6, 12, 12, 9, 0x30])
    cpus = st.sampled_from([0, 0, 5000, 9000])
    parts = [Share(node_name(node), draw(mask), draw(cpus)) for node in nodes]
    sharing = draw(st.sampled_from([Sharing.exclusive, Sharing.packed]))
    change: Change = kind(job_id(name), Allocation(tuple(parts), sharing), RULE)
    return change


@given(plan=st.lists(changes(), max_size=8), instant=st.booleans())
def test_what_is_granted_of_any_plan_can_be_folded(plan: list[Change], instant: bool) -> None:
    """Every change is granted, refused, or dropped for a refusal; and never oversubscribes."""
    state = cluster(GpuQuarantined(0, node_name(1), 3))
    approval = approved(state, *plan)
    for change in approval.granted:
        target = NOTHING if isinstance(change, Suspend) else change.allocation
        apply(state, AllocationChanged(0, change.job_id, target, RULE, instant))
    for refused in approval.refused:
        assert isinstance(refused, PlanRejected)
        apply(state, refused)
    assert min(pool.gpus_free for pool in state.cluster.pools.values()) >= 0
    assert all(server.beside_free.cpus_milli >= 0 for server in state.cluster.servers.values())
    assert state.queues[job_submitted(0, queue="few").spec.queue].gpus <= 3
