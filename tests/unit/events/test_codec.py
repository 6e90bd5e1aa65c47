"""Rows that are no events are refused with what is wrong; old kinds are rewritten."""

import dataclasses
from typing import Any

import pytest

from shunter.errors import IllegalEventError
from shunter.events import (
    KINDS,
    Allocation,
    AllocationChanged,
    Because,
    Event,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    NodeName,
    RoundPlanned,
    Share,
    codec,
    decode_event,
    decode_payload,
    encode_event,
    encode_payload,
    row_fields,
)


def test_trailing_defaults_are_left_out() -> None:
    assert encode_event(RoundPlanned(5, 1, 0, 4)) == ["RoundPlanned", 5, None, 1, 0, 4]
    assert encode_event(JobSubmitted(5, JobId("7"), JobSpec())) == ["JobSubmitted", 5, "7", []]


def test_default_before_a_filled_field_is_written() -> None:
    row = encode_event(JobSubmitted(5, JobId("7"), JobSpec(gpus=2, name="n"), dedupe_key="k"))
    assert row[3][:4] == [2, "", "default", ""]
    assert row[4:] == [None, "k"]


def test_nested_facts_become_rows() -> None:
    shares = (Share(NodeName("n1"), 3), Share(NodeName("n2"), 1, cpus_milli=500))
    event = AllocationChanged(5, JobId("7"), Allocation(shares), Because("rule"))
    assert encode_event(event) == [
        "AllocationChanged",
        5,
        "7",
        [[["n1", 3], ["n2", 1, 500]]],
        ["rule"],
    ]


def test_columns_are_named_kind_first() -> None:
    assert row_fields(JobFinished)[:3] == ("kind", "at_us", "job_id")
    assert row_fields(RoundPlanned)[:4] == ("kind", "at_us", "job_id", "number")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "not JSON"),
        (b'[["JobFinished",5,"7"]', "not JSON"),
        (b'{"kind":"JobFinished"}', "not an array"),
        (b"[5]", "not the row of an event: 5"),
        (b"[[]]", "not the row of an event"),
        (b'[{"kind":"JobFinished"}]', "not the row of an event"),
        (b'["JobFinished"]', "not the row of an event"),
        (b'[["JobVanished",5,"7"]]', "unknown kind of event 'JobVanished'"),
        (b'[["JobFinished"]]', "well-formed JobFinished|lacks fields"),
        (b'[["JobSubmitted",5,"7"]]', "lacks fields"),
        (b'[["JobHeld",5,"7","me",8,9]]', "6 fields where|5 fields where"),
        (b'[["JobRejected",5,"7","because"]]', "not a well-formed JobRejected"),
        (b'[["AllocationChanged",5,"7",[5],["rule"]]]', "not a well-formed|lacks"),
    ],
)
def test_payload_that_is_not_events_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(IllegalEventError, match=message):
        decode_payload(payload)


def test_one_bad_row_spoils_its_payload_only_for_itself() -> None:
    """The fast path uses rows up; the slow one starts again from the bytes."""
    good = encode_payload([JobSubmitted(5, JobId("7"), JobSpec(gpus=2))])
    with pytest.raises(IllegalEventError, match="JobVanished"):
        decode_payload(good[:-1] + b',["JobVanished",5,"7"]]')


def test_decoding_leaves_the_row_whole() -> None:
    row = ["JobSubmitted", 5, "7", [2]]
    assert decode_event(row) == decode_event(row)


def test_old_kind_is_rewritten_as_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def upcast_job_done(row: list[Any]) -> list[Any]:
        return ["JobFinished", row[1], row[2]]

    monkeypatch.setitem(codec.UPCASTS, "JobDone", upcast_job_done)
    payload = b'[["JobFinished",4,"6"],["JobDone",5,"7"]]'
    assert decode_payload(payload) == [JobFinished(4, JobId("6")), JobFinished(5, JobId("7"))]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_kind_is_dated_first_and_about_a_job_second_or_never(kind: type[Event]) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    assert names[0] == "at_us"
    assert "job_id" not in names or names[1] == "job_id"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_kind_is_read_as_an_array_that_begins_with_its_name(kind: Any) -> None:
    """It is decorated with @event; one with @fact alone could not be told from others."""
    config = kind.__struct_config__
    assert (config.array_like, config.tag) == (True, kind.__name__)
