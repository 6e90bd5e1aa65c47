"""Keys of a config: their paths, and where each value came from.

A path is the names and list places from the root down: cluster.nodes.0.gpus. A value without an
origin of its own came with the table or list around it; without any, it is a default.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

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
