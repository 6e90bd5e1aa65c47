"""Deciding again: runs of all kinds come out the same, and every kind of tampering is found."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from shunter.ask import Divergence, Verifier, fold_log, same_targets, verify_log
from shunter.backends.simulated import Costs
from shunter.core import DrainNode, ReleaseJob, SuspendJob, state_digest
from shunter.errors import LogDamagedError, UsageError
from shunter.events import (
    Allocation,
    Because,
    Dependency,
    Event,
    GpuType,
    JobId,
    NodeName,
    Reason,
    Share,
    encode_record,
    facts,
)
from shunter.events.log import Snapshot, open_log, read_log
from tests.factories import World, scheduler_started, servers, trace_job
from tests.replay.eventful_run import Script
from tests.replay.recording import Recorded, reading, rebuilt, record

JOBS = (
    trace_job(0, 4, lasts=100),
    trace_job(7, 8, at=12, lasts=15),
    trace_job(8, 8, at=13, lasts=15),
    trace_job(9, 8, at=24, lasts=15),
    trace_job(1, 4, at=30, lasts=4),
    trace_job(2, 2, at=31, lasts=30),
    trace_job(3, 9, at=32),
    trace_job(4, 1, at=33, depends_on=(Dependency(JobId("j5")),)),
    trace_job(5, 1, at=33, lasts=9, ends="failed"),
    trace_job(6, 1, at=60, lasts=50, time_limit_us=7),
)
BUSY = World(servers=servers(4, 4), jobs=JOBS, round_us=10)
EVENTFUL = replace(BUSY, round_us=0)
COSTLY = replace(BUSY, costs=Costs(start_us=2, suspend_us=3, resume_us=4))


def difference(recorded: Recorded) -> Divergence:
    """Return where a run diverges, which it must."""
    found = Verifier(recorded.rebuild).take(recorded.events)
    assert found is not None, "nothing was found"
    return found


@pytest.mark.parametrize("name", ["fifo", "fifo_backfill", "fifo_easy", "las", "sjf", "srtf"])
@pytest.mark.parametrize("world", [BUSY, EVENTFUL, COSTLY], ids=["rounds", "events", "costs"])
def test_a_run_is_decided_as_it_was(world: World, name: str) -> None:
    recorded = record(world, name)
    verifier = Verifier(recorded.rebuild)

    found = verifier.take(recorded.events)

    assert found is None
    assert verifier.decisions == len(recorded.seqs(facts.RoundPlanned))
    assert recorded.seqs(facts.TimeLimitReached), "which is the scheduler's own"


def moved(event: facts.AllocationChanged) -> facts.AllocationChanged:
    """Return the decision with another free server in its place."""
    other = "n1" if event.allocation.shares[0].node == "n0" else "n0"
    mask = event.allocation.shares[0].gpu_mask
    return replace(event, allocation=Allocation((Share(NodeName(other), mask),)))


def test_one_flipped_placement_is_found_and_told_with_decision_values_and_versions() -> None:
    recorded = record(BUSY, "las")
    seq = recorded.seqs(facts.AllocationChanged)[0]

    found = difference(recorded.changed(seq, moved(recorded.at(seq))))

    assert (found.seq, found.decision, found.round_number, found.at_us) == (seq, 1, 0, 0)
    assert found.difference.field == "allocation.shares[0].node"
    assert (found.difference.recorded, found.difference.replayed) == ("n1", "n0")
    error = found.error()
    assert (error.exit_code, error.seq) == (6, seq)
    why = "las, because it had used 0 GPU-seconds, so it was in the first queue"
    for words in (
        f"diverged at decision 1 (e{seq}, T+00:00:00, round 0)",
        f"recorded  place j0 -> n1[0-3]: {why}",
        f"replayed  place j0 -> n0[0-3]: {why}",
        "policy  las 1 -> las 1",
    ):
        assert words in str(error)


Tampered = tuple[Recorded, int]


def nth(recorded: Recorded, kind: type[Event], number: int, /, **changes: Any) -> Tampered:
    """Return a log in which one event of a kind has other fields, and its number."""
    seq = recorded.seqs(kind)[number]
    return recorded.changed(seq, replace(recorded.at(seq), **changes)), seq


def without(recorded: Recorded, kind: type[Event], number: int = 0) -> Tampered:
    """Return a log that lacks one event of a kind, and the number that it had."""
    seq = recorded.seqs(kind)[number]
    return recorded.changed(seq), seq


def a_reason(recorded: Recorded) -> Tampered:
    rounds = recorded.seqs(facts.RoundPlanned)
    told = next(n for n, seq in enumerate(rounds) if recorded.at(seq).waits)
    return nth(recorded, facts.RoundPlanned, told, waits=())


def a_missing_empty_round(recorded: Recorded) -> Tampered:
    rounds = recorded.seqs(facts.RoundPlanned)
    empty = next(
        seq for seq in rounds if not isinstance(recorded.at(seq + 1), facts.AllocationChanged)
    )
    return recorded.changed(empty), empty


def an_extra_round(recorded: Recorded) -> Tampered:
    """One more round after the last event, when nobody waits."""
    last = len(recorded.events)
    event = recorded.at(recorded.seqs(facts.RoundPlanned)[-1])
    at_us = (recorded.at(last).at_us // 10 + 1) * 10
    extra = replace(event, at_us=at_us, number=at_us // 10, seen=last, waits=())
    return recorded.changed(last, recorded.at(last), extra), last + 1


def a_rejection_that_was_not(recorded: Recorded) -> Tampered:
    event = recorded.at(recorded.seqs(facts.JobRejected)[0])
    seq = recorded.seqs(facts.AllocationChanged)[-1] + 1
    wrong = replace(event, at_us=recorded.at(seq - 1).at_us, job_id=JobId("j6"))
    return recorded.changed(seq, wrong, recorded.at(seq)), seq


SCORED = Because("las", (7,))


@pytest.mark.parametrize(
    "tamper",
    {
        "a reason": a_reason,
        "a trigger": lambda run: nth(run, facts.RoundPlanned, 1, trigger=facts.Trigger.event),
        "the number of a round": lambda run: nth(run, facts.RoundPlanned, 1, number=99),
        "a score": lambda run: nth(run, facts.AllocationChanged, 1, because=SCORED),
        "a missing round, whose changes are left": lambda run: without(run, facts.RoundPlanned),
        "a missing round without changes": a_missing_empty_round,
        "an extra round": an_extra_round,
        "a missing rejection": lambda run: without(run, facts.JobRejected),
        "a rejection that was not": a_rejection_that_was_not,
        "a missing cancellation": lambda run: without(run, facts.JobCancelled),
    }.items(),
    ids=lambda case: case[0],
)
def test_tampering_is_found_where_it_was_done(
    tamper: tuple[str, Callable[[Recorded], Tampered]],
) -> None:
    wrong, seq = tamper[1](record(BUSY, "las"))

    assert difference(wrong).seq == seq


def test_a_round_that_is_missing_says_what_it_would_have_decided() -> None:
    recorded = record(BUSY, "las")
    wrong, _ = a_missing_empty_round(recorded)

    found = difference(wrong)

    assert "a round was due" in found.why
    assert isinstance(found.replayed, facts.RoundPlanned)


@pytest.mark.parametrize(
    "needs",
    [("j0", "j0"), ("j0", "j1"), ("j1", "j0")],
    ids=["twice", "in a chain", "in a chain, backwards"],
)
def test_a_job_that_needs_several_failed_ones_is_cancelled_once(needs: tuple[str, str]) -> None:
    depends_on = tuple(Dependency(JobId(job)) for job in needs)
    world = World(
        servers=servers(4),
        jobs=(
            trace_job(0, 1, lasts=10, ends="failed"),
            trace_job(1, 1, at=1, depends_on=(Dependency(JobId("j0")),)),
            trace_job(2, 1, at=2, depends_on=depends_on),
        ),
    )

    recorded = record(world)

    cancelled = [recorded.at(seq).job_id for seq in recorded.seqs(facts.JobCancelled)]
    assert cancelled == ["j1", "j2"]
    assert Verifier(recorded.rebuild).take(recorded.events) is None


def test_promises_are_compared_too() -> None:
    world = World(
        servers=servers(4),
        jobs=(
            trace_job(0, 3, lasts=50, time_limit_us=100),
            trace_job(1, 4, at=1, lasts=5, time_limit_us=10),
        ),
    )
    recorded = record(world, "fifo_easy")
    seq = recorded.seqs(facts.ReservationSet)[0]

    found = difference(recorded.changed(seq, replace(recorded.at(seq), start_us=77)))

    assert (found.seq, found.difference.field) == (seq, "start_us")


def test_a_refusal_is_a_decision() -> None:
    recorded = record(BUSY, "las")
    seq = recorded.seqs(facts.AllocationChanged)[0]
    refused = facts.PlanRejected(0, JobId("j0"), Reason.refused, "las")

    assert difference(recorded.changed(seq, refused)).difference.field == "kind"


def test_a_second_term_starts_its_policy_on_the_state_it_finds() -> None:
    """The first scheduler dies with jobs waiting and running; the second one goes on."""
    whole = record(replace(BUSY, until_us=45), "las")
    events = [*whole.events, scheduler_started(2, 46, "las")]
    verifier = Verifier(whole.rebuild)

    assert verifier.take(events) is None
    assert verifier.terms == 2


def test_a_term_that_is_cut_short_within_a_decision_is_over() -> None:
    whole = record(BUSY, "las")
    seq = whole.seqs(facts.RoundPlanned)[0]
    events = [*whole.events[:seq], scheduler_started(2, 1, "las")]

    assert Verifier(whole.rebuild).take(events) is None


def test_a_changed_config_starts_the_policy_anew() -> None:
    whole = record(replace(BUSY, until_us=45), "las")
    asked: list[facts.SchedulerStarted] = []

    def rebuild(started: facts.SchedulerStarted) -> object:
        asked.append(started)
        return whole.rebuild(started)

    verifier = Verifier(rebuild)  # type: ignore[arg-type]  # it returns what it was given
    verifier.take([*whole.events, facts.ConfigChanged(46, '{"a":1}', ("a",), "las", "1")])

    assert [started.config for started in asked] == ["{}", '{"a":1}']


def test_another_version_of_the_policy_is_refused() -> None:
    recorded = record(BUSY, "las")
    other = recorded.changed(1, replace(recorded.at(1), policy_version="0"))

    with pytest.raises(UsageError, match="las version 0, and version 1 is installed"):
        Verifier(other.rebuild).take(other.events)


def test_a_log_without_a_start_cannot_be_decided_again() -> None:
    recorded = record(BUSY, "las")

    with pytest.raises(UsageError, match="belongs to no term"):
        Verifier(recorded.rebuild).take(recorded.events[1:])


def test_snapshots_hold_state_and_memory() -> None:
    """A snapshot with another memory is found by --verify only, with its number."""

    async def verified(memory_of: Callable[[bytes], bytes]) -> int:
        recorded = record(BUSY, "las")
        verifier = Verifier(recorded.rebuild)
        middle = recorded.seqs(facts.AllocationChanged)[2]
        while isinstance(recorded.at(middle + 1), facts.AllocationChanged):
            middle += 1
        verifier.take(recorded.events[:middle])
        memory = memory_of(encode_record(verifier.memory))
        state = encode_record(verifier.state)
        async with open_log("memory:", frame_events=7) as log:
            log.append(recorded.events)
            await log.save_snapshot(Snapshot.of(middle, verifier.state.now_us, state, memory))
        async with read_log(log) as reader:
            return (await verify_log(reader, recorded.rebuild)).snapshots

    assert asyncio.run(verified(lambda memory: memory)) == 1
    with pytest.raises(LogDamagedError, match="the policy's memory in the snapshot"):
        asyncio.run(verified(lambda memory: memory + b" "))


def test_any_prefix_of_a_log_can_be_verified() -> None:
    """With its state at the end, which is that of a fold."""

    async def prefixes() -> None:
        recorded = record(COSTLY, "srtf")
        async with reading(recorded.events) as reader:
            states = []
            for seq in range(1, len(recorded.events) + 1):
                verdict = await verify_log(reader, recorded.rebuild, seq)
                assert verdict.divergence is None
                assert verdict.state.seq == seq
                states.append(verdict.state)
            assert state_digest(states[-1]) == state_digest((await fold_log(reader)).state)

    asyncio.run(prefixes())


def test_solved_shares_may_differ_in_the_last_digits() -> None:
    recorded = facts.Target((JobId("a"),), GpuType("v100"), 0.5)

    assert same_targets([recorded], [replace(recorded, fraction=0.5 + 1e-9)])
    assert not same_targets([recorded], [replace(recorded, fraction=0.51)])
    assert not same_targets([recorded], [])


@pytest.fixture(scope="module")
def script() -> Script:
    """A job that has run on two servers, both of which are lost before it runs on the third."""
    script = Script()
    job_id = script.submit("mover", 4)
    left = []
    for attempt in (1, 2):
        script.start(job_id)
        (share,) = script.core.state.jobs[job_id].held.shares
        left.append(share.node)
        script.step(SuspendJob(0, job_id, "ana"))
        script.step(facts.JobSuspended(0, job_id, attempt), facts.GpusReleased(0, job_id, attempt))
        script.step(DrainNode(0, share.node, "ana"))
        if attempt == 2:
            for node in left:
                script.step(facts.NodeUnreachable(0, node), facts.NodeLost(0, node))
        script.step(ReleaseJob(0, job_id, "ana"))
    script.start(job_id)
    script.exit(job_id, 0)
    return script


def diverges(script: Script, events: list[Event]) -> bool:
    return Verifier(rebuilt(script.policy, script.core.rules)).take(events) is not None


def test_both_are_discarded_and_verify_expects_it(script: Script) -> None:
    lost = [event for event in script.events if isinstance(event, facts.CheckpointDiscarded)]
    assert [event.attempt for event in lost] == [2, 1]
    at = script.events.index(lost[0])
    assert [type(event) for event in script.events[at : at + 3]] == [
        facts.CheckpointDiscarded,
        facts.CheckpointDiscarded,
        facts.AttemptStarted,
    ]
    assert not diverges(script, script.events)


def test_no_other_order_and_no_part_of_it_is_right(script: Script) -> None:
    at = next(
        n for n, event in enumerate(script.events) if isinstance(event, facts.CheckpointDiscarded)
    )
    before, own, after = script.events[:at], script.events[at : at + 3], script.events[at + 3 :]
    others = [order for size in (1, 2, 3) for order in permutations(own, size)]
    others.remove(tuple(own))
    assert len(others) == 14
    kept = [order for order in others if not diverges(script, [*before, *order, *after])]
    assert kept == []
