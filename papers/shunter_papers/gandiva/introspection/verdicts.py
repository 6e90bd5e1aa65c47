"""What packs and moves were found to gain, in sentences that follow from their numbers alone."""

from collections.abc import Iterator, Sequence
from typing import Final

from shunter_papers.gandiva.introspection.comparison import Trials
from shunter_papers.gandiva.introspection.gathering import GangRow
from shunter_papers.gandiva.introspection.packing import PackingRow
from shunter_papers.gandiva.introspection.pairs import PairRow

CLAIMED_GAIN: Final = 0.26
"""So much more a cluster of 180 GPUs does with packing (slides)."""

PLAUSIBLE: Final = (0.20, 0.32)
"""In which range the gain is as published, at some crowding from 1.5 to 2.5 (the spec)."""

CLAIMED_MOVES: Final = 3
"""So many gangs are moved when the large job ends, and all are together then (slides)."""

_HOW: Final = (
    "packing: the rates of all jobs, each over its rate alone, for each GPU, over the first three "
    "hours; models are drawn from the public Gavel table, whose pairs are measured. The slides do "
    "not say how crowded their cluster was, so it is swept"
)
LEGEND: Final = (_HOW,)


def verdicts(found: Trials) -> list[str]:
    """Say what gains, what was undone, and where the published figures lie."""
    return [*_gains(found.packing), *_pairs(found.pairs), *_gangs(found.gangs)]


def _gains(rows: Sequence[PackingRow]) -> Iterator[str]:
    told = ", ".join(f"{row.gain:+.1%} ({row.gpu_type}, {row.crowding:g})" for row in rows)
    least, most = PLAUSIBLE
    near = [row for row in rows if row.crowding >= 1.5 and least <= row.gain <= most]
    where = ", ".join(f"{row.gpu_type} at {row.crowding:g}" for row in near)
    reached = f"within {least:.0%} to {most:.0%} for {where}" if near else "not reached here"
    yield (
        f"{CLAIMED_GAIN:.0%} more throughput by packing (slides): {reached}; by GPU type and jobs "
        f"for each GPU {told}. It is a function of both, no constant"
    )
    worst = min(rows, key=lambda row: row.gain)
    tried, undone = sum(row.tried for row in rows), sum(row.undone for row in rows)
    lost = max(row.lost for row in rows)
    yield (
        f"{undone:,} of {tried:,} packs were undone, which took at most {lost:.2%} of the GPUs' "
        f"time; the least that packing did was {worst.gain:+.1%} ({worst.gpu_type} at "
        f"{worst.crowding:g})"
    )


def _pairs(rows: Sequence[PairRow]) -> Iterator[str]:
    for row in rows:
        yield (
            f"Two jobs of {row.model} on one {row.gpu_type}: {row.table:.2f} times one of them by "
            f"the table, {row.measured:.2f} measured: {row.verdict} ({row.reason})"
        )


def _gangs(rows: Sequence[GangRow]) -> Iterator[str]:
    moved = [row for row in rows if row.moved_s is not None]
    spread = sum(len(row.first) > 1 for row in rows)
    together = sum(row.is_together for row in rows)
    as_claimed = len(moved) == CLAIMED_MOVES and together == len(rows)
    gains = [row.measured for row in moved if row.measured is not None]
    least, most = (f"{gain:.2f}" for gain in (min(gains), max(gains))) if gains else ("", "")
    span = least if least == most else f"{least} to {most}"
    faster = f", {span} times as fast then" if gains else ""
    yield (
        f"A search of {len(rows)} gangs, {spread} of them on two servers: {len(moved)} were moved "
        f"when a job of eight GPUs had ended, and {together} are on one server{faster}: "
        f"{'as published' if as_claimed else 'not as published'}"
    )
