"""Hypothesis strategies for facts and their values, derived from the type hints of their fields.

`events()` gives any event, `facts(cls)` any record of one class, `values(hint)` anything a hint
allows. Fields with a default hold it about half of the time, because the codec leaves it out.
"""

import dataclasses
import types
import typing
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from shunter.events import KINDS, Event

# What JSON can carry exactly: 64-bit integers, no NaN or infinities, no lone surrogates.
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.one_of(st.integers(0, 100), st.integers(-(2**63), 2**63 - 1)),
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    type(None): st.none(),
}


def events() -> st.SearchStrategy[Event]:
    """Return the strategy of any event of any kind."""
    kinds: list[Any] = list(KINDS.values())
    return st.one_of([facts(kind) for kind in kinds])


def facts(cls: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of the records of one class."""
    hints = typing.get_type_hints(cls)
    return st.builds(
        cls,
        **{field.name: _field(field, hints[field.name]) for field in dataclasses.fields(cls)},
    )


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return the strategy of the values that a type hint allows."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        return facts(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(arg) for arg in args])
    if origin is list:
        return st.lists(values(args[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    raise TypeError(f"no strategy for {hint}")


def _field(field: dataclasses.Field[Any], hint: Any) -> st.SearchStrategy[Any]:
    if field.default is dataclasses.MISSING:
        return values(hint)
    return st.one_of(st.just(field.default), values(hint))
