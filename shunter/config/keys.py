"""Keys of a config: their paths, where each value came from, and what is wrong with it.

A path is the names and list indices from the root down: cluster.nodes.0.gpus. A value without an
origin of its own came with the table or list around it; without any, it is a default.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from shunter.errors import ConfigError

Path = tuple[str | int, ...]
DEFAULT = "default"


@dataclass
class Origins:
    """Where values came from: a place such as "run.toml:12" or "--set seed" by path."""

    places: dict[Path, str] = field(default_factory=dict)

    def put(self, path: Path, place: str) -> None:
        """Note that the value at a path, with all below it, came from a place."""
        for known in [known for known in self.places if is_within(known, path)]:
            del self.places[known]
        self.places[path] = place

    def of(self, path: Path) -> str:
        """Return where the value at a path came from."""
        for length in range(len(path), -1, -1):
            if (place := self.places.get(path[:length])) is not None:
                return place
        return DEFAULT

    def below(self, path: Path) -> list[str]:
        """Return where values below a path came from, each place once."""
        inside = (
            place
            for known, place in self.places.items()
            if known != path and is_within(known, path)
        )
        return list(dict.fromkeys(inside))

    def copy(self) -> "Origins":
        """Return a copy that can change on its own."""
        return Origins(dict(self.places))


def is_within(path: Path, outer: Path) -> bool:
    """Say whether a path is another one, or below it."""
    return path[: len(outer)] == outer


def path_text(path: Path) -> str:
    """Return a path as people write it; names that hold dots are quoted."""
    parts = (f'"{part}"' if "." in str(part) else str(part) for part in path)
    return ".".join(parts)


def parse_path(text: str) -> Path:
    """Return the path that a text like `cluster.nodes.0.gpus` names.

    Raises:
        ConfigError: it is no key.
    """
    try:
        table: object = tomllib.loads(f"{text} = 0")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{text!r} is no key; write it like policy.name") from error
    path: list[str] = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise ConfigError(f"{text!r} is no key; write it like policy.name")
        [(name, table)] = table.items()
        path.append(name)
    return tuple(path)


def value_at(tree: Mapping[str, object], path: Path, missing: object = None) -> object:
    """Return the value at a path of tables and lists, or `missing`."""
    at: object = tree
    for part in path:
        inner: object = missing
        if isinstance(at, Mapping):
            inner = at.get(part, missing)
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            inner = at[part]
        at = inner
    return at


def set_value(tree: dict[str, object], path: Path, value: object, place: str) -> Path:
    """Put a value into a tree, making tables on the way; return its whole path.

    Raises:
        ConfigError: the way leads through a value that has no keys, or past the end of a list.
    """
    at: dict[str, object] | list[object] = tree
    settled: list[str | int] = []
    for depth, part in enumerate(path):
        step: str | int = _place_in(at, part, settled, place) if isinstance(at, list) else part
        settled.append(step)
        if depth == len(path) - 1:
            _put(at, step, value)
            break
        if isinstance(at, dict):
            below = at.setdefault(str(step), {})
        else:
            if step == len(at):
                at.append({})
            below = at[int(step)]
        if not isinstance(below, dict | list):
            raise ConfigError(
                f"{place}: {path_text(tuple(settled))} is {below!r}, "
                f"so it has no key {path[depth + 1]!r}"
            )
        at = below
    return tuple(settled)


def _put(at: dict[str, object] | list[object], step: str | int, value: object) -> None:
    if isinstance(at, dict):
        at[str(step)] = value
    elif step == len(at):
        at.append(value)
    else:
        at[int(step)] = value


def _place_in(items: list[object], part: str | int, above: list[str | int], place: str) -> int:
    if not str(part).isdigit() or int(part) > len(items):
        raise ConfigError(
            f"{place}: {path_text(tuple(above))} is a list: "
            f"expected a place from 0 to {len(items)}, not {part!r}"
        )
    return int(part)


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "string_too_short": "a text that is not empty",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "{:g} or more"),
    "greater_than": ("gt", "more than {:g}"),
    "less_than_equal": ("le", "{:g} or less"),
    "less_than": ("lt", "less than {}"),
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with one key."""

    path: Path
    what: str


def faults_in(error: ConfigError, path: Path) -> list[Fault]:
    """Return each line of an error as a fault of a key, which names what was read."""
    return [Fault(path, line) for line in str(error).splitlines()]


def faults_of(
    error: ValidationError, model: type[BaseModel], tree: Mapping[str, object], above: Path = ()
) -> list[Fault]:
    """Return what pydantic found, in our words; `above` is where the model stands."""
    return [
        Fault((*above, *detail["loc"]), _sentence(detail, model, tree))
        for detail in error.errors(include_url=False)
    ]


def config_error(faults: Iterable[Fault], origins: Origins, source: str) -> ConfigError:
    """Return the error that says all of it, in the order of the file."""
    lines = dict.fromkeys(
        ": ".join([*_where(fault.path, origins, source), fault.what])
        + _set_elsewhere(fault.path, origins, source)
        for fault in faults
    )
    return ConfigError("\n".join(lines))


def _where(path: Path, origins: Origins, source: str) -> list[str]:
    """Return the place and the key, where the place does not name it already."""
    place, key = _place(path, origins, source), path_text(path)
    return [place] if not key or place.endswith(f" {key}") else [place, key]


def _place(path: Path, origins: Origins, source: str) -> str:
    """Return where a value came from, or what made the table that lacks it."""
    for length in range(len(path), 0, -1):
        if (place := origins.places.get(path[:length])) is not None:
            return place
        if made_by := _elsewhere(path[:length], origins, source):
            return ", ".join(made_by)
    return source


def _set_elsewhere(path: Path, origins: Origins, source: str) -> str:
    """Return which variables and options set values of a table at fault."""
    found = _elsewhere(path, origins, source) if path in origins.places else []
    return (
        f"; {', '.join(found)} {'sets' if len(found) == 1 else 'set'} values there" if found else ""
    )


def _elsewhere(path: Path, origins: Origins, source: str) -> list[str]:
    """Return the variables and options that set values below a path."""
    below = origins.below(path)
    return [place for place in below if place != source and not place.startswith(f"{source}:")]


def _sentence(detail: ErrorDetails, model: type[BaseModel], tree: Mapping[str, object]) -> str:
    kind, context, path = detail["type"], detail.get("ctx", {}), detail["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(str(path[-1]), list(_fields_at(model, path[:-1])))
    if kind == "missing":
        return f"missing; expected {_described(model, path)}"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    given = value_at(tree, path)
    if kind in ("literal_error", "enum"):
        return f"expected {context['expected']}, not {_shown(given)}"
    if kind in _BOUNDS:
        name, text = _BOUNDS[kind]
        return f"expected {text.format(context[name])}, not {_shown(given)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, not {_shown(given)}"
    return f"{detail['msg'].lower()}, not {_shown(given)}"


def _unknown_key(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key{guess}; known here: {', '.join(known)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _described(model: type[BaseModel], path: Path) -> str:
    field = _fields_at(model, path[:-1]).get(str(path[-1]))
    return str(field.description) if field is not None and field.description else "a value"


def _fields_at(model: type[BaseModel], path: Path) -> dict[str, FieldInfo]:
    """Return the fields of the table at a path, by the keys people write."""
    at: object = model
    for part in path:
        at = _inside(at, part)
    if not (isinstance(at, type) and issubclass(at, BaseModel)):
        return {}
    return {field.alias or name: field for name, field in at.model_fields.items()}


def _inside(hint: object, part: str | int) -> object:
    """Return the type of what stands at a key or place of a type."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        fields = {field.alias or name: field for name, field in hint.model_fields.items()}
        return _bare(fields[str(part)].annotation) if str(part) in fields else None
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return _bare(args[0])
    return _bare(args[1]) if origin is dict else None


def _bare(hint: object) -> object:
    """Return a type without `Annotated` and without `None`."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return _bare(next(arg for arg in get_args(hint) if arg is not type(None)))
    return hint
