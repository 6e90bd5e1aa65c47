"""Which trials of a plan begin and end, and which are refused with the reason."""

import pytest

from shunter.core import Judge, Move, Plan, ShareTurns, State, Try
from shunter.core.fold import apply
from shunter.core.planning import TrialRules, orders_of, trial_facts, verdicts
from shunter.errors import IllegalEventError
from shunter.events import (
    MILLION,
    NOTHING,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Batch,
    ChangeKey,
    GpuType,
    JobId,
    JobStopped,
    PlanRejected,
    Share,
    Sharing,
    TrialFact,
    TrialKept,
    TrialKind,
    TrialReason,
    TrialReverted,
    TrialStarted,
    TurnEnded,
    TurnStarted,
)
from tests.factories import (
    BECAUSE,
    allocation,
    job_submitted,
    node_name,
    scheduler_started,
    servers,
)

KEY = ChangeKey("pack", ("x", "x"), GpuType("v100"))
J0, J1, J2, J3 = (JobId(f"j{number}") for number in range(4))
NAMES = (J0, J1, J2, J3)


def cluster() -> State:
    """Return three jobs in turns on GPU 0 of n0, j0 on its turn, and one on n1."""
    state = State()
    for event in servers(1, 1):
        apply(state, event)
    for number, name in enumerate(NAMES):
        apply(state, job_submitted(number))
        node = node_name(0 if number < 3 else 1)
        where = Allocation((Share(node, 1),), Sharing.sliced)
        apply(state, AllocationChanged(0, name, where, BECAUSE))
        apply(state, AttemptStarted(0, name, 1))
    apply(state, TurnStarted(0, J0, 1, (Share(node_name(0), 1),)))
    return state


def pack(
    *names: JobId,
    kind: TrialKind = TrialKind.pack,
    sum_before: int = MILLION,
    batch_us: int = 100,
) -> Try:
    batches = tuple(Batch(name, batch_us) for name in names)
    return Try(names[0], kind, names[1:], KEY, sum_before, batches)


def facts(state: State, *trials: Try | Judge, moves: tuple[Move, ...] = ()) -> list[object]:
    plan = Plan(moves, trials=trials)
    return [*verdicts(plan, moves, state, 5), *trial_facts(plan, moves, state, 5)]


def refused(state: State, *trials: Try | Judge, moves: tuple[Move, ...] = ()) -> str:
    *_, last = facts(state, *trials, moves=moves)
    assert isinstance(last, PlanRejected)
    return last.detail


def begun(state: State, *names: JobId) -> TrialStarted:
    (fact,) = facts(state, pack(*names))
    assert isinstance(fact, TrialStarted)
    apply(state, fact)
    return fact


def test_a_pack_is_tried_and_kept_and_given_up_for_room() -> None:
    state = cluster()
    (fact,) = facts(state, pack(J0, J1))
    assert isinstance(fact, TrialStarted)
    assert list(orders_of(fact, state)) == [ShareTurns(J0, 1, (J1,))]
    apply(state, fact)
    assert (state.jobs[J0].packed_with, state.jobs[J1].packed_with) == ((J1,), (J0,))
    apply(state, TurnStarted(6, J1, 1, (Share(node_name(0), 1),)))
    assert state.cluster.holding.overcommit == 1
    (kept,) = facts(state, Judge(J0, TrialReason.gained, 1_500_000, ()))
    assert isinstance(kept, TrialKept)
    assert kept.measured == 1.5
    assert not list(orders_of(kept, state))
    apply(state, TrialKept(7, J0, "pack", 1.5, "gained"))
    assert not state.verdicts[KEY].is_loss
    (over,) = facts(state, Judge(J1, TrialReason.room, 0, ()))
    assert isinstance(over, TrialReverted)
    assert list(orders_of(over, state)) == [ShareTurns(J1, 1, ())]
    apply(state, TrialReverted(8, J1, "pack", 0.0, "room"))
    assert not state.jobs[J0].packed_with
    assert not state.jobs[J1].packed_with
    assert not state.verdicts[KEY].is_loss, "room says nothing of the pair"
    assert state.cluster.holding.overcommit == 0


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ((pack(J0, JobId("none")),), "does not exist"),
        ((pack(J0, J0),), "one twice"),
        ((pack(J0, J3),), "take no turns together"),
        ((pack(J0),), "of two jobs"),
        ((pack(J0, J1, J2),), "of two jobs"),
        ((pack(J0, J1), pack(J1, J2)), "tried already"),
        ((pack(J0, J1, sum_before=0),), "what each of its jobs measured"),
        ((Try(J0, TrialKind.pack, (J1,), KEY, MILLION, ()),), "what each of its jobs measured"),
        ((pack(J0, kind=TrialKind.migrate),), "not moved by this plan"),
        ((Judge(J0, TrialReason.gained, 1, ()),), "nothing is tried"),
        ((Judge(J0, TrialReason.room, 1, ()),), "has been kept"),
        ((pack(J0, J1, batch_us=0),), "what each of its jobs measured"),
    ],
)
def test_what_cannot_be_tried_is_refused(trials: tuple[Try | Judge, ...], said: str) -> None:
    assert said in refused(cluster(), *trials)


def test_jobs_that_are_changed_or_packed_are_not_tried() -> None:
    state = cluster()
    move = Move(J0, allocation(n1=1), BECAUSE)
    assert "changed by this plan" in refused(state, pack(J0, J1), moves=(move,))
    (fact,) = facts(state, pack(J0, kind=TrialKind.migrate), moves=(move,))
    assert isinstance(fact, TrialStarted)
    begun(state, J0, J1)
    assert "tried already" in refused(state, pack(J2, J1))


def test_trial_of_a_job_that_does_not_exist_is_refused_by_its_name() -> None:
    (fact,) = facts(cluster(), Judge(JobId("none"), TrialReason.lost, 0, ()))
    assert isinstance(fact, PlanRejected)
    assert fact.job_id == "none"


def test_a_job_that_stands_still_is_packed_no_more_and_the_trial_has_no_verdict() -> None:
    state = cluster()
    begun(state, J0, J1)
    apply(state, JobStopped(6, J1, 1))
    assert not state.trials
    assert not state.jobs[J0].packed_with
    assert not state.verdicts


def test_a_trial_that_was_given_up_for_room_says_nothing_of_its_pair() -> None:
    state = cluster()
    begun(state, J0, J1)
    apply(state, TrialReverted(6, J0, TrialKind.pack, 0.0, TrialReason.room))
    assert not state.trials
    assert not state.verdicts


def test_a_job_that_has_to_leave_ends_its_pack() -> None:
    state = cluster()
    begun(state, J0, J1)
    apply(state, AllocationChanged(6, J1, NOTHING, BECAUSE))
    assert not state.trials
    assert not state.jobs[J0].packed_with


def test_time_in_which_nobody_read_what_jobs_told_is_none_of_a_probe() -> None:
    """A daemon that was away for long must not take its jobs for such that make no progress."""
    state, rules = cluster(), TrialRules(60)
    begun(state, J0, J1)
    apply(state, TurnStarted(6, J1, 1, (Share(node_name(0), 1),)))
    apply(state, scheduler_started(at=1_000, policy="gandiva"))
    jobs = (state.jobs[J0], state.jobs[J1])
    assert state.trials[J0].is_on
    assert rules.verdict(state.trials[J0], jobs, 1_119) is None
    verdict = rules.verdict(state.trials[J0], jobs, 1_120)
    assert verdict is not None
    assert verdict.reason is TrialReason.no_progress


def illegal() -> list[tuple[TrialFact, str]]:
    return [
        (TrialStarted(5, J0, "pack", (J1,)), "nothing says what is tried"),
        (TrialKept(5, J0, "pack", 1.0, "gained"), "nothing is tried"),
        (TrialReverted(5, J0, "pack", 1.0, "lost"), "nothing is tried"),
    ]


@pytest.mark.parametrize(("fact", "said"), illegal())
def test_facts_that_cannot_be_are_illegal(fact: TrialFact, said: str) -> None:
    with pytest.raises(IllegalEventError, match=said):
        apply(cluster(), fact)


def test_a_pair_on_different_gpus_holds_none_twice() -> None:
    state = State()
    for event in servers(2):
        apply(state, event)
    for number in (0, 1):
        apply(state, job_submitted(number))
        where = Allocation((Share(node_name(0), 1 << number),), Sharing.sliced)
        apply(state, AllocationChanged(0, NAMES[number], where, BECAUSE))
        apply(state, AttemptStarted(0, NAMES[number], 1))
        apply(state, TurnStarted(0, NAMES[number], 1, where.shares))
    begun(state, J0, J1)
    assert state.cluster.holding.overcommit == 0
    apply(state, TurnEnded(6, J1, 1))
    apply(state, TurnStarted(6, J1, 1, (Share(node_name(0), 1),)))
    assert state.cluster.holding.overcommit == 1


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (Judge(J0, TrialReason.no_loss, 1, ()), "one of moves"),
        (Judge(J1, TrialReason.gained, 1, ()), "nothing is tried"),
        (Judge(J1, TrialReason.room, 0, ()), "has been kept"),
        (Judge(J0, TrialReason.gained, -1, ()), "what jobs of the trial measured"),
        (Judge(J0, TrialReason.gained, 1, (Batch(J2, 1),)), "what jobs of the trial measured"),
        (Judge(J0, TrialReason.gained, 1, (Batch(J0, 0),)), "what jobs of the trial measured"),
    ],
)
def test_verdicts_that_cannot_be_are_refused(judged: Judge, said: str) -> None:
    state = cluster()
    begun(state, J0, J1)
    assert said in refused(state, judged)


def test_a_trial_is_judged_once() -> None:
    state = cluster()
    begun(state, J0, J1)
    judge = Judge(J0, TrialReason.gained, 1_500_000, ())
    kept, again = facts(state, judge, judge)
    assert isinstance(kept, TrialKept)
    assert isinstance(again, PlanRejected)
    assert "judged already" in again.detail
    apply(state, kept)
    both = facts(state, *(Judge(name, TrialReason.room, 0, ()) for name in (J0, J1)))
    assert [type(fact) for fact in both] == [TrialReverted, PlanRejected]


@pytest.mark.parametrize(
    "fact",
    [
        TrialStarted(5, J0, "other", (J1,), 1.0, (), KEY),
        TrialStarted(5, J0, "pack", (J1,), 0.0, (), KEY),
        TrialStarted(5, J0, "pack", (J1,), 1e308, (), KEY),
        TrialKept(5, J0, "pack", 1.0, "bogus"),
        TrialKept(5, J0, "pack", -1.0, "gained"),
        TrialReverted(5, J0, "pack", 1e308, "lost"),
    ],
    ids=str,
)
def test_facts_of_an_edited_log_are_told(fact: TrialFact) -> None:
    state = cluster()
    if not isinstance(fact, TrialStarted):
        begun(state, J0, J1)
    with pytest.raises(IllegalEventError, match="expected"):
        apply(state, fact)
