"""What a reproduction found: for each trace and load a table with ratios to a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter.run import value_of

RATIOS = ("jct_s.mean", "jct_s.p50", "jct_s.p95")
"""The measures that are compared, named as `compare --json` does."""


@dataclass(frozen=True)
class Row:
    """What one contender did in one variant.

    `document` is a part of its run's document. `growth` is how much longer its last quarter of the
    jobs took than its first; `jct_s` are all completion times of finished jobs, ascending.
    """

    label: str
    variant: str
    variant_title: str
    document: Mapping[str, Any]
    cluster: Mapping[str, int]
    trace: Mapping[str, Any]
    growth: float | None = None
    jct_s: tuple[float, ...] = ()

    @property
    def policy(self) -> str:
        """The policy's name."""
        return str(self.document["policy"])

    @property
    def oracle(self) -> bool:
        """Whether it knew what no scheduler knows."""
        return bool(self.document["oracle"])

    def of(self, measure: str) -> float | None:
        """Return a measure such as "jct_s.mean"; None where no job finished."""
        return value_of(self.document, measure)


@dataclass(frozen=True)
class Table:
    """All contenders on the same jobs; the first row of each variant is its baseline.

    `round_s` is None where decisions are made at every event.
    """

    trace: str
    load: float
    load_offered: float | None
    rows: tuple[Row, ...]
    round_s: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The table in words."""
        return f"{self.trace} at load {self.load:g}"

    def baseline(self, row: Row) -> Row:
        """Return the row that a row is compared with."""
        return next(other for other in self.rows if other.variant == row.variant)

    def ratio(self, row: Row, measure: str) -> float | None:
        """Return how many times as much the baseline has of a measure; above 1 is better."""
        value, reference = row.of(measure), self.baseline(row).of(measure)
        return reference / value if value and reference is not None else None


def table_document(table: Table) -> dict[str, Any]:
    """Return a table as a part of a document; names as in `simulate` and `compare`."""
    first = table.rows[0]
    return {
        "trace": {"name": table.trace, **first.trace},
        "cluster": dict(first.cluster),
        "load": table.load,
        "load_offered": table.load_offered,
        "round_s": table.round_s,
        "notes": list(table.notes),
        "runs": [
            {
                "label": row.label,
                "variant": row.variant,
                **row.document,
                "ratios": {measure: table.ratio(row, measure) for measure in RATIOS},
                "growth": row.growth,
            }
            for row in table.rows
        ],
    }
