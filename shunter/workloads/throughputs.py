"""Tables of throughputs: files and the built-in one in, `ThroughputTable` out; and back for a log.

In this order: faults, the compact form, the files of the Gavel simulator, and reading either.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from shunter.core.speeds import JobKind, Pair, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads.loading import table_text

RATE_MIN = 1e-9
"""A step in thirty years: a ratio of two rates is a number still."""

RATE_MAX = 1e12

_SHOWN_MOST = 5


class Faults:
    """The faults of one table."""

    def __init__(self, name: str) -> None:
        """Start with none; `name` is what messages call the table."""
        self._name = name
        self._lines: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one fault."""
        self._lines.append(f"{self._name}: {where}: {what}")

    def table(self, value: object, where: str) -> Mapping[str, object]:
        """Return a JSON object; an empty one, and a fault, for anything else."""
        if isinstance(value, dict):
            return value
        self.add(where, f"expected an object, not {_shown(value)}")
        return {}

    def refuse(self) -> None:
        """Raise ConfigError if there is any fault."""
        if self._lines:
            lines = self._lines[:_SHOWN_MOST]
            if hidden := len(self._lines) - len(lines):
                lines.append(f"{self._name}: and {hidden} more faults")
            raise ConfigError("\n".join(lines))

    def rate(self, value: object, where: str) -> float:
        """Return a rate; 0, and a fault, for what is none."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
        if number == 0 or RATE_MIN <= number <= RATE_MAX:
            return float(number)
        self.add(
            where,
            f"expected steps per second, 0 or {RATE_MIN:g} to {RATE_MAX:g}, not {_shown(value)}",
        )
        return 0.0


def kind_text(kind: JobKind) -> str:
    """Return a kind as messages name it."""
    return f"{kind.model!r} on {kind.gpus} GPU{'s' if kind.gpus > 1 else ''}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# The compact form, of the built-in table and of the log:
#
#     {"base": "v100", "kinds": [["A3C", 1], …], "alone": {"v100": [7.18, …]},
#      "pairs": {"v100": [[0, 3, 6.1, 20.5], [1, 1], …]}}
#
# `alone` has a rate for each kind, or null. A pair is two numbers of kinds, the lower first, and
# two rates; without rates it cannot run.

_NEEDED: Final = ("kinds", "alone", "pairs")
_REMARKS: Final = ("base", "source", "licence", "derived_by")

Rates = tuple[float, float]


def compact_throughputs(table: ThroughputTable) -> dict[str, object]:
    """Return a table as JSON values, the same ones for equal tables."""
    return {
        "base": table.base_type,
        "kinds": [list(kind) for kind in table.kinds],
        "alone": {
            gpu_type: [_short(rates.get(kind)) for kind in table.kinds]
            for gpu_type, rates in sorted(table.alone.items())
        },
        "pairs": {
            gpu_type: sorted(_written(table, pairs))
            for gpu_type, pairs in sorted(table.paired.items())
        },
    }


def parse_compact_throughputs(document: Mapping[str, object], name: str) -> ThroughputTable:
    """Return the table that a compact form describes, in the order of `narrowed`.

    Args:
        document: the form; remarks on source and licence may stand in it.
        name: what messages call it.
    Raises:
        ConfigError: it is no such form, or a number in it is wrong.
    """
    faults = Faults(name)
    for key in document:
        if key not in (*_NEEDED, *_REMARKS):
            faults.add(key, f"unknown; expected {', '.join(_NEEDED)}")
    for key in _NEEDED:
        if key not in document:
            faults.add(key, "missing")
    faults.refuse()
    kinds = _kinds(document["kinds"], faults)
    base = document.get("base", "")
    if not isinstance(base, str):
        faults.add("base", "expected a GPU type")
    faults.refuse()
    columns = faults.table(document["alone"], "alone")
    if not columns:
        faults.add("alone", "expected at least one GPU type")
    alone = {GpuType(key): _alone(column, key, kinds, faults) for key, column in columns.items()}
    paired: dict[GpuType, dict[Pair, Rates]] = {gpu_type: {} for gpu_type in alone}
    for key, pairs in faults.table(document["pairs"], "pairs").items():
        if key not in alone:
            faults.add(f"pairs, {key}", "a GPU type of which `alone` says nothing")
        elif isinstance(pairs, list):
            paired[GpuType(key)] = _read(pairs, key, kinds, faults)
        else:
            faults.add(f"pairs, {key}", "expected a list")
    faults.refuse()
    return ThroughputTable(alone, paired, GpuType(str(base)), name).narrowed(alone)


def _short(rate: float | None) -> float | int | None:
    """Return whole numbers without a fraction; they are read as the same float."""
    return int(rate) if rate is not None and rate.is_integer() else rate


def _written(table: ThroughputTable, pairs: Mapping[Pair, Rates]) -> Iterator[list[object]]:
    for (one, other), rates in pairs.items():
        first, second = table.kinds[one], table.kinds[other]
        if first <= second:
            yield [first, second, *(map(_short, rates) if any(rates) else ())]


def _kinds(value: object, faults: Faults) -> list[JobKind]:
    if not isinstance(value, list) or not value:
        faults.add("kinds", 'expected a list such as [["A3C", 1]]')
        return []
    kinds: list[JobKind] = []
    for number, item in enumerate(value):
        match item:
            case [str(model), int(gpus)] if model and gpus > 0 and gpus is not True:
                kinds.append(JobKind(model, gpus))
            case _:
                faults.add(f"kinds, {number}", "expected a model and its GPUs")
    if len(set(kinds)) < len(kinds):
        twice = next(kind for i, kind in enumerate(kinds) if kind in kinds[:i])
        faults.add("kinds", f"{kind_text(twice)} stands twice")
    return kinds


def _alone(
    column: object, gpu_type: str, kinds: list[JobKind], faults: Faults
) -> dict[JobKind, float]:
    where = f"alone, {gpu_type}"
    if not isinstance(column, list) or len(column) != len(kinds):
        faults.add(where, f"expected a list of {len(kinds)} rates, one for each kind")
        return {}
    return {
        kind: faults.rate(rate, f"{where}, {kind_text(kind)}")
        for kind, rate in zip(kinds, column, strict=True)
        if rate is not None
    }


def _read(
    pairs: list[object], gpu_type: str, kinds: list[JobKind], faults: Faults
) -> dict[Pair, Rates]:
    found: dict[Pair, Rates] = {}
    for number, item in enumerate(pairs):
        where = f"pairs, {gpu_type}, {number}"
        match item:
            case [int(first), int(second), *rates] if 0 <= first <= second < len(kinds) and len(
                rates
            ) in (0, 2):
                one, other = kinds[first], kinds[second]
                own, others = (faults.rate(rate, where) for rate in rates or (0, 0))
            case _:
                faults.add(where, "expected two numbers of kinds, the lower first, and two rates")
                continue
        if (one, other) in found:
            faults.add(where, f"{kind_text(one)} with {kind_text(other)} stands twice")
        if one == other and own != others:
            faults.add(where, f"not symmetric: {kind_text(one)} with itself has two rates")
        found[one, other], found[other, one] = (own, others), (others, own)
    return found


# The files of the Gavel simulator (Narayanan et al., OSDI 2020), in steps a second of the gang:
# GPU type → "('MODEL', GPUS)" → {"null": rate alone, "('OTHER', GPUS)": [own rate, the other's]}.
# Pairs are there both ways; [0, 0] is a pair that does not fit into memory.

_KIND: Final = re.compile(r"""\((['"])(?P<model>.+)\1, ?(?P<gpus>[1-9][0-9]{0,5})\)""")
_ALONE: Final = "null"


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
    builtin = Path(__file__).parent / "data" / "gavel.json"
    text = table_text(source, BUILTIN_THROUGHPUTS, builtin, read)
    document = _document(text, source)
    parse = parse_compact_throughputs if "kinds" in document else parse_gavel_json
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
