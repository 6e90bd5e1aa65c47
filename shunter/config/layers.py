"""What an operator set, and where: the file, then the environment, then the command line.

    file ◀─ SHUNTER_A__B=value ◀─ --set a.b=value        the later one wins

Paths in the file are relative to the file, all others to the working directory.
"""

import copy
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from shunter.config.keys import Origins, Path, parse_path, set_value
from shunter.errors import ConfigError, NotFoundError
from shunter.policies import is_file
from shunter.workloads import read_file

# A scan for the lines of keys, not a parser: `tomllib` has read the file already, so it is well
# formed. A value inside an array or an inline table has the line of the key in front of it.

_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_TOKENS = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#|[\[\]{}]')


def lines_of_keys(text: str) -> dict[Path, int]:
    """Return the line, from 1, of every key and table of a well-formed text."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in _statements(text):
        if header := _HEADER.match(line):
            table = _table(header[2], counts, is_item=header[1] == "[[")
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _table(text: str, counts: dict[Path, int], *, is_item: bool) -> Path:
    """Return the path of a table, with the place of each list item on the way."""
    path: Path = ()
    parts = _parts(text)
    for depth, part in enumerate(parts):
        path = (*path, part)
        if is_item and depth == len(parts) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _parts(text: str) -> tuple[str, ...]:
    table: object = tomllib.loads(f"{text} = 0")
    parts: list[str] = []
    while isinstance(table, dict):
        [(name, table)] = table.items()
        parts.append(name)
    return tuple(parts)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines on which something begins, with their numbers."""
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not depth and not quote:
            yield number, line
        is_header = not depth and not quote and _HEADER.match(line)
        for token in () if is_header else _TOKENS.findall(line):
            if quote:
                quote = "" if token == quote else quote
            elif token in ('"""', "'''"):
                quote = token
            elif token == "#":
                break
            else:
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)


PREFIX = "SHUNTER_"
CONFIG_BYTES_MOST = 64 << 20
SECTIONS = (
    "schema",
    "seed",
    "cluster",
    "workload",
    "policy",
    "queues",
    "simulation",
    "backend",
    "server",
    "log",
)
TRACE: Path = ("workload", "trace")
GENERATE: Path = ("workload", "generate")
THROUGHPUTS: Path = ("workload", "throughputs")
SENSITIVITY: Path = ("workload", "sensitivity")
FACTORS: Path = ("workload", "factors")
TRUE_SENSITIVITY: Path = ("simulation", "speeds", "sensitivity")
CLUSTER_FILE: Path = ("cluster", "file")
NODES: Path = ("cluster", "nodes")
SKEW_TABLE: Path = ("policy", "skew", "table")
LOG: Path = ("log", "url")
BACKEND_ROOTS: tuple[Path, ...] = tuple(
    ("backend", kind, "root") for kind in ("local", "ssh", "slurm")
)
SERVER_FILES: tuple[Path, ...] = (
    ("server", "token_file"),
    ("server", "tls", "certificate"),
    ("server", "tls", "key"),
)
INPUTS = (
    TRACE,
    THROUGHPUTS,
    SENSITIVITY,
    FACTORS,
    TRUE_SENSITIVITY,
    CLUSTER_FILE,
    SKEW_TABLE,
    *SERVER_FILES,
)
FILES = (*INPUTS, LOG, *BACKEND_ROOTS)
_FILE_URLS = ("sqlite+aiosqlite:///", "sqlite:///")


@dataclass
class Layers:
    """The values that were set, merged, and the place each came from.

    `histories` are the files whose samples stand in the tree in their place.
    """

    source: str = "config"
    tree: dict[str, object] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    histories: tuple[str, ...] = ()

    def inputs(self) -> list[str]:
        """Return the files that are read, as they are named: the config, and those in it."""
        named = [self.source, *self.histories]
        for *sections, name in INPUTS:
            table: object = self.tree
            for section in sections:
                table = table.get(section) if isinstance(table, dict) else None
            value = table.get(name) if isinstance(table, dict) else None
            if isinstance(value, str) and value and not value.startswith("builtin:"):
                named.append(value)
        return named

    def put(self, path: Path, value: object, place: str) -> None:
        """Set one value over what was set before."""
        settled = set_value(self.tree, path, value, place)
        self.origins.put(settled, place)
        for one, another in ((TRACE, GENERATE), (CLUSTER_FILE, NODES)):
            for chosen, other in ((one, another), (another, one)):
                if settled[: len(chosen)] == chosen:
                    self._drop(other)

    def replaced(self, values: Mapping[str, object], place: str) -> "Layers":
        """Return a copy in which some keys have other values."""
        tree, origins = copy.deepcopy(self.tree), self.origins.copy()
        layers = Layers(self.source, tree, origins, self.histories)
        for key, value in values.items():
            layers.put(parse_path(key), value, place)
        return layers

    def _drop(self, path: Path) -> None:
        """Let what is chosen now stand instead of what a lower layer chose."""
        section = self.tree.get(str(path[0]))
        if isinstance(section, dict) and section.pop(str(path[1]), None) is not None:
            for name in ("format", "rows", "options") if path == TRACE else ():
                section.pop(name, None)


def read_layers(
    path: str | FilePath,
    overrides: Iterable[tuple[str, str]] = (),
    environ: Mapping[str, str] | None = None,
) -> Layers:
    """Read a file, then the environment, then overrides such as ("--set", "seed=3").

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it cannot be read, or something set names no key.
    """
    layers = _read_file(FilePath(path))
    for name, text in sorted((environ or {}).items()):
        if (key := _environment_key(name, layers.tree)) is not None:
            layers.put(key, parse_value(text), name)
    for option, text in overrides:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{option} {text}: expected KEY=VALUE, such as policy.name=las")
        key = parse_path(name.strip())
        layers.put(key, parse_value(value), f"{option} {name.strip()}")
    return layers


def parse_value(text: str) -> object:
    """Return a text as the TOML value it is, else as the text it is."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    value = parsed["value"]
    is_json = isinstance(value, str | int | float | bool | list | dict)
    return value if len(parsed) == 1 and is_json else text


def _read_file(path: FilePath) -> Layers:
    try:
        text = read_file(path, CONFIG_BYTES_MOST).decode("utf-8-sig")
        tree = tomllib.loads(text)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no config file {path}; check the path") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: lists or tables are nested too deeply to be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        hint = "; a text stands in quotes" if "Invalid value" in str(error) else ""
        raise ConfigError(f"{path}: not TOML: {error}{hint}") from error
    places = {key: f"{path}:{line}" for key, line in lines_of_keys(text).items()}
    layers = Layers(str(path), tree, Origins({(): str(path), **places}))
    _settle_paths(tree, path.parent)
    return layers


def _settle_paths(tree: dict[str, object], folder: FilePath) -> None:
    """Make the paths of a file relative to the working directory instead."""
    for *sections, name in FILES:
        table: object = tree
        for section in sections:
            table = table.get(section) if isinstance(table, dict) else None
        value = table.get(name) if isinstance(table, dict) else None
        if isinstance(table, dict) and isinstance(value, str) and value:
            table[name] = _beside(value, folder)
    for table in history_tables(tree).values():
        table["history"] = str(folder / str(table["history"]))


def history_tables(tree: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return the parameter tables, by policy, whose history is a file."""
    policy = tree.get("policy")
    tables = policy.get("params") if isinstance(policy, dict) else None
    return {
        name: table
        for name, table in (tables.items() if isinstance(tables, dict) else ())
        if isinstance(table, dict)
        and isinstance(source := table.get("history"), str)
        and is_file(source)
    }


def _beside(value: str, folder: FilePath) -> str:
    for prefix in _FILE_URLS:
        if value.startswith(prefix):
            return prefix + str(folder / value.removeprefix(prefix))
    is_path = value not in ("memory:", "none:") and not value.startswith("builtin:")
    return str(folder / value) if is_path and "://" not in value else value


def _environment_key(name: str, tree: Mapping[str, object]) -> Path | None:
    """Return the key a variable sets; None if it sets none, as SHUNTER_ATTEMPT."""
    if not name.startswith(PREFIX):
        return None
    parts = name.removeprefix(PREFIX).split("__")
    if len(parts) == 1 and parts[0].lower() not in SECTIONS:
        return None
    path: list[str] = []
    at: object = tree
    for part in parts:
        # Variables are upper case by custom; names of queues may not be lower case.
        alike = [key for key in at if key.lower() == part.lower()] if isinstance(at, dict) else []
        path.append(alike[0] if alike else part.lower())
        at = at.get(path[-1]) if isinstance(at, dict) else None
        if isinstance(at, list) and len(path) < len(parts) and parts[len(path)].isdigit():
            index = int(parts[len(path)])
            at = {str(index): at[index]} if index < len(at) else None
    return tuple(path)
