"""The types of rows, as a check of a frame's bytes: what the codec takes on trust.

The codec makes events of rows as fast as it can, and believes what it reads: its writer made those
rows from events. `fault_in` believes nothing. For each kind there is an array of types,
derived from the same hints as the codec, and msgspec holds all rows of a frame to them in one go.
"""

import dataclasses
import types
import typing
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, Union

import msgspec

from shunter.events.codec import encode_payload, row_fields
from shunter.events.kinds import KINDS, Event
from shunter.events.rows import array_struct, stored_fields, stored_hints

# Its members are known at run time only, which static tools cannot follow.
_UNION: Any = Union
_TUPLE: Any = tuple
_INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RowFault(NamedTuple):
    """Which row of a frame is wrong, counted from 0, and what of it."""

    number: int
    what: str


def fault_in(payload: bytes) -> RowFault | None:
    """Return the first row of a frame without the types of its kind, if any."""
    try:
        _frame().decode(payload)
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
def _frame() -> msgspec.json.Decoder[list[object]]:
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
