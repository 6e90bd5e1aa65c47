"""What a paper claims, held against tables: sentences that follow from the numbers alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter_papers.tables import RATIOS, Row, Table

FALLS_BEHIND = 2.0
"""A contender whose last quarter of the jobs takes so many times as long as its first."""

_NAMES = dict(zip(RATIOS, ("average", "median", "95th percentile"), strict=True))


@dataclass(frozen=True)
class Claim:
    """That some contenders beat the baseline by up to a ratio in one measure."""

    text: str
    source: str
    ratio: float
    labels: tuple[str, ...]
    measure: str = "jct_s.mean"


@dataclass(frozen=True)
class _Found:
    """The ratio of a contender in one variant at one load."""

    table: Table
    row: Row
    ratio: float

    @property
    def words(self) -> str:
        return f"load {self.table.load:g}, restarts {self.row.variant_title} ({self.ratio:.2f}×)"


def is_reached(claim: Claim, table: Table, row: Row) -> bool | None:
    """Say whether a row reaches a claim; None where the claim is not about it."""
    ratio = table.ratio(row, claim.measure)
    return None if row.label not in claim.labels or ratio is None else ratio >= claim.ratio


def sentences(claim: Claim, tables: Sequence[Table]) -> list[str]:
    """Say where a claim is reached and where it is not, and what to make of it."""
    said = [_overall(claim, tables)]
    for trace in dict.fromkeys(table.trace for table in tables):
        of_trace = [table for table in tables if table.trace == trace]
        said += [_verdict(claim, label, of_trace) for label in claim.labels]
        said += [price for label in claim.labels if (price := _price(claim, label, of_trace))]
        said += _losses(claim, of_trace)
        said += _backlogs(of_trace)
    return said


def claim_document(claim: Claim, tables: Sequence[Table]) -> dict[str, object]:
    """Return a claim with its verdicts as a part of a document."""
    return {
        "text": claim.text,
        "source": claim.source,
        "measure": claim.measure,
        "ratio": claim.ratio,
        "labels": list(claim.labels),
        "verdicts": [
            {
                "trace": found.table.trace,
                "load": found.table.load,
                "load_offered": found.table.load_offered,
                "variant": found.row.variant,
                "label": found.row.label,
                "policy": found.row.policy,
                "ratio": found.ratio,
                "reached": found.ratio >= claim.ratio,
            }
            for found in _found(claim, tables)
        ],
    }


def _found(claim: Claim, tables: Sequence[Table]) -> list[_Found]:
    return [
        _Found(table, row, ratio)
        for table in tables
        for row in table.rows
        if row.label in claim.labels
        if (ratio := table.ratio(row, claim.measure)) is not None
    ]


def _overall(claim: Claim, tables: Sequence[Table]) -> str:
    found = _found(claim, tables)
    head = f"{claim.text[:1].upper()}{claim.text[1:]} ({claim.source}):"
    if not found:
        return f"{head} nothing can be said, no job finished"
    count = sum(one.ratio >= claim.ratio for one in found)
    if not count:
        return f"{head} reached in none of {len(found)} comparisons"
    return f"{head} reached in {count} of {len(found)} comparisons"


def _verdict(claim: Claim, label: str, tables: Sequence[Table]) -> str:
    """Say of one contender on one trace where it reaches the claim."""
    trace = tables[0].trace
    found = [one for one in _found(claim, tables) if one.row.label == label]
    if not found:
        return f"{trace}: {label} finished no job, so nothing can be said"
    reached = [one for one in found if one.ratio >= claim.ratio]
    missed = [one for one in found if one.ratio < claim.ratio]
    if not reached:
        best, worst = max(missed, key=_ratio), min(missed, key=_ratio)
        return (
            f"{trace}: {label} reaches {claim.ratio:g}× nowhere; its best is at {best.words}, its "
            f"worst at {worst.words}"
        )
    where = "; ".join(one.words for one in reached)
    if not missed:
        return f"{trace}: {label} reaches {claim.ratio:g}× everywhere: at {where}"
    rest = "; ".join(one.words for one in missed)
    return f"{trace}: {label} reaches {claim.ratio:g}× at {where}; it does not at {rest}"


def _ratio(found: _Found) -> float:
    return found.ratio


def _price(claim: Claim, label: str, tables: Sequence[Table]) -> str | None:
    """Say what the costs of the second variant do to one contender; None without one."""
    changes, title = [], ""
    for table in tables:
        rows = [row for row in table.rows if row.label == label]
        values = [row.of(claim.measure) for row in rows[:2]]
        if len(values) == 2 and values[0] and values[1] is not None:
            changes.append((values[1] / values[0] - 1) * 100)
            title = rows[1].variant_title
    if not changes:
        return None
    return (
        f"{tables[0].trace}: restarts that cost {title} change the {_NAMES[claim.measure]} of "
        f"{label} by {min(changes):+.1f} % to {max(changes):+.1f} %"
    )


def _losses(claim: Claim, tables: Sequence[Table]) -> Iterator[str]:
    """Say where the baseline does better than what is claimed to beat it."""
    for measure in RATIOS:
        worse = [
            f"{row.label} at load {table.load:g}, restarts {row.variant_title} ({ratio:.2f}×)"
            for table in tables
            for row in table.rows
            if row.label in claim.labels
            if (ratio := table.ratio(row, measure)) is not None and ratio < 1
        ]
        if worse:
            yield (
                f"{tables[0].trace}: the {_NAMES[measure]} is worse than the baseline's with "
                f"{'; '.join(worse)}"
            )


def _backlogs(tables: Sequence[Table]) -> Iterator[str]:
    """Say where the baseline falls behind: such a ratio depends on the length."""
    for table in tables:
        row = table.rows[0]
        if row.growth is not None and row.growth >= FALLS_BEHIND:
            yield (
                f"{table.place}: {row.label} falls behind, its last quarter of the jobs took "
                f"{row.growth:.1f} times as long as its first; so these ratios depend on how long "
                "the trace is"
            )
