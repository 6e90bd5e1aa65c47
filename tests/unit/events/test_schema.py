"""The published schema is strict: what it refuses, it names."""

from typing import Any

import pytest

from shunter.errors import IllegalEventError
from shunter.events import (
    KINDS,
    JobFinished,
    JobHeld,
    JobId,
    JobSpec,
    JobSubmitted,
    Level,
    check_event,
    from_object,
    json_schema,
    to_object,
)

SUBMITTED: dict[str, Any] = {"kind": "JobSubmitted", "at_us": 5, "job_id": "7", "spec": {"gpus": 2}}


def test_object_names_fields_and_leaves_defaults_out() -> None:
    event = JobSubmitted(5, JobId("7"), JobSpec(gpus=2, max_level=Level.rack))
    named = {**SUBMITTED, "spec": {"gpus": 2, "max_level": "rack"}}
    assert to_object(event) == named
    assert from_object(named) == event


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "JobVanished"}, "does not match any of the expected tags"),
        ({"at_us": "5"}, "at_us: Input should be a valid integer"),
        ({"at_us": 5.5}, "at_us: Input should be a valid integer"),
        ({"at_us": True}, "at_us: Input should be a valid integer"),
        ({"job_id": 7}, "job_id: Input should be a valid string"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"spec": {"gpus": 2, "colour": "red"}}, "spec.colour: Extra inputs"),
        ({"spec": {"max_level": "moon"}}, "spec.max_level: Input should be"),
        ({"spec": {"weight": float("nan")}}, "spec.weight: Input should be a valid number"),
        ({"spec": 7}, "spec: Input should be"),
    ],
)
def test_object_that_does_not_fit_is_refused_by_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(IllegalEventError, match=message):
        from_object(SUBMITTED | change)


def test_every_wrong_field_is_named() -> None:
    with pytest.raises(IllegalEventError, match=r"at_us: .*; .*job_id: Field required"):
        from_object({"kind": "JobFinished", "at_us": "5"})


def test_event_with_a_value_of_another_type_does_not_fit() -> None:
    check_event(JobFinished(5, JobId("7")))
    with pytest.raises(IllegalEventError, match="at_us"):
        check_event(JobFinished(5.5, JobId("7")))  # type: ignore[arg-type]  # the point of it


def test_schema_lists_every_kind_with_its_description() -> None:
    schema = json_schema()
    assert sorted(schema["discriminator"]["mapping"]) == sorted(KINDS)
    held = schema["$defs"]["JobHeld"]
    assert held["description"] == JobHeld.__doc__
    assert held["additionalProperties"] is False
