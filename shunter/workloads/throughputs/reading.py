"""Reading a table of throughputs: which form it has, its base type, its digest."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from shunter.core.performance.throughputs import ThroughputTable
from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType
from shunter.workloads.files import table_text
from shunter.workloads.throughputs.compact import parse_compact
from shunter.workloads.throughputs.gavel_json import parse_gavel_json

BUILTIN_THROUGHPUTS: Final = "builtin:gavel"
"""The source that names the table of the package; README.md says where it is from."""

BASE_TYPE: Final = GpuType("v100")
"""The GPU type at which durations are given unless another is named: Gavel's."""


@dataclass(frozen=True)
class ThroughputFile:
    """A table, and the digest of the text it was read from."""

    table: ThroughputTable
    digest: str


def load_throughputs(
    source: str, read: Callable[[str], str], base_type: str = BASE_TYPE
) -> ThroughputFile:
    """Return the table a source names: the built-in one, or a file's.

    Args:
        source: `BUILTIN_THROUGHPUTS`, or a path.
        read: returns the text of a file, or raises ConfigError.
        base_type: the GPU type at which durations are given.
    Raises:
        ConfigError: there is no such table, it is wrong, or it lacks the base type.
    """
    builtin = Path(__file__).with_name("gavel.json")
    text = table_text(source, BUILTIN_THROUGHPUTS, builtin, read)
    document = _document(text, source)
    parse = parse_compact if "kinds" in document else parse_gavel_json
    table = parse(document, source)
    if base_type not in table.alone:
        raise ConfigError(
            f"{source}: no throughputs on {base_type!r}, the GPU type at which durations are "
            f"given; name one of {', '.join(table.alone)} as workload.base_type"
        )
    digest = blake2b(f"throughputs 1 {base_type}\n{text}".encode(), digest_size=32)
    return ThroughputFile(replace(table, base_type=GpuType(base_type)), digest.hexdigest())


def builtin_throughputs() -> ThroughputFile:
    """Return the table that comes with the package."""

    def no_file(path: str) -> str:
        raise AssertionError(f"the built-in table is no file: {path}")

    return load_throughputs(BUILTIN_THROUGHPUTS, no_file)


def _document(text: str, name: str) -> dict[str, object]:
    try:
        document = json.loads(text, object_pairs_hook=_refuse_twice)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{name}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: not usable JSON ({error})") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: expected a JSON object, with GPU types as keys")
    return document


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"key {twice!r} stands twice in one object")
    return found
