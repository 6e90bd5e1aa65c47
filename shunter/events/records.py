"""Records: the decorators that make their classes, and their rows in a log.

A simulation makes a dozen records for each job. A slotted dataclass takes 0.4 us to make, a struct
of msgspec, which does it in C, a quarter of that or less; and a struct is really frozen at no cost.
To everybody else such a class is a dataclass: `dataclasses.fields`, `replace` and the type checker
see its fields as they are written down.

A record becomes an array of its fields in order, by the type hints of its fields; trailing fields
that hold their default are left out, so a field added at the end (with a default) changes no byte
of older logs. Fields whose metadata say `derived` are skipped, and the record rebuilds them in its
method `restored`. Encoders and decoders are compiled from source that is written from the fields:

    def encode(r):
        if r.instant != d4: return ['AllocationChanged', r.at_us, r.job_id, c2(r.allocation), …]
        return ['AllocationChanged', r.at_us, …]          # without trailing defaults

    def decode(r):
        n = len(r)
        if n == 5: return cls(r[1], r[2], c2(r[3]), c3(r[4]))
        if n == 6: return cls(r[1], r[2], c2(r[3]), c3(r[4]), r[5])
        return loop(r)                                      # says what is wrong with its width

A loop over the fields takes twice as long, and a simulation encodes half a million events;
`dataclasses` writes its `__init__` in the same way.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeGuard, TypeVar, dataclass_transform

import msgspec
from msgspec import Struct, field as struct_field, structs

from shunter.errors import IllegalEventError

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def fact(cls: type[T]) -> type[T]:
    """Make a class an immutable, comparable, hashable record with slots.

    A class that is a key in hot dictionaries may bring a cheaper `__hash__` of its own.
    """
    return _struct(cls, frozen=True)


@dataclass_transform(frozen_default=True)
def event(cls: type[T]) -> type[T]:
    """Make a class a kind of event: in a log its row begins with its name."""
    return _struct(cls, frozen=True, as_array=True, tag=cls.__name__)


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class what fields of events hold: in a log it is a row too."""
    return _struct(cls, frozen=True, as_array=True)


@dataclass_transform(field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a comparable record with slots that may be changed."""
    return _struct(cls, frozen=False)


def replace(record: T, **fields: Any) -> T:
    """Return a record with other values in some fields, in C."""
    changed: Any = structs.replace(record, **fields)  # type: ignore[type-var]  # it is a struct
    made: T = changed
    return made


def _struct(
    cls: type[T], *, frozen: bool, as_array: bool = False, tag: str | None = None
) -> type[T]:
    """Return the struct that has a class's fields, defaults and methods.

    With `as_array` msgspec reads it from JSON as an array of its fields, behind its `tag` if it has
    one; trailing fields that hold their default may be left out, and none may follow.
    """
    described = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    namespace: dict[str, Any] = dict(described.__dict__)
    for name in ("__dict__", "__weakref__", "__match_args__"):
        namespace.pop(name, None)
    for field in dataclasses.fields(described):  # type: ignore[arg-type]  # it was made one above
        if field.default_factory is not dataclasses.MISSING:
            namespace[field.name] = struct_field(default_factory=field.default_factory)
    # Never part of a reference cycle: the collector need not look at them.
    make: Any = type(Struct)
    arrays = {"array_like": True, "forbid_unknown_fields": True, "tag": tag} if as_array else {}
    made = make(cls.__name__, (Struct,), namespace, frozen=frozen, gc=False, **arrays)
    found: type[T] = made
    return found


Row = list[Any]
"""A record as JSON has it; each value is of its own type, which the record's class names."""

Convert = Callable[[Any], Any]
"""What converts a value of a record to JSON, or back; the type of the value is its hint."""

Encode = Callable[[Any], Row]
Decode = Callable[[Row], Any]

WIDE = 6
"""Optional fields from this one on are first compared with their defaults all at once."""

WIDTHS = 5
"""Records of more widths than this (by how many defaults are left out) are decoded in a loop."""


@fact
class Column:
    """One field: name, what makes it JSON-able (None: it is already), default."""

    name: str
    convert: Convert | None
    default: object


def compile_encoder(columns: Sequence[Column], first: Sequence[str] = ()) -> Encode:
    """Return the function that makes a row of a record, without trailing defaults.

    `first` are Python expressions for what the row begins with instead of its first fields:
    "'Kind'" for a literal, "r.at_us" for a field.
    """
    names: dict[str, Any] = {}
    cells = list(first)
    for number, column in enumerate(columns):
        names[f"d{number}"] = column.default
        names[f"c{number}"] = column.convert
        if f"r.{column.name}" not in first:
            cell = f"r.{column.name}"
            cells.append(cell if column.convert is None else f"c{number}({cell})")
    lead = len(cells) - len(columns)
    optional = [n for n, column in enumerate(columns) if column.default is not dataclasses.MISSING]
    lines = ["def encode(r):"]
    wide = [number for number in optional if number >= WIDE]
    if len(wide) > 1:
        names["tail"] = attrgetter(*(columns[number].name for number in wide))
        names["defaults"] = tuple(columns[number].default for number in wide)
        lines.append("    if tail(r) == defaults:")
        short = [number for number in optional if number < WIDE]
        lines += _returns(columns, cells, lead, short, upto=wide[0], indent="        ")
    lines += _returns(columns, cells, lead, optional, upto=len(columns), indent="    ")
    exec("\n".join(lines), names)  # noqa: S102 the source is written above, from our own classes
    encode: Encode = names["encode"]
    return encode


def compile_decoder(
    cls: Any,
    converters: Sequence[Convert | None],
    loop: Decode,
    places: Sequence[int] | None = None,
) -> Decode:
    """Return the function that makes a record of a row.

    Args:
        cls: the record's class, whose fields are all written.
        converters: what makes each field from JSON; None: it is already.
        loop: decodes a row of any other width, or says what is wrong with it.
        places: where in the row each field stands; None: from its beginning.
    """
    at = range(len(converters)) if places is None else places
    fields = dataclasses.fields(cls)
    required = sum(field.default is dataclasses.MISSING for field in fields)
    if len(fields) - required >= WIDTHS:
        return loop
    names: dict[str, Any] = {"cls": cls, "loop": loop}
    cells = []
    for number, (place, convert) in enumerate(zip(at, converters, strict=True)):
        names[f"c{number}"] = convert
        cells.append(f"r[{place}]" if convert is None else f"c{number}(r[{place}])")
    lines = ["def decode(r):", "    n = len(r)"]
    for count in range(required, len(cells) + 1):
        # A row has room for what stands before its fields, also where it has none of them.
        width = (at[count - 1] + 1) if count else (at[0] if cells else 0)
        lines.append(f"    if n == {width}: return cls({', '.join(cells[:count])})")
    lines.append("    return loop(r)")
    exec("\n".join(lines), names)  # noqa: S102 the source is written above, from our own classes
    decode: Decode = names["decode"]
    return decode


def _returns(
    columns: Sequence[Column],
    cells: list[str],
    lead: int,
    optional: Sequence[int],
    *,
    upto: int,
    indent: str,
) -> list[str]:
    """Return the lines that give the row back without trailing defaults."""
    lines = []
    for number in sorted(optional, reverse=True):
        if number != upto - 1:
            break
        row = ", ".join(cells[: lead + upto])
        lines.append(f"{indent}if r.{columns[number].name} != d{number}: return [{row}]")
        upto = number
    return [*lines, f"{indent}return [{', '.join(cells[: lead + upto])}]"]


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
    """Return the function that makes a row of a record of this class."""
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
    """Return what makes a record of this class of a row, using the row up."""
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
