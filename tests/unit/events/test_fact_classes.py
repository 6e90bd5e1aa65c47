"""Every fact has a class: whether it is an input, or follows from others."""

import dataclasses

import pytest

from shunter.events import (
    BY_POLICY,
    CLASSES,
    DERIVED_KINDS,
    DISPLACED,
    GIVEN_UP,
    HELD,
    KINDS,
    LOST,
    NODE_LOST,
    NOTHING,
    RESIZED,
    AllocationChanged,
    Because,
    CheckpointDiscarded,
    Event,
    FactClass,
    JobHeld,
    JobId,
    JobReleased,
    JobResized,
    class_of,
)

J0 = JobId("j0")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_a_class_and_its_causes_are_a_field(name: str) -> None:
    known = CLASSES[KINDS[name]]
    fields = {field.name for field in dataclasses.fields(KINDS[name])}
    assert not known.cause or known.cause in fields
    assert bool(known.others) == bool(known.cause)


def test_nothing_but_kinds_of_events_has_a_class() -> None:
    assert set(CLASSES) == set(KINDS.values())


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (JobHeld(0, J0, "ana"), FactClass.commanded),
        (JobHeld(0, J0, "array"), FactClass.derived),
        (JobHeld(0, J0, "backing_off", 5), FactClass.derived),
        (JobReleased(0, J0, "checkpoint"), FactClass.derived),
        (JobHeld(0, J0, "checkpoint_stays"), FactClass.derived),
        (JobReleased(0, J0, ""), FactClass.commanded),
        (AllocationChanged(0, J0, NOTHING, Because("las", (1,))), FactClass.decided),
        (AllocationChanged(0, J0, NOTHING, NODE_LOST), FactClass.derived),
        (AllocationChanged(0, J0, NOTHING, HELD), FactClass.commanded),
        (AllocationChanged(0, J0, NOTHING, DISPLACED), FactClass.derived),
        (AllocationChanged(0, J0, NOTHING, Because("displaced", (), (J0,))), FactClass.derived),
        (AllocationChanged(0, J0, NOTHING, Because("displaced", (), (), "n0")), FactClass.derived),
        (AllocationChanged(0, J0, NOTHING, RESIZED), FactClass.derived),
        (JobResized(0, J0, 2, "ana"), FactClass.commanded),
        (JobResized(0, J0, 2, BY_POLICY), FactClass.decided),
        (CheckpointDiscarded(0, J0, 1, (), None, LOST), FactClass.derived),
        (CheckpointDiscarded(0, J0, 1, (), None, GIVEN_UP, "ana"), FactClass.commanded),
    ],
)
def test_cause_decides_where_a_kind_has_more_than_one_class(
    event: Event, expected: FactClass
) -> None:
    assert class_of(event) is expected


def test_derived_kinds_are_named_with_their_causes() -> None:
    assert [each.name for each in DERIVED_KINDS] == [
        "JobRejected",
        "JobHeld backing_off",
        "JobHeld array",
        "JobHeld checkpoint",
        "JobHeld checkpoint_stays",
        "JobReleased backing_off",
        "JobReleased array",
        "JobReleased checkpoint",
        "JobReleased checkpoint_stays",
        "JobRetried",
        "TimeLimitReached",
        "JobFinished",
        "JobFailed",
        "JobCancelled",
        "AllocationChanged node_lost",
        "AllocationChanged displaced",
        "AllocationChanged resized",
        "AllocationChanged proposed",
        "GangApproved caller",
        "GangRejected caller",
        "CheckpointDiscarded lost",
        "SensitivityCorrected",
        "ToleranceLearnt",
    ]
    assert [each.name for each in DERIVED_KINDS if each.has(JobHeld(0, J0, "array"))] == [
        "JobHeld array"
    ]
