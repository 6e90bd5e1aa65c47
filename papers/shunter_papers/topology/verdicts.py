"""What the comparison of placements found, in sentences that follow from its numbers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from shunter_papers.topology.rows import Row

WITHIN: Final = 0.03
"""Adaptive placement is to be so near to the better of the other two."""

_SIMULATED: Final = (
    "all numbers are simulated by the text's factors, whose gaps are filled with geometric means; "
    "for the experiments themselves the text gives no numbers"
)
LEGEND: Final = (
    "slowdown: the time on GPUs over that alone and near; ±: half of the 95 % interval over seeds",
    "large: gangs of four GPUs and more",
    _SIMULATED,
)


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Say where placement by load wins and where not, and what contracts change."""
    return [*_interference(rows), *_locality(rows), *_adaptive(rows), *_moves(rows)]


def _interference(rows: Sequence[Row]) -> Iterator[str]:
    for load, found in _by_load(rows, "interference"):
        apart, packed = found["spread"].slowdown, found["pack"].slowdown
        yield (
            f"Jobs of one GPU at load {load:g} take {packed:.2f}× as long as alone when packed and "
            f"{apart:.2f}× when spread"
        )


def _locality(rows: Sequence[Row]) -> Iterator[str]:
    for load, found in _by_load(rows, "locality"):
        contract, strict = found["by contract"], found["one server"]
        yield (
            f"At load {load:g} jobs wait {contract.wait_h:.2f} h where gangs of four have a "
            f"contract for each model, and {strict.wait_h:.2f} h where all of these must be in one "
            f"server; they take {contract.jct_h:.2f} h and {strict.jct_h:.2f} h in all, and "
            f"{found['anywhere'].jct_h:.2f} h if placed anywhere"
        )
        rule = found["by skew"]
        yield (
            f"Needless waits of these gangs at load {load:g}: {strict.needless or 0:.1f} of a run "
            f"where all must be in one server, {rule.needless or 0:.1f} by one rule on skews and "
            f"{contract.needless or 0:.1f} by contract; below what their owners ask for run "
            f"{strict.slow or 0:.1f}, {rule.slow or 0:.1f} and {contract.slow or 0:.1f}"
        )


def _adaptive(rows: Sequence[Row]) -> Iterator[str]:
    for load, found in _by_load(rows, "tension"):
        ours, others = found["adaptive"].jct_h, (found["spread"].jct_h, found["pack"].jct_h)
        over = ours / min(others) - 1
        if over <= WITHIN:
            said = f"is within {WITHIN:.0%} of the better of spread and pack"
        elif ours <= max(others):
            said = f"is {over:.1%} over the better of spread and pack, and no worse than the other"
        else:
            said = f"is worse than both spread and pack, {over:.1%} over the better"
        yield f"Adaptive placement at load {load:g} {said} in mean completion time"


def _moves(rows: Sequence[Row]) -> Iterator[str]:
    """Say at which loads moves that make room cut the waits of large gangs."""
    for load, found in _by_load(rows, "tension"):
        row, other = found.get("with moves"), found.get("one server")
        if row is None or other is None or row.large_saved_h is None:
            continue
        half_h = row.large_saved_half_h or 0.0
        waits = f"from {other.large_wait_p95_h or 0.0:.2f} h to {row.large_wait_p95_h or 0.0:.2f} h"
        interval = f"by {row.large_saved_h:.2f} h ± {half_h:.2f} h, at {row.moves_per_h:.1f} moves"
        is_clear = row.large_saved_h > half_h
        said = "cuts" if is_clear else "does not surely cut"
        yield (
            f"Moving jobs for gangs that want one server at load {load:g} {said} the 95th "
            f"percentile of the wait of large ones, {waits}, {interval} an hour; the mean "
            f"completion time of all jobs goes from {other.jct_h:.2f} h to {row.jct_h:.2f} h"
        )


def _by_load(rows: Sequence[Row], experiment: str) -> Iterator[tuple[float, dict[str, Row]]]:
    mine = [row for row in rows if row.experiment == experiment]
    for load in dict.fromkeys(row.load for row in mine):
        yield load, {row.contender: row for row in mine if row.load == load}
