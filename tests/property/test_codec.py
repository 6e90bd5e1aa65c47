"""Laws of the codec and the published schema, over every kind of event."""

from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from shunter.events import (
    KINDS,
    Event,
    check_event,
    decode_event,
    decode_payload,
    encode_event,
    encode_payload,
    from_object,
    row_fields,
    to_object,
)
from tests.property.strategies import events, facts
from tests.slices import searched

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)


@every_kind
@searched(15)
@given(data=st.data())
def test_decoding_undoes_encoding(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(facts(kind))
    payload = encode_payload([event])
    assert decode_payload(payload) == [event]
    assert encode_payload(decode_payload(payload)) == payload


@every_kind
@searched(15)
@given(data=st.data())
def test_codec_and_schema_agree(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(facts(kind))
    named = orjson.loads(orjson.dumps(to_object(event)))
    assert from_object(named) == event
    assert encode_event(from_object(named)) == encode_event(event)
    check_event(event)


@searched(50)
@given(batch=st.lists(events(), max_size=8))
def test_payload_is_the_concatenation_of_its_events(batch: list[Event]) -> None:
    rows = orjson.loads(encode_payload(batch))
    assert rows == [orjson.loads(orjson.dumps(encode_event(event))) for event in batch]
    assert [decode_event(row) for row in rows] == batch


@searched(50)
@given(event=events())
def test_row_is_named_by_the_columns_of_its_kind(event: Event) -> None:
    row: list[Any] = encode_event(event)
    named = dict(zip(row_fields(type(event)), row, strict=False))
    assert len(row) <= len(row_fields(type(event)))
    assert named["kind"] == type(event).__name__
    assert named["at_us"] == event.at_us
    assert named["job_id"] == getattr(event, "job_id", None)
