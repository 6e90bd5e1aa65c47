"""Reading a table of throughputs: which form it has, its base type, its digest."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from shunter.core.speeds.speed_model import JobKind, Pair, ThroughputTable
from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType
from shunter.workloads.files import table_text
from shunter.workloads.throughputs.compact import parse_compact
from shunter.workloads.throughputs.faults import Faults, kind_text

# The throughput files of the Gavel simulator (Narayanan et al., OSDI 2020).
#
# GPU type → "('MODEL', GPUS)" → {"null": rate alone, "('OTHER', GPUS)": [own rate, the other's]},
# in steps per second of the whole gang. Pairs stand there both ways, as mirror images; [0, 0] is
# a pair that does not fit into memory together.

_KIND: Final = re.compile(r"""\((['"])(?P<model>.+)\1, ?(?P<gpus>[1-9][0-9]{0,5})\)""")
_ALONE: Final = "null"

Rates = tuple[float, float]


def parse_gavel_json(document: Mapping[str, object], name: str) -> ThroughputTable:
    """Return the table, without a base type.

    Args:
        document: the file.
        name: what messages call it.
    Raises:
        ConfigError: it is no such table, a number is none, or pairs are not symmetric.
    """
    faults = Faults(name)
    kinds = _Kinds(faults)
    if not document:
        faults.add("the file", "expected at least one GPU type")
    alone: dict[GpuType, dict[JobKind, float]] = {}
    paired: dict[GpuType, dict[Pair, Rates]] = {}
    for text, rows in document.items():
        gpu_type = GpuType(text)
        rows_by_kind = {
            kind: faults.table(row, f"{text}, {key}")
            for key, row in faults.table(rows, text).items()
            if (kind := kinds.of(key, text)) is not None
        }
        if not rows_by_kind:
            faults.add(text, "expected at least one kind of job, such as \"('A3C', 1)\"")
        alone[gpu_type] = {
            kind: faults.rate(row.get(_ALONE), f"{text}, {kind_text(kind)}, alone ({_ALONE})")
            for kind, row in rows_by_kind.items()
        }
        paired[gpu_type] = _pairs(rows_by_kind, text, kinds, faults)
    faults.refuse()
    return ThroughputTable(alone, paired, name=name)


class _Kinds:
    """Reads the keys of rows; equal texts are one object."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._known: dict[str, JobKind] = {}

    def of(self, text: str, where: str) -> JobKind | None:
        kind = self._known.get(text)
        if kind is None:
            found = _KIND.fullmatch(text)
            if found is None:
                self._faults.add(where, f"expected a key such as ('A3C', 1), not {text[:60]}")
                return None
            kind = self._known[text] = JobKind(found["model"], int(found["gpus"]))
        return kind


def _pairs(
    rows: Mapping[JobKind, Mapping[str, object]], gpu_type: str, kinds: _Kinds, faults: Faults
) -> dict[Pair, Rates]:
    pairs: dict[Pair, Rates] = {}
    for one, row in rows.items():
        for key, value in row.items():
            if key == _ALONE or (other := kinds.of(key, gpu_type)) is None:
                continue
            where = f"{gpu_type}, {kind_text(one)} with {kind_text(other)}"
            if other not in rows:
                faults.add(where, "the second has no row of its own")
            elif not isinstance(value, list) or len(value) != 2:
                faults.add(where, "expected two rates")
            else:
                pairs[one, other] = (faults.rate(value[0], where), faults.rate(value[1], where))
    for (one, other), (own, others) in pairs.items():
        back = pairs.get((other, one))
        if back != (others, own):
            found = "is missing" if back is None else f"says {list(back)}"
            faults.add(
                f"{gpu_type}, {kind_text(one)} with {kind_text(other)}",
                f"not symmetric: {[own, others]} here, and the pair the other way round {found}",
            )
    return pairs


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
