"""Every derived fact that is missing, other than it must be, or at the wrong time, is found.

The cases are those of the registry (`events/classes.py`): a kind that is added there has none here
until `CHANGES` says how one of its facts can be wrong, and the run has one.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from shunter.ask import Verifier
from shunter.backends.simulated import Costs
from shunter.events import (
    CALLER,
    DERIVED_KINDS,
    PROPOSED,
    Because,
    DerivedKind,
    Event,
    JobFailed,
    JobFinished,
    JobHeld,
    JobId,
    NodeName,
    Reason,
    SchedulerStarted,
    SensitivityCorrected,
    TimeLimitReached,
    ToleranceLearnt,
)
from tests.factories import World, allocation, servers, trace_job
from tests.replay.eventful_run import eventful
from tests.replay.placement.learnt_run import learnt_world, played
from tests.replay.proposing.proposed_run import proposed_run
from tests.replay.recording import Recorded, record
from tests.replay.sizing.measured_run import measured

OTHER = JobId("bystander")

CHANGES: dict[str, dict[str, object]] = {
    "JobRejected": {"reason": Reason.refused},
    "JobHeld backing_off": {"until_us": 77},
    "JobHeld array": {"job_id": OTHER},
    "JobHeld checkpoint": {"job_id": OTHER},
    "JobHeld checkpoint_stays": {"job_id": OTHER},
    "JobReleased backing_off": {"job_id": OTHER},
    "JobReleased array": {"job_id": OTHER},
    "JobReleased checkpoint": {"job_id": OTHER},
    "JobReleased checkpoint_stays": {"job_id": OTHER},
    "JobRetried": {"attempt": 7},
    "TimeLimitReached": {"limit_us": 7},
    "JobFinished": {"ended_us": 7},
    "JobFailed": {"exit_code": 7},
    "JobCancelled": {"cause": "whim"},
    "AllocationChanged node_lost": {"allocation": allocation(n2=1)},
    "AllocationChanged resized": {"allocation": allocation(n2=1)},
    "AllocationChanged proposed": {"allocation": allocation(n2=1)},
    "GangApproved caller": {"choice": 7},
    "GangRejected caller": {"reason": Reason.fragmented},
    "AllocationChanged displaced": {"because": Because("displaced", (), (OTHER,))},
    "CheckpointDiscarded lost": {"nodes": (NodeName("n9"),)},
    "SensitivityCorrected": {"measured": 7.0},
    "ToleranceLearnt": {"batch_us": 7},
}
"""What is wrong with the changed fact of each kind."""

RUN = eventful()
MEASURED = measured()[1]
"""The run in which the table of sensitivity is corrected."""
LEARNT = played(learnt_world())[1]
"""The run in which curves of tolerance are learnt."""
PROPOSING = proposed_run()
"""The run in which callers propose gangs."""
every_kind = pytest.mark.parametrize("kind", DERIVED_KINDS, ids=lambda kind: kind.name)


def run_of(kind: DerivedKind) -> Recorded:
    """Return the run that has facts of a kind."""
    if kind.cause in (CALLER, PROPOSED):
        return PROPOSING
    if kind.kind is ToleranceLearnt:
        return LEARNT
    return MEASURED if kind.kind is SensitivityCorrected else RUN


def places(kind: DerivedKind) -> list[int]:
    """Return where a kind stands in its run, counted from 0."""
    found = [place for place, event in enumerate(run_of(kind).events) if kind.has(event)]
    assert found, f"the run has no {kind.name}: let something happen in it from which it follows"
    return found


def dropped(events: list[Event], at: int, kind: DerivedKind) -> list[Event]:
    return [*events[:at], *events[at + 1 :]]


def changed(events: list[Event], at: int, kind: DerivedKind) -> list[Event]:
    wrong = replace(events[at], **CHANGES[kind.name])  # type: ignore[arg-type]  # as its kind has
    return [*events[:at], wrong, *events[at + 1 :]]


def early(events: list[Event], at: int, kind: DerivedKind) -> list[Event]:
    """Let it come before the fact that it followed, or before its time."""
    before = events[at - 1]
    return [*events[: at - 1], replace(events[at], at_us=before.at_us), before, *events[at + 1 :]]


def late(events: list[Event], at: int, kind: DerivedKind) -> list[Event]:
    """Let it come after two more steps."""
    later = [
        place
        for place in range(at + 1, len(events))
        if events[place].at_us > events[place - 1].at_us
    ][1]
    wrong = replace(events[at], at_us=events[later].at_us)
    return [*events[:at], *events[at + 1 : later + 1], wrong, *events[later + 1 :]]


def twice(events: list[Event], at: int, kind: DerivedKind) -> list[Event]:
    return [*events[: at + 1], *events[at:]]


Fault = Callable[[list[Event], int, DerivedKind], list[Event]]


@every_kind
@pytest.mark.parametrize("fault", [dropped, changed, early, late, twice])
def test_fault_in_a_derived_fact_is_found_and_named(kind: DerivedKind, fault: Fault) -> None:
    run = run_of(kind)
    for at in places(kind):
        found = Verifier(run.rebuild).take(fault(list(run.events), at, kind))

        assert found is not None, f"{fault.__name__} {kind.name} at e{at + 1} passes"
        named = [one for one in (found.recorded, found.replayed) if one is not None]
        after = run.events[at + 1 : at + 2]
        kinds = {kind.kind, *(JobHeld for one in after if isinstance(one, JobHeld))}  # by it
        assert any(type(one) in kinds for one in named), found.lines()


def test_the_run_itself_is_as_it_must_be() -> None:
    verifier = Verifier(RUN.rebuild)

    assert verifier.take(RUN.events) is None
    assert verifier.lenient == 0


LIMITED = World(
    servers=servers(4),
    jobs=(
        trace_job(0, 1, lasts=300),
        trace_job(1, 2, at=5, lasts=500, time_limit_us=36),
        *(trace_job(number, 1, at=9 * number, lasts=7) for number in range(2, 30)),
    ),
)


@pytest.mark.parametrize("round_us", [0, 10])
@pytest.mark.parametrize("costs", [Costs(), Costs(start_us=2, suspend_us=3, resume_us=4)])
@pytest.mark.parametrize("fault", [dropped, early, late])
def test_time_limit_of_a_simulation_is_never_early_late_or_missed(
    fault: Fault, costs: Costs, round_us: int
) -> None:
    run = record(replace(LIMITED, costs=costs, round_us=round_us))
    kind = DerivedKind(TimeLimitReached)
    at = run.seqs(TimeLimitReached)[0] - 1

    assert Verifier(run.rebuild).take(run.events) is None
    found = Verifier(run.rebuild).take(fault(list(run.events), at, kind))

    assert found is not None
    assert TimeLimitReached in (type(found.recorded), type(found.replayed))


def test_end_that_takes_no_time_is_the_one_that_was_asked_for() -> None:
    run = record(LIMITED)
    seq = run.seqs(JobFailed)[0]
    failed = run.at(seq)

    found = Verifier(run.rebuild).take(
        run.changed(seq, JobFinished(failed.at_us, failed.job_id)).events
    )

    assert found is not None
    assert found.seq == seq


def test_live_log_of_an_older_shunter_is_taken_as_it_is_but_for_what_was_compared_then() -> None:
    """A hold that does not follow passes there, one that should have followed is not missed."""
    old = [
        replace(event, config="{}") if isinstance(event, SchedulerStarted) else event
        for event in RUN.events
    ]
    verifier = Verifier(RUN.rebuild)
    assert verifier.take(old) is None
    assert verifier.lenient == 1
    compared = {"JobRejected", "AllocationChanged node_lost"}
    for kind in DERIVED_KINDS:
        if kind.name in compared:
            wrong = changed(old, places(kind)[0], kind)
            assert Verifier(RUN.rebuild).take(wrong) is not None
    at, hold = next((at, one) for at, one in enumerate(old) if isinstance(one, JobHeld))
    later = JobHeld(hold.at_us, hold.job_id, hold.by, 5_000_000_000)
    assert Verifier(RUN.rebuild).take([*old[:at], later]) is None
