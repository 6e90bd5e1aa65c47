"""Records to JSON-able rows and back, derived from the type hints of their fields.

A dataclass becomes an array of its fields in order; trailing fields that hold their default are
left out, so a field added at the end (with a default) changes no byte of older logs. Fields whose
metadata say `derived` are skipped, and the record rebuilds them in its method `restored`.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import Any, TypeGuard

import msgspec

from shunter.errors import IllegalEventError
from shunter.events.row_source import (
    Column,
    Convert,
    Decode,
    Encode,
    Row,
    compile_decoder,
    compile_encoder,
)

DERIVED: dict[str, bool] = {"derived": True}
_PLAIN = (int, str, bool, float, None, type(None), bytes)


@cache
def encoder_of(hint: object) -> Convert | None:
    """Return what makes a value of this type JSON-able; None: it is already."""
    hint = record = _bare(hint)
    if hint in _PLAIN or _is_enum(hint):
        return None
    if dataclasses.is_dataclass(hint):
        return row_encoder(record)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(_only(encoder_of, args, hint))
    if origin is dict:
        return _dict_encoder(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return _each_encoder([encoder_of(arg) for arg in args])
    if origin in (tuple, list):
        item = encoder_of(args[0])
        return None if item is None else lambda values: [*map(item, values)]
    raise TypeError(f"no row encoding for {hint}")


@cache
def decoder_of(hint: object) -> Convert | None:
    """Return what makes a value of this type from JSON; None: it is already."""
    hint = record = _bare(hint)
    if hint in _PLAIN:
        return None
    if _is_enum(hint):
        return dict(hint._value2member_map_).__getitem__
    if dataclasses.is_dataclass(hint):
        return row_decoder(record)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional(_only(decoder_of, args, hint))
    if origin is dict:
        return _dict_decoder(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return _each_decoder([decoder_of(arg) for arg in args])
    if origin is tuple:
        return _tuple_decoder(decoder_of(args[0]))
    if origin is list:
        item = decoder_of(args[0])
        return None if item is None else lambda values: [*map(item, values)]
    raise TypeError(f"no row decoding for {hint}")


@cache
def row_encoder(cls: Any) -> Encode:
    """Return the function that turns a record of this class into a row."""
    return compile_encoder(columns_of(cls))


def columns_of(cls: Any) -> list[Column]:
    """Return the written fields of a record class with what their encoding needs."""
    hints = stored_hints(cls)
    return [
        Column(field.name, encoder_of(hints[field.name]), _default(field))
        for field in stored_fields(cls)
    ]


@cache
def row_decoder(cls: Any) -> Decode:
    """Return what turns a row into a record of this class, using the row up."""
    hints, fields = stored_hints(cls), stored_fields(cls)
    nested = [(i, d) for i, field in enumerate(fields) if (d := decoder_of(hints[field.name]))]
    names = [field.name for field in fields]
    arguments = [field.name for field in dataclasses.fields(cls) if field.init]
    restored = getattr(cls, "restored", None)

    def decode(row: Row) -> object:
        last = len(row)
        for i, convert in nested:
            if i >= last:
                break
            row[i] = convert(row[i])
        try:
            return cls(*row)
        except TypeError as error:
            raise _misfit(cls, row, names) from error

    def decode_partly_derived(row: Row) -> object:
        if len(row) > len(names):
            raise _misfit(cls, row, names)
        for i, convert in nested:
            if i < len(row):
                row[i] = convert(row[i])
        record = cls(**dict(zip(names, row, strict=False)))
        if restored is not None:
            record.restored()
        return record

    if names != arguments or restored is not None:
        return decode_partly_derived
    return compile_decoder(cls, converters_of(cls), decode)


def converters_of(cls: Any) -> list[Convert | None]:
    """Return what makes each written field from JSON; None: it is already."""
    hints = stored_hints(cls)
    return [decoder_of(hints[field.name]) for field in stored_fields(cls)]


def array_struct(name: str, fields: Iterable[Any], tag: str | None) -> type[msgspec.Struct]:
    """Return what msgspec reads as an array: a tag, if any, and then these fields.

    Trailing fields with a default may be left out, and none may follow.

    Args:
        name: of the struct.
        fields: each a name and a type, with a default if it has one.
        tag: what the array begins with; None: nothing.
    """
    made: type[msgspec.Struct] = msgspec.defstruct(
        name, fields, array_like=True, forbid_unknown_fields=True, tag=tag, frozen=True, gc=False
    )
    return made


def stored_fields(cls: Any) -> list[dataclasses.Field[object]]:
    """Return the fields that are written: all but the derived ones."""
    return [field for field in dataclasses.fields(cls) if not field.metadata.get("derived")]


def stored_hints(cls: Any) -> dict[str, object]:
    """Return the resolved type hints of a record class."""
    return typing.get_type_hints(cls)


def _misfit(cls: type, row: Row, names: list[str]) -> IllegalEventError:
    """Return what is wrong with a row of the wrong width."""
    if len(row) <= len(names):
        return IllegalEventError(f"a {cls.__name__} lacks fields after {len(row)}: {row!r}")
    return IllegalEventError(
        f"a {cls.__name__} has {len(row)} fields where this version knows {len(names)}; "
        "the log was written by a newer version, upgrade to read it"
    )


def _bare(hint: object) -> Any:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    return hint


def _is_enum(hint: object) -> TypeGuard[type[Enum]]:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _only(
    of: Callable[[object], Convert | None], args: tuple[object, ...], hint: object
) -> Convert | None:
    """Return the converter of a union; at most one of its members may need one."""
    found = [convert for arg in args if (convert := of(arg)) is not None]
    if len(found) > 1:
        raise TypeError(f"ambiguous union {hint}")
    return found[0] if found else None


def _optional(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _each_encoder(parts: list[Convert | None]) -> Convert | None:
    if not any(parts):
        return None
    return lambda values: [p(v) if p else v for p, v in zip(parts, values, strict=True)]


def _each_decoder(parts: list[Convert | None]) -> Convert:
    if not any(parts):
        return tuple
    return lambda values: tuple([p(v) if p else v for p, v in zip(parts, values, strict=True)])


def _tuple_decoder(item: Convert | None) -> Convert:
    if item is None:
        return tuple

    def decode(values: Row) -> tuple[object, ...]:
        if len(values) == 1:
            return (item(values[0]),)
        return (*map(item, values),)

    return decode


def _dict_encoder(args: tuple[object, ...]) -> Convert:
    """Encode a mapping as pairs, in its own order, which is part of the state."""
    key, value = encoder_of(args[0]), encoder_of(args[1])
    if key is None and value is None:
        return lambda items: list(items.items())
    return lambda items: [
        (key(k) if key else k, value(v) if value else v) for k, v in items.items()
    ]


def _dict_decoder(args: tuple[object, ...]) -> Convert:
    key, value = decoder_of(args[0]), decoder_of(args[1])
    if key is None and value is None:
        return dict
    return lambda pairs: {(key(k) if key else k): (value(v) if value else v) for k, v in pairs}
