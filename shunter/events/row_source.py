"""Encoders and decoders of records, compiled from source that is written from their fields.

    def encode(r):
        if r.instant != d4: return ['AllocationChanged', r.at_us, r.job_id, c2(r.allocation), …]
        return ['AllocationChanged', r.at_us, …]          # without trailing defaults

    def decode(r):
        n = len(r)
        if n == 5: return cls(r[1], r[2], c2(r[3]), c3(r[4]))
        if n == 6: return cls(r[1], r[2], c2(r[3]), c3(r[4]), r[5])
        return loop(r)                                      # says what is wrong with its width

A loop over the fields that decides anew what each one needs takes twice as long, and a simulation
encodes half a million events; `dataclasses` writes its `__init__` in the same way.
"""

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from shunter.events.values.fact import fact

Row = list[Any]
"""A record as JSON has it; each value is of its own type, which the record's class names."""

Convert = Callable[[Any], Any]
"""What turns a value of a record into JSON, or back; the type of the value is its hint."""

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
