"""Writes the reference of events from their classes: `python -m docs.events_page`.

A test compares the page with what this would write, so it cannot fall behind.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import orjson

from shunter.events import (
    ClusterEvent,
    DecisionEvent,
    ExecutionEvent,
    JobEvent,
    ProfileEvent,
    RunEvent,
    stored_fields,
    stored_hints,
)

PAGE = Path(__file__).with_name("reference") / "events.md"

INTRODUCTION = """\
# Events

Every kind of event, written by `python -m docs.events_page`; `shunter log schema` prints the same
as JSON Schema.

In a frame an event is a row: its kind, its instant in microseconds since the origin, the job it is
about or `null`, then its other fields in this order, without those at the end that hold their
default. In an export (`shunter log export`) it is an object with the fields by name.

`nodes` of what an attempt tells are the servers that told it, of a gang over several. Where there
is only one, none is named.
"""

GROUPS = (
    ("The scheduler itself", RunEvent),
    ("Cluster", ClusterEvent),
    ("Jobs", JobEvent),
    ("Decisions", DecisionEvent),
    ("Execution", ExecutionEvent),
    ("Profiles", ProfileEvent),
)


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    values: dict[str, Any] = {}
    for title, union in GROUPS:
        parts.append(f"## {title}\n")
        for kind in typing.get_args(union):
            parts.append(_section(kind))
            values |= {found.__name__: found for found in _values_in(kind) if found is not kind}
    parts.append("## Values\n")
    parts += [_section(values[name]) for name in sorted(values)]
    return "\n".join(parts)


def _section(cls: Any) -> str:
    text = inspect.getdoc(cls)
    if issubclass(cls, Enum):
        return f"### {cls.__name__}\n\n{text}\n\n{', '.join(f'`{each.value}`' for each in cls)}\n"
    hints = stored_hints(cls)
    rows = [
        f"| `{field.name}` | `{_type_name(hints[field.name])}` | {_default(field)} |"
        for field in stored_fields(cls)
    ]
    table = "\n".join(["| field | type | default |", "|---|---|---|", *rows])
    return f"### {cls.__name__}\n\n{text}\n\n{table}\n"


def _type_name(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return r" \| ".join(_type_name(arg) for arg in args)
    if origin is tuple:
        return f"[{', '.join('…' if arg is Ellipsis else _type_name(arg) for arg in args)}]"
    if isinstance(hint, typing.NewType):
        return _type_name(hint.__supertype__)
    return "null" if hint is type(None) else str(hint.__name__)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return ""
    value = field.default.value if isinstance(field.default, Enum) else field.default
    return f"`{orjson.dumps(value).decode()}`"


def _values_in(hint: Any) -> Iterator[Any]:
    """Find the facts and enums that a hint names, and those within them."""
    if dataclasses.is_dataclass(hint):
        yield hint
        for inner in stored_hints(hint).values():
            yield from _values_in(inner)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        yield hint
    for arg in typing.get_args(hint):
        yield from _values_in(arg)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
