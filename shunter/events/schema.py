"""The published schema of events: one pydantic adapter over all kinds, told apart by `kind`.

An event as an object names its fields: `{"kind": "JobFinished", "at_us": 5, "job_id": "7"}`. The
models are derived from the facts' type hints, strict, and closed to unknown fields; the log's own
codec never passes here. A field that holds its default may be left out, and `to_object` does.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from shunter.errors import IllegalEventError
from shunter.events.facts import KINDS, Event
from shunter.events.records import stored_fields, stored_hints

Named = dict[str, Any]
"""An event, or a schema, as an object of JSON."""

# Their members are known at run time only, which static tools cannot follow.
_UNION: Any = Union
_TUPLE: Any = tuple
# Plain numbers only: JSON has no NaN, and the codec would write null for it.
_CONFIG = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


@cache
def event_adapter() -> TypeAdapter[Any]:
    """Return the adapter of the discriminated union of all kinds."""
    kinds: Named = dict(KINDS)
    models = tuple(_model_of(kind, name) for name, kind in kinds.items())
    return TypeAdapter(Annotated[_UNION[models], Field(discriminator="kind")])


def json_schema() -> Named:
    """Return the JSON Schema of an event as an object."""
    return event_adapter().json_schema()


def to_object(event: Event) -> Named:
    """Return the event with its fields by name, without those at their defaults."""
    kind: Any = type(event)  # which can be hashed
    return {"kind": kind.__name__, **_object_encoder(kind)(event)}


def from_object(named: Named) -> Event:
    """Return the event of an object.

    Raises:
        IllegalEventError: it does not fit the schema; the message names the fields.
    """
    try:
        # Through JSON: in strict mode pydantic refuses lists for tuples and text for enums
        # from Python, but not from JSON.
        model = event_adapter().validate_json(orjson.dumps(named))
    except (ValidationError, orjson.JSONEncodeError) as error:
        raise IllegalEventError(_in_words(error)) from error
    event: Event = _fact_of(model)
    return event


def check_event(event: Event) -> None:
    """Raise IllegalEventError unless the event fits the schema."""
    if from_object(to_object(event)) != event:
        raise IllegalEventError(f"not the same after the schema: {event!r}")


@cache
def _model_of(fact: Any, kind: str | None = None) -> type[BaseModel]:
    """Return the model with a fact's stored fields, and its kind if it is an event."""
    hints = stored_hints(fact)
    fields: dict[str, Any] = {} if kind is None else {"kind": (Literal[kind], ...)}
    for field in stored_fields(fact):
        default = ... if field.default is dataclasses.MISSING else field.default
        fields[field.name] = (_schema_type(hints[field.name]), default)
    model: type[BaseModel] = create_model(
        fact.__name__, __config__=_CONFIG, __doc__=fact.__doc__, **fields
    )
    _FACTS[model] = fact
    return model


_FACTS: dict[type[BaseModel], type] = {}


def _schema_type(hint: object) -> Any:
    """Return the hint with models for facts and supertypes for new types."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    fact: Any = hint
    if dataclasses.is_dataclass(hint):
        return _model_of(fact)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _UNION[tuple(_schema_type(arg) for arg in args)]
    if origin is tuple:
        return _TUPLE[tuple(_schema_type(arg) for arg in args)]
    return hint


def _fact_of(value: object) -> Any:
    """Return the fact of a model, and of the models within it."""
    if isinstance(value, BaseModel):
        fact = _FACTS[type(value)]
        return fact(*[_fact_of(getattr(value, field.name)) for field in stored_fields(fact)])
    if isinstance(value, tuple):
        return tuple([_fact_of(item) for item in value])
    return value


@cache
def _object_encoder(fact: Any) -> Callable[[object], Named]:
    """Return the function that names a fact's fields, leaving defaults out."""
    fields = [(field.name, field.default) for field in stored_fields(fact)]

    def encode(record: object) -> Named:
        return {
            name: _named(value)
            for name, default in fields
            if (value := getattr(record, name)) != default
        }

    return encode


def _named(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_named(item) for item in value]
    if dataclasses.is_dataclass(value):
        fact: Any = type(value)  # which can be hashed
        return _object_encoder(fact)(value)
    return value


def _in_words(error: ValidationError | orjson.JSONEncodeError) -> str:
    """Return one line a wrong field."""
    if not isinstance(error, ValidationError):
        return f"not JSON: {error}"
    lines = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'event'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(lines)
