"""Why a job waits whose place is to be proposed: none was yet, or which GPUs were not free."""

import asyncio

from shunter.ask import fact_in_words, is_part, wait_of
from shunter.ask.why import Explanation, details, headline
from shunter.cli import clause
from shunter.core import DrainNode
from shunter.events import GANGS, AttemptStarted, Reason
from tests.factories import allocation, job_id, node_name
from tests.replay.eventful_run import S
from tests.replay.proposing.proposed_run import ProposedScript, propose, submit, under_gavel
from tests.replay.recording import Recorded, asked

J1, J2 = job_id(1), job_id(2)
ALL_OF_N0 = allocation(n0=0b1111)


def why(recorded: Recorded, job: str, at: int | None = None) -> Explanation:
    return asyncio.run(asked(recorded, job, at))


def contended() -> ProposedScript:
    script = ProposedScript()
    script.step(submit(0), submit(1), submit(2))
    script.step(propose(0, ALL_OF_N0))
    return script


def test_an_admitted_job_waits_for_a_proposal() -> None:
    found = why(contended().recorded(), "j1")
    assert found.waits_now is not None
    assert found.waits_now.wait.reason is Reason.awaiting_proposal
    assert details(found)[0] == "the order lets it start, and no place was proposed for it yet"


def test_a_rejected_job_is_told_by_which_gpus() -> None:
    script = contended()
    script.step(propose(1, ALL_OF_N0))
    found = why(script.recorded(), "j1")
    assert headline(found).startswith("j1 has waited for 2s: proposal_rejected")
    told = details(found)[0]
    assert told.startswith(
        "the order lets it start, and its proposal was rejected at T+00:00:03: GPUs n0[0-3] "
        "were not free for it (no_capacity: GPUs of node n0 are taken); proposed again from T+"
    )


def test_rejections_in_a_row_are_counted() -> None:
    script = contended()
    for _ in range(3):
        script.step(propose(1, ALL_OF_N0), after_us=61 * S)
    assert ", 3 times in a row by then" in details(why(script.recorded(), "j1"))[0]


def test_a_job_that_the_order_does_not_admit_waits_as_ever() -> None:
    found = why(contended().recorded(), "j2")
    assert found.waits_now is not None
    assert found.waits_now.wait.reason is Reason.no_capacity


def test_free_gpus_that_are_for_jobs_before_it_are_told_as_theirs() -> None:
    told = details(why(contended().recorded(), "j2"))
    said = "4 GPUs of what is free are for j1: before it in the order"
    assert f"{said}, with a place yet to be proposed" in told


def test_once_it_is_granted_it_waits_no_more() -> None:
    script = contended()
    script.step(propose(1, allocation(n1=0b1111)))
    assert why(script.recorded(), "j1").phase == "launching"
    before = why(script.recorded(), "j1", 2 * S)
    assert before.waits_now is not None
    assert before.waits_now.wait.reason is Reason.awaiting_proposal


def in_the_second_turn() -> ProposedScript:
    """Return a run under `gavel` in which j2 waited for its turn, and has it now."""
    script = under_gavel()
    script.step(submit(0), submit(1), submit(2))
    script.step(propose(0, ALL_OF_N0), propose(1, allocation(n1=0b1111)))
    script.step(AttemptStarted(0, job_id(0), 1), AttemptStarted(0, J1, 1))
    script.idle(61 * S)
    return script


def test_that_a_job_is_admitted_goes_before_the_reason_it_had_before() -> None:
    script = in_the_second_turn()
    reasons = [part.wait.reason for part in why(script.recorded(), "j2").reasons]
    assert reasons == [Reason.share_met, Reason.awaiting_proposal]
    script.step(propose(2, ALL_OF_N0))
    found = why(script.recorded(), "j2")
    assert found.waits_now is not None
    assert found.waits_now.wait.reason is Reason.proposal_rejected
    wait = wait_of(script.core.state.jobs[J2], script.core.state)
    assert wait == found.waits_now.wait


def test_granted_gpus_that_others_have_yet_to_leave_go_before_that() -> None:
    script = in_the_second_turn()
    script.step(propose(2, allocation(n1=0b1111)))
    found = why(script.recorded(), "j2")
    assert found.waits_now is not None
    assert found.waits_now.wait.reason is Reason.waiting_for_release


def test_who_is_dismissed_waits_for_the_reason_of_its_own_again() -> None:
    script = in_the_second_turn()
    script.step(DrainNode(0, node_name(1), "ana"))
    state = script.core.state
    assert J2 not in state.proposals.admitted
    found = why(script.recorded(), "j2")
    assert found.waits_now is not None
    assert found.waits_now.wait.reason is Reason.time_sliced
    wait = wait_of(state.jobs[J2], state)
    assert wait is not None
    assert wait.reason is Reason.time_sliced


def test_queue_and_metrics_say_the_same() -> None:
    script = contended()
    state = script.core.state
    waits = [wait_of(state.jobs[job], state) for job in (J1, J2)]
    assert [wait and wait.reason for wait in waits] == [
        Reason.awaiting_proposal,
        Reason.no_capacity,
    ]
    script.step(propose(1, ALL_OF_N0))
    wait = wait_of(state.jobs[J1], state)
    assert wait is not None
    assert (wait.reason, wait.detail) == (Reason.proposal_rejected, "n0:0xf")


def test_every_reason_of_proposals_has_a_clause() -> None:
    for name in ("awaiting_proposal", "proposal_rejected"):
        said = clause({"name": name, "needed": 0, "free": 0, "blockers": [], "detail": ""})
        assert said.startswith("the order lets it start; ")


def test_facts_of_proposals_are_told_in_words() -> None:
    script = contended()
    script.step(propose(1, ALL_OF_N0))
    words = [fact_in_words(event) for event in script.events if isinstance(event, GANGS)]
    assert "propose 1 place for j0, seen at e1" in words
    assert "approve place 1 proposed for j0" in words
    assert "reject what was proposed for j1: no_capacity (GPUs of node n0 are taken)" in words


def test_what_callers_proposed_is_no_part_of_a_round() -> None:
    script = contended()
    script.step(propose(1, ALL_OF_N0))
    assert not [event for event in script.events if isinstance(event, GANGS) and is_part(event)]
