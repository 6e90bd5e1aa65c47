"""The throughput files of the Gavel simulator (Narayanan et al., OSDI 2020).

GPU type → "('MODEL', GPUS)" → {"null": rate alone, "('OTHER', GPUS)": [own rate, the other's]}, in
steps per second of the whole gang. Pairs stand there both ways, as mirror images; [0, 0] is a pair
that does not fit into memory together.
"""

import re
from collections.abc import Mapping
from typing import Final

from shunter.core.performance.throughputs import JobKind, Pair, ThroughputTable
from shunter.events.values.ids import GpuType
from shunter.workloads.throughputs.faults import Faults, kind_text

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
