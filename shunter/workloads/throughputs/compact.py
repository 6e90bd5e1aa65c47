"""A table of throughputs in few bytes: the form of the built-in table and of the log.

    {"base": "v100", "kinds": [["A3C", 1], …], "alone": {"v100": [7.18, …]},
     "pairs": {"v100": [[0, 3, 6.1, 20.5], [1, 1], …]}}

`alone` has a rate for each kind, null where it is not known. A pair stands once, by the numbers of
its kinds from 0, the lower first; without rates it is one that cannot run. Floats are written so
that reading gives the same ones back.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from shunter.core.speeds.speed_model import JobKind, Pair, ThroughputTable
from shunter.events.values.ids import GpuType
from shunter.workloads.throughputs.faults import Faults, kind_text

_NEEDED: Final = ("kinds", "alone", "pairs")
_REMARKS: Final = ("base", "source", "licence", "derived_by")

Rates = tuple[float, float]


def compact_form(table: ThroughputTable) -> dict[str, object]:
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


def parse_compact(document: Mapping[str, object], name: str) -> ThroughputTable:
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
