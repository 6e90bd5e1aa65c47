"""What callers propose: granted on the state of the GPUs, in order, within quotas, and whole."""

import pytest

from shunter.ask import Verifier
from shunter.core import HoldJob, JobPhase
from shunter.core.planning import KEPT, NOT_ADMITTED
from shunter.events import (
    CALLER,
    PROPOSED,
    REPEATED,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    LaunchFailed,
    NodeLost,
    Reason,
    ReservationSet,
    RoundPlanned,
    Trigger,
)
from tests.factories import allocation, job_id, node_name, packed
from tests.replay.eventful_run import S
from tests.replay.proposing.proposed_run import ProposedScript, propose, submit, under_gavel

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
ALL_OF_N0, ALL_OF_N1 = allocation(n0=0b1111), allocation(n1=0b1111)


def kinds(facts: list[Event]) -> list[str]:
    return [type(fact).__name__ for fact in facts if not isinstance(fact, RoundPlanned)]


def rejected(facts: list[Event]) -> GangRejected:
    found = [fact for fact in facts if isinstance(fact, GangRejected)]
    assert len(found) == 1, kinds(facts)
    return found[0]


def verified(script: ProposedScript) -> None:
    recorded = script.recorded()
    divergence = Verifier(recorded.rebuild).take(recorded.events)
    assert divergence is None, "\n".join(divergence.lines())


def test_the_order_admits_and_places_nobody() -> None:
    script = ProposedScript()
    facts = script.step(submit(0), submit(1), submit(2))
    planned = next(fact for fact in facts if isinstance(fact, RoundPlanned))
    assert planned.admitted == (J0, J1)
    assert not [fact for fact in facts if isinstance(fact, AllocationChanged)]
    assert list(script.core.state.proposals.admitted) == [J0, J1]


def test_a_free_gang_is_granted_whole_whatever_the_version() -> None:
    script = ProposedScript()
    script.step(submit(0), submit(1))
    facts = script.step(propose(0, ALL_OF_N0, version=1))
    assert kinds(facts)[:3] == ["GangProposed", "GangApproved", "AllocationChanged"]
    change = next(fact for fact in facts if isinstance(fact, AllocationChanged))
    assert (change.allocation, change.because) == (ALL_OF_N0, PROPOSED)
    assert J0 not in script.core.state.proposals.admitted
    verified(script)


def test_the_first_candidate_that_is_free_is_granted() -> None:
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, ALL_OF_N0))
    facts = script.step(propose(1, ALL_OF_N0, ALL_OF_N1))
    approved = next(fact for fact in facts if isinstance(fact, GangApproved))
    assert approved.choice == 1
    verified(script)


def test_a_gang_of_which_one_gpu_is_taken_gets_nothing() -> None:
    script = ProposedScript()
    script.step(submit(0, 1), submit(1))
    script.step(propose(0, allocation(n0=0b0100)))
    told = rejected(script.step(propose(1, ALL_OF_N0)))
    assert (told.reason, told.conflicts) == (Reason.no_capacity, ((node_name(0), 0b0100),))
    assert told.retry_us is not None
    assert told.retry_us > script.now_us
    assert not script.core.state.jobs[J1].allocation.shares
    verified(script)


def test_who_has_not_its_turn_may_not_be_proposed() -> None:
    script = ProposedScript()
    script.step(submit(0), submit(1), submit(2))
    told = rejected(script.step(propose(2, ALL_OF_N0)))
    assert (told.reason, told.detail) == (Reason.no_capacity, NOT_ADMITTED)
    verified(script)


def test_a_policy_without_classes_says_itself_why_a_job_has_not_its_turn() -> None:
    script = under_gavel()
    script.step(submit(0), submit(1), submit(2))
    told = rejected(script.step(propose(2, ALL_OF_N0)))
    assert (told.reason, told.detail) == (Reason.share_met, NOT_ADMITTED)
    verified(script)


def test_who_is_owed_time_may_be_proposed_in_the_next_turn() -> None:
    script = under_gavel()
    script.step(submit(0), submit(1), submit(2))
    script.step(propose(0, ALL_OF_N0), propose(1, ALL_OF_N1))
    script.step(AttemptStarted(0, J0, 1), AttemptStarted(0, J1, 1))
    facts = script.idle(61 * S)
    assert list(script.core.state.proposals.admitted) == [J2]
    left = next(fact for fact in facts if isinstance(fact, AllocationChanged))
    assert (left.job_id, left.because.beneficiaries) == (J1, (J2,))
    script.step(propose(2, ALL_OF_N1))
    assert script.core.state.jobs[J2].phase is JobPhase.granted
    verified(script)


def test_a_quota_holds() -> None:
    script = ProposedScript(bound=4, name="fifo_backfill")
    script.step(submit(0, 4, queue="a"), submit(1, 4, queue="a"), submit(2, 4))
    assert list(script.core.state.proposals.admitted) == [J0, J2]
    told = rejected(script.step(propose(1, ALL_OF_N1)))
    assert told.reason is Reason.quota
    verified(script)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (allocation(n0=0b0111), Reason.refused),
        (allocation(n0=0b11111), Reason.refused),
        (allocation(n7=0b1111), Reason.refused),
        (packed(n0=0b1111), Reason.refused),
        (Allocation(), Reason.refused),
    ],
    ids=["gang not whole", "GPU there is not", "server there is not", "shared", "nothing"],
)
def test_what_is_no_gang_of_the_job_is_refused(target: Allocation, reason: Reason) -> None:
    script = ProposedScript()
    script.step(submit(0))
    assert rejected(script.step(propose(0, target))).reason is reason
    verified(script)


def test_a_job_that_was_put_on_hold_is_not_started() -> None:
    script = ProposedScript()
    script.step(submit(0))
    told = rejected(script.step(HoldJob(0, J0), propose(0, ALL_OF_N0)))
    assert told.reason is Reason.refused
    assert not script.core.state.jobs[J0].allocation.shares
    verified(script)


def test_rejections_within_a_round_are_told_once_at_its_end() -> None:
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, ALL_OF_N0))
    first = script.step(propose(1, ALL_OF_N0))
    assert kinds(first)[:2] == ["GangProposed", "GangRejected"]
    for _ in range(5):
        assert kinds(script.step(propose(1, ALL_OF_N0))) == []
    facts = script.idle(70 * S)
    told = rejected([fact for fact in facts if isinstance(fact, GangRejected)])
    assert (told.cause, told.count, told.reason) == (REPEATED, 5, Reason.no_capacity)
    assert script.core.state.proposals.rejected == 6
    assert script.core.state.proposals.conflict_rate == 6 / 7
    verified(script)


def test_rejections_that_are_only_counted_wake_who_keeps_gpus() -> None:
    """They are no input: the plan after them is due by what job schedulers remember."""
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, ALL_OF_N0))
    for _ in range(4):
        script.step(propose(1, ALL_OF_N0))
    script.step(submit(2, 2))
    facts = script.idle(70 * S)
    place = facts.index(rejected(facts))
    told, planned = facts[place : place + 2]
    assert isinstance(told, GangRejected)
    assert (told.cause, told.count) == (REPEATED, 3)
    assert isinstance(planned, RoundPlanned)
    assert planned.trigger is Trigger.wake
    assert script.core.state.proposals.reserved == {J1: ALL_OF_N1.shares}
    verified(script)


def test_within_a_round_a_rejected_job_is_still_granted_what_is_free() -> None:
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, ALL_OF_N0))
    script.step(propose(1, ALL_OF_N0))
    facts = script.step(propose(1, ALL_OF_N1))
    assert kinds(facts)[:3] == ["GangProposed", "GangApproved", "AllocationChanged"]
    verified(script)


def starving() -> ProposedScript:
    """Return a script in which GPUs of the second server are kept for the second job."""
    script = ProposedScript()
    script.step(submit(0), submit(1), submit(2, 2))
    script.step(propose(0, ALL_OF_N0))
    for _ in range(3):
        script.step(propose(1, ALL_OF_N0), after_us=60 * S)
    return script


def test_after_so_many_rejections_gpus_are_kept_for_a_job() -> None:
    script = starving()
    promise = [event for event in script.events if isinstance(event, ReservationSet)]
    assert [(one.job_id, one.shares) for one in promise] == [(J1, ALL_OF_N1.shares)]
    state = script.core.state
    assert state.proposals.reserved == {J1: ALL_OF_N1.shares}
    facts = script.step(propose(1, ALL_OF_N1))
    assert "GangApproved" in kinds(facts)
    assert not state.proposals.reserved
    assert not state.reservations
    verified(script)


def test_nobody_else_is_granted_what_is_kept() -> None:
    script = ProposedScript(4, 4, 4)
    script.step(submit(0), submit(1), submit(2, 2))
    script.step(propose(0, ALL_OF_N0))
    for _ in range(3):
        script.step(propose(1, ALL_OF_N0), after_us=60 * S)
    (kept,) = script.core.state.proposals.reserved[J1]
    told = rejected(script.step(propose(2, allocation(**{kept.node: 0b0011}))))
    assert (told.reason, told.detail) == (Reason.outranked, KEPT)
    assert told.conflicts == ((kept.node, 0b0011),)
    verified(script)


def test_what_nobody_comes_for_is_given_up() -> None:
    script = starving()
    script.idle(script.now_us + 40 * S)
    assert not script.core.state.proposals.reserved
    assert not script.core.state.proposals.rejected_in_a_row(J1)
    last = [event for event in script.events if isinstance(event, ReservationSet)][-1]
    assert last.start_us is None
    assert script.core.deadline_us(script.now_us) is None
    verified(script)


def test_what_was_kept_on_a_lost_server_is_no_longer() -> None:
    script = starving()
    script.step(NodeLost(0, node_name(1)))
    assert not script.core.state.proposals.reserved
    verified(script)


def test_a_granted_job_whose_launch_fails_is_admitted_anew() -> None:
    script = ProposedScript()
    script.step(submit(0))
    script.step(propose(0, ALL_OF_N0))
    script.step(LaunchFailed(0, J0, 1, "no"))
    script.idle(script.now_us + 5 * S)
    assert list(script.core.state.proposals.admitted) == [J0]
    assert "GangApproved" in kinds(script.step(propose(0, ALL_OF_N0)))
    verified(script)


def test_a_proposal_for_a_job_that_ended_is_none() -> None:
    script = ProposedScript()
    script.step(submit(0))
    assert kinds(script.step(propose(5, ALL_OF_N0))) == []


def test_preemption_makes_room_for_who_is_admitted() -> None:
    """The order says who leaves; where the other goes is proposed."""
    script = ProposedScript(4, name="srtf")
    script.step(submit(0, 4, time_limit_us=90 * S))
    script.step(propose(0, ALL_OF_N0), after_us=0)
    script.step(AttemptStarted(0, J0, 1))
    facts = script.step(submit(1, 4, time_limit_us=9 * S))
    planned = [fact for fact in facts if isinstance(fact, RoundPlanned)][-1]
    assert planned.admitted == (J1,)
    left = [fact for fact in facts if isinstance(fact, AllocationChanged)]
    assert [(fact.job_id, fact.because.beneficiaries) for fact in left] == [(J0, (J1,))]
    assert "GangApproved" in kinds(script.step(propose(1, ALL_OF_N0)))
    assert script.core.state.jobs[J1].phase is JobPhase.granted
    verified(script)


def test_facts_say_who_proposed() -> None:
    script = ProposedScript()
    script.step(submit(0))
    facts = script.step(propose(0, ALL_OF_N0))
    made = next(fact for fact in facts if isinstance(fact, GangProposed))
    assert (made.cause, made.by) == (CALLER, "ana")
