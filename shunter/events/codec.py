"""Events to bytes and back: a frame's payload is a JSON array of `[kind, at_us, job_id, …]`.

The row of an event holds its name, its instant, the job it is about (or null), and then the rest
of its fields in order. Everything is derived from the classes; nothing here knows a kind.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, Union

import msgspec
import orjson

from shunter.errors import IllegalEventError
from shunter.events.facts import KINDS, Event
from shunter.events.records import (
    Decode,
    Encode,
    Row,
    array_struct,
    columns_of,
    compile_decoder,
    compile_encoder,
    converters_of,
    row_decoder,
    row_encoder,
    stored_fields,
    stored_hints,
)

# Their members are known at run time only, which static tools cannot follow.
_UNION: Any = Union
_TUPLE: Any = tuple

SCHEMA = 1
"""The version of the vocabulary.

A log says in its file which one it was written with, and a reader refuses one from the future.
"""

UPCASTS: dict[str, Callable[[Row], Row]] = {}
"""Old kinds of events, by name, with what makes a row of one a row of today's.

Schemas are for ever: a new field goes last and has a default, and needs nothing here. Where a
meaning changed, the old kind's name is listed; each has a golden log in `tests/replay/golden`.
"""


def is_about_a_job(kind: type[Event]) -> bool:
    """Say whether the kind's second field is the id of the job it is about."""
    names = [field.name for field in dataclasses.fields(kind)]
    return len(names) > 1 and names[1] == "job_id"


def row_fields(kind: type[Event]) -> tuple[str, ...]:
    """Return the names of a row's columns, `kind` first."""
    names = [field.name for field in stored_fields(kind)]
    rest = names[2:] if is_about_a_job(kind) else names[1:]
    return ("kind", "at_us", "job_id", *rest)


def encode_event(event: Event) -> Row:
    """Return the row of one event."""
    return _ENCODERS[type(event)](event)


def decode_event(row: Sequence[object]) -> Event:
    """Return the event of one row, upcast to today's kinds.

    Raises:
        IllegalEventError: no version of Shunter up to this one writes such a row.
    """
    if not isinstance(row, list | tuple) or not row or not isinstance(row[0], str):
        raise IllegalEventError(f"not the row of an event: {row!r}")
    if row[0] not in KINDS:
        return _decode_old(list(row))
    decode = _DECODERS[row[0]]
    try:
        event: Event = decode(list(row))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise IllegalEventError(f"not a well-formed {row[0]}: {row!r} ({error})") from error
    return event


def encode_payload(events: Iterable[Event]) -> bytes:
    """Return the payload of a frame."""
    encoders = _ENCODERS
    return orjson.dumps([encoders[type(event)](event) for event in events])


def decode_payload(payload: bytes) -> list[Event]:
    """Return the events of a frame's payload.

    Raises:
        IllegalEventError: the payload is not an array of event rows.
    """
    decoder, makers = _frame()
    try:
        rows = decoder.decode(payload)
    except (ValueError, RecursionError):
        return _decode_one_by_one(payload)  # an old kind, or damage
    return [row if (make := makers.get(type(row))) is None else make(row) for row in rows]


def encode_record(record: object) -> bytes:
    """Return a state or a policy's memory as canonical bytes."""
    cls: Any = type(record)  # which can be hashed
    return encode_row(row_encoder(cls)(record))


def encode_row(row: Row) -> bytes:
    """Return a row of a state or a policy's memory as canonical bytes."""
    try:
        return orjson.dumps(row)
    except TypeError:
        # An integer of more than 64 bits, such as the key of a rank; events hold none.
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def decode_record(cls: Any, data: bytes) -> Any:
    """Return the record that `encode_record` wrote."""
    return row_decoder(cls)(json.loads(data))


def _event_encoder(kind: type[Event]) -> Encode:
    name = repr(kind.__name__)
    job = "r.job_id" if is_about_a_job(kind) else "None"
    return compile_encoder(columns_of(kind), (name, "r.at_us", job))


def _event_decoder(kind: Any) -> Decode:
    decode, converters = row_decoder(kind), converters_of(kind)
    if is_about_a_job(kind):

        def decode_about_job(row: Row) -> object:
            del row[0]
            return decode(row)

        places = [*range(1, len(converters) + 1)]
        return compile_decoder(kind, converters, decode_about_job, places)

    def decode_about_none(row: Row) -> object:
        del row[0]
        del row[1]
        return decode(row)

    places = [1, *range(3, len(converters) + 2)]
    return compile_decoder(kind, converters, decode_about_none, places)


def _decode_one_by_one(payload: bytes) -> list[Event]:
    """Decode the rows of a frame one by one, which finds the one that is none."""
    try:
        rows = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise IllegalEventError(f"a frame's payload is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise IllegalEventError("a frame's payload is not an array of events")
    return [decode_event(row) for row in rows]


@cache
def _frame() -> tuple[msgspec.json.Decoder[list[Event]], Mapping[type, Callable[[Any], Event]]]:
    """Return what reads all rows of a frame at once, each straight into its event.

    A kind that is about no job has null in the place of one, and so another row than its fields:
    with it comes what makes an event of such a row.
    """
    about_no_job = {
        _row_about_no_job(kind): _maker(kind) for kind in KINDS.values() if not is_about_a_job(kind)
    }
    rows = (*filter(is_about_a_job, KINDS.values()), *about_no_job)
    return msgspec.json.Decoder(list[_UNION[rows]]), about_no_job


def _row_about_no_job(kind: type[Event]) -> type[msgspec.Struct]:
    hints = stored_hints(kind)
    first, *rest = [
        (field.name, hints[field.name])
        if field.default is dataclasses.MISSING
        else (field.name, hints[field.name], field.default)
        for field in stored_fields(kind)
    ]
    return array_struct(kind.__name__, [first, ("job_id", None), *rest], tag=kind.__name__)


def _maker(kind: type[Event]) -> Callable[[Any], Event]:
    def make(row: msgspec.Struct) -> Event:
        at_us, _, *rest = msgspec.structs.astuple(row)
        return kind(at_us, *rest)

    return make


def _decode_old(row: Row) -> Event:
    """Decode a kind that is no longer written, or say that it is unknown."""
    rewrite = UPCASTS.get(row[0])
    if rewrite is None:
        raise IllegalEventError(
            f"unknown kind of event {row[0]!r}: the log was written by a newer version, "
            "or is damaged"
        )
    return decode_event(rewrite(row))


class _Encoders(dict[type[Event], Encode]):
    """Encoders by kind, compiled when first used: a run writes but a few kinds."""

    def __missing__(self, kind: type[Event]) -> Encode:
        if KINDS.get(kind.__name__) is not kind:
            raise KeyError(kind)
        encode = self[kind] = _event_encoder(kind)
        return encode


class _Decoders(dict[str, Decode]):
    """Decoders by name, compiled when first used."""

    def __missing__(self, name: str) -> Decode:
        decode = self[name] = _event_decoder(KINDS[name])
        return decode


_ENCODERS = _Encoders()
_DECODERS = _Decoders()


# A check of rows. The codec trusts its own writer; `fault_in` trusts nothing: msgspec holds all
# rows of a frame to types derived from the same hints.

_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RowFault(NamedTuple):
    """Which row of a frame is wrong, counted from 0, and what of it."""

    number: int
    what: str


def fault_in(payload: bytes) -> RowFault | None:
    """Return the first row of a frame without the types of its kind, if any."""
    try:
        _typed_frame().decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _in_words(payload, str(error))
    return None


def fault_of(event: Event) -> str:
    """Return what of an event is of a wrong type or cannot be encoded, if any."""
    try:
        fault = fault_in(encode_payload([event]))
    except TypeError as error:  # a text or a number that JSON cannot have
        return f"{type(event).__name__}: {error}"
    return "" if fault is None else fault.what


@cache
def _typed_frame() -> msgspec.json.Decoder[list[object]]:
    rows = tuple(_row_of(name, kind) for name, kind in KINDS.items())
    return msgspec.json.Decoder(list[_UNION[rows]])


def _row_of(name: str, kind: type) -> type[msgspec.Struct]:
    """Return the row of a kind: its name, its instant, its job or null, and the rest."""
    fields = _fields_of(kind)
    if not (len(fields) > 1 and fields[1][0] == "job_id"):
        fields.insert(1, ("job_id", None))
    return array_struct(name, fields, tag=name)


@cache
def _record_of(record: type) -> type[msgspec.Struct]:
    return array_struct(record.__name__, _fields_of(record), tag=None)


def _fields_of(record: type) -> list[Any]:
    hints = stored_hints(record)
    found: list[Any] = []
    for field in stored_fields(record):
        hint = _type_of(hints[field.name])
        is_needed = field.default is field.default_factory is dataclasses.MISSING
        found.append((field.name, hint) if is_needed else (field.name, hint, None))
    return found


def _type_of(hint: object) -> Any:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if hint is int:
        return _INT
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if dataclasses.is_dataclass(hint):
        record: Any = hint
        return _record_of(record)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _UNION[tuple(_type_of(arg) for arg in args)]
    if origin is tuple:
        return _TUPLE[tuple(arg if arg is Ellipsis else _type_of(arg) for arg in args)]
    if origin is dict:  # as pairs, in an order of its own
        pair = _TUPLE[tuple(_type_of(arg) for arg in args)]
        return _TUPLE[(pair, Ellipsis)]
    return hint


def _in_words(payload: bytes, error: str) -> RowFault:
    """Return what msgspec says of a frame: `Expected `int`, got `str` - at `$[7][5]`."""
    what, _, where = error.partition(" - at `$")
    places = [place.rstrip("]`") for place in where.split("[")[1:]]
    said = (what[:1].lower() + what[1:]).replace("`", "")
    if not places or not places[0].isdigit():
        return RowFault(0, f"the frame: {said}")
    number, name = int(places[0]), "row"
    with suppress(msgspec.MsgspecError, RecursionError, LookupError, TypeError):
        first = msgspec.json.decode(payload)[number][0]
        name = first if isinstance(first, str) else name
    kind = KINDS.get(name)
    if kind is not None and len(places) > 1 and places[1].isdigit():
        fields = row_fields(kind)
        name += f".{fields[int(places[1])]}" if int(places[1]) < len(fields) else ""
    return RowFault(number, f"{name}: {said}")
