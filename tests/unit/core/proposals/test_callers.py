"""What callers propose: granted on the state of the GPUs, in order, within quotas, and whole."""

from collections.abc import Iterable

import pytest

from shunter.ask import Verifier
from shunter.core import JobPhase
from shunter.core.fold import replay
from shunter.core.planning import NOT_ADMITTED
from shunter.events import (
    CALLER,
    PROPOSED,
    REPEATED,
    Allocation,
    AllocationChanged,
    AttemptStarted,
    Event,
    GangRejected,
    Reason,
    RoundPlanned,
    Trigger,
    facts,
)
from tests.behaviour.waits_scenes import Row, check, played, row, rows
from tests.factories import allocation, job_id, node_name, packed
from tests.replay.eventful_run import S
from tests.replay.proposing.proposed_run import ProposedScript, propose, submit, under_gavel

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
ALL_OF_N0, ALL_OF_N1 = allocation(n0=0b1111), allocation(n1=0b1111)
LIVE = "live, decentralised=yes; servers 4 4"
TWO = f"{LIVE}; j0: 4 GPUs; j1: 4 GPUs"
THREE = f"{TWO}; j2: 4 GPUs"
TAKEN = f"{TWO}; ana proposes j0 on n0[0-3] at 1"
FORK = f"{TWO}; j2: 2 GPUs; ana proposes j0 on n0[0-3] at 1"
STARVING = FORK + "".join(f"; ana proposes j1 on n0[0-3] at {at}s" for at in (61, 121, 181))
QUOTA = (
    f"under fifo_backfill; {LIVE}; quota a 4; j0: 4 GPUs, queue=a; j1: 4 GPUs, queue=a; j2: 4 GPUs"
)
ROOM = (
    "under srtf; live, decentralised=yes; servers 4; j0: 4 GPUs, time_limit_us=90s; "
    "ana proposes j0 on n0[0-3] at 1; j1: 4 GPUs at 1s, time_limit_us=9s; leaving takes 9s"
)

TABLE = [
    row(
        "the order admits and places nobody", THREE, "j0", log="0: submitted", admitted=["j0", "j1"]
    ),
    row(
        "a free gang is granted whole",
        f"{TWO}; ana proposes j0 on n0[0-3] at 1",
        "j0",
        then="1: proposed by ana, approved (0), attempt 1 starts on n0[0,1,2,3]",
        admitted=["j1"],
    ),
    *rows(f"""
no round looks again for those whom only others propose
    {TAKEN}; until 99s
    => j1, rounds: 2
the first candidate that is free is
    {TAKEN}; ana proposes j1 on n0[0-3] or n1[0-3] at 2
    => j1, then: 2: proposed by ana, approved (1), attempt 1 starts on n1[0,1,2,3]
one of which a GPU is taken gets nothing
    {LIVE}; j0: 1 GPU; j1: 4 GPUs; ana proposes j0 on n0[2] at 1; ana proposes j1 on n0[0-3] at 2
    => j1, then: 2: proposed by ana, rejected (no_capacity)
one that has not its turn may not be proposed
    {THREE}; ana proposes j2 on n0[0-3] at 1
    => j2, then: 1: proposed by ana, rejected (no_capacity, not admitted)
"""),
    row(
        "a quota holds",
        f"{QUOTA}; ana proposes j1 on n1[0-3] at 1",
        "j1",
        then="1: proposed by ana, rejected (quota, not admitted)",
        admitted=["j0", "j2"],
    ),
    *rows(f"""
a job that was put on hold is not started
    {LIVE}; j0: 4 GPUs; bo holds j0 at 1; ana proposes j0 on n0[0-3] at 1
    => j0, then: 1: held by bo, proposed by ana, rejected (refused)
within a round a rejected job is still granted what is free
    {TAKEN}; ana proposes j1 on n0[0-3] at 2; ana proposes j1 on n1[0-3] at 3
    => j1, then: 2: proposed by ana, rejected (no_capacity);
       3: proposed by ana, approved (0), attempt 1 starts on n1[0,1,2,3]
"""),
    row(
        "rejections within a round are told once at its end",
        f"{TAKEN}"
        + "".join(f"; ana proposes j1 on n0[0-3] at {at}s" for at in range(1, 7))
        + "; until 70s",
        "j1",
        then=(
            "1s: proposed by ana, rejected (no_capacity); "
            "60s: rejected 5 times (no_capacity), keeps n1[0,1,2,3]"
        ),
    ),
    row(
        "after three rejections GPUs are kept for a job",
        STARVING,
        "j1",
        then=(
            "61s: proposed by ana, rejected (no_capacity); "
            "121s: proposed by ana, rejected (no_capacity); "
            "181s: proposed by ana, rejected (no_capacity), keeps n1[0,1,2,3]"
        ),
        kept={"j1": "n1[0,1,2,3]"},
    ),
    row(
        "which it is granted",
        f"{STARVING}; ana proposes j1 on n1[0-3] at 182s",
        "j1",
        then=(
            "61s: proposed by ana, rejected (no_capacity); "
            "121s: proposed by ana, rejected (no_capacity); "
            "181s: proposed by ana, rejected (no_capacity), keeps n1[0,1,2,3]; "
            "182s: proposed by ana, approved (0), attempt 1 starts on n1[0,1,2,3]"
        ),
        kept={},
    ),
    *rows(f"""
and nobody else is
    {STARVING.replace("4 4", "4 4 4")}; ana proposes j2 on n1[0-1] at 182s
    => j2, then: 182s: proposed by ana, rejected (outranked, kept)
"""),
    row(
        "what nobody comes for is given up, and begins anew to be rejected",
        f"{STARVING}; ana proposes j1 on n0[0-3] at 241s",
        "j1",
        then=(
            "61s: proposed by ana, rejected (no_capacity); "
            "121s: proposed by ana, rejected (no_capacity); "
            "181s: proposed by ana, rejected (no_capacity), keeps n1[0,1,2,3]; "
            "211s: keeps nothing; "
            "241s: proposed by ana, rejected (no_capacity)"
        ),
        kept={},
    ),
    row(
        "what was kept on a lost server is no longer",
        f"{STARVING}; n1 is lost at 182s",
        "j1",
        kept={},
        then=(
            "61s: proposed by ana, rejected (no_capacity); "
            "121s: proposed by ana, rejected (no_capacity); "
            "181s: proposed by ana, rejected (no_capacity), keeps n1[0,1,2,3]; 182s: keeps nothing"
        ),
    ),
    row(
        "one whose launch fails is admitted anew",
        f"{LIVE}; j0: 4 GPUs; launches take 9; ana proposes j0 on n0[0-3] at 1; "
        "j0 is not launched at 2; until 5s",
        "j0",
        then=("1: proposed by ana, approved (0), gets n0[0,1,2,3]; 2: launch 1 fails, waits"),
        admitted=["j0"],
    ),
    row(
        "preemption makes room for one that is admitted",
        ROOM,
        "j0 at 2s",
        then=("1: proposed by ana, approved (0), attempt 1 starts on n0[0,1,2,3]; 1s: outranked"),
        admitted=["j1"],
    ),
    *rows(f"""
which waits for it where that is proposed
    {ROOM}; ana proposes j1 on n0[0-3] at 2s
    => j1 at 2s, log: 1s: submitted; 2s: proposed by ana, approved (0), gets n0[0,1,2,3]
    => j1 at 2s, phase: granted
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_gangs_are_granted_as_the_row_says(case: Row) -> None:
    check(case)
    recorded = played(case.scene)
    divergence = Verifier(recorded.rebuild).take(recorded.events)
    assert divergence is None, "\n".join(divergence.lines())


def rejected(events: Iterable[Event]) -> facts.GangRejected:
    (found,) = [event for event in events if isinstance(event, facts.GangRejected)]
    return found


def verified(script: ProposedScript) -> None:
    recorded = script.recorded()
    divergence = Verifier(recorded.rebuild).take(recorded.events)
    assert divergence is None, "\n".join(divergence.lines())


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
    told_of = script.idle(61 * S)
    assert list(script.core.state.proposals.admitted) == [J2]
    left = next(fact for fact in told_of if isinstance(fact, AllocationChanged))
    assert (left.job_id, left.because.beneficiaries) == (J1, (J2,))
    script.step(propose(2, ALL_OF_N1))
    assert script.core.state.jobs[J2].phase is JobPhase.granted
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


def test_rejections_that_are_only_counted_wake_who_keeps_gpus() -> None:
    """They are no input: the plan after them is due by what job schedulers remember."""
    script = ProposedScript()
    script.step(submit(0), submit(1))
    script.step(propose(0, ALL_OF_N0))
    for _ in range(4):
        script.step(propose(1, ALL_OF_N0))
    script.step(submit(2, 2))
    told_of = script.idle(70 * S)
    place = told_of.index(rejected(told_of))
    told, planned = told_of[place : place + 2]
    assert isinstance(told, GangRejected)
    assert (told.cause, told.count) == (REPEATED, 3)
    assert isinstance(planned, RoundPlanned)
    assert planned.trigger is Trigger.wake
    assert script.core.state.proposals.reserved == {J1: ALL_OF_N1.shares}
    verified(script)


def test_facts_say_who_proposed_and_what_conflicted() -> None:
    events = played(f"{TAKEN}; ana proposes j1 on n0[2-3]+n1[0-1] at 2").events
    (made, other) = [event for event in events if isinstance(event, facts.GangProposed)]
    assert (made.cause, made.by, other.by) == (CALLER, "ana", "ana")
    (change,) = [event for event in events if isinstance(event, facts.AllocationChanged)]
    assert (change.allocation, change.because) == (ALL_OF_N0, PROPOSED)
    told = rejected(list(events))
    assert (told.reason, told.conflicts) == (Reason.no_capacity, ((node_name(0), 0b1100),))
    assert told.retry_us is not None
    assert told.retry_us > told.at_us


def test_rejections_are_counted() -> None:
    scene = TAKEN + "".join(f"; ana proposes j1 on n0[0-3] at {at}s" for at in range(1, 7))
    proposals = replay(played(f"{scene}; until 70s").events).proposals
    assert (proposals.rejected, proposals.conflict_rate) == (6, 6 / 7)


def test_a_proposal_for_a_job_that_ended_is_none() -> None:
    events = played(f"{LIVE}; j0: 4 GPUs; ana proposes j5 on n0[0-3] at 1").events
    assert not [event for event in events if isinstance(event, facts.GangProposed)]
