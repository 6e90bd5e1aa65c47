"""Why a job waits whose place is to be proposed: none was yet, or which GPUs were not free."""

import asyncio

from shunter.ask import fact_in_words, is_part, wait_of
from shunter.ask.why import Explanation
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


def in_the_second_turn() -> ProposedScript:
    """Return a run under `gavel` in which j2 waited for its turn, and has it now."""
    script = under_gavel()
    script.step(submit(0), submit(1), submit(2))
    script.step(propose(0, ALL_OF_N0), propose(1, allocation(n1=0b1111)))
    script.step(AttemptStarted(0, job_id(0), 1), AttemptStarted(0, J1, 1))
    script.idle(61 * S)
    return script


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
