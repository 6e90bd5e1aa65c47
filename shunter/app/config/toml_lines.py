"""On which line of a TOML file each key stands, for messages.

A scan, not a parser: `tomllib` has read the file already, so it is well formed. A value inside an
array or an inline table has the line of the key in front of it.
"""

import re
import tomllib
from collections.abc import Iterator

from shunter.app.config.keys import Path

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
