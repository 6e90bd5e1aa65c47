"""What Gandiva's comparison found, in sentences that follow from its numbers alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from shunter_papers.gandiva.figures import (
    CLAIMED_CHEAPER,
    CLAIMED_EARLIER,
    FIRST_BATCHES,
    MEMORY_SWING,
)
from shunter_papers.gandiva.rows import FeedbackRow, ShareRow, SuspensionRow
from shunter_papers.gandiva.scenes import FULL, QUANTUM_S

EQUAL_WITHIN: Final = 0.02
"""How far what jobs have together may be from all GPUs (the spec: 2 %)."""

_FIRST: Final = (
    f"first batches: from submission to the end of the first {FIRST_BATCHES} mini-batches, of jobs "
    "that have so many; the longest wait is without GPUs and without turns"
)
_LOAD: Final = (
    "load: offered GPU time over the cluster's, in expectation and of the very jobs; which one the "
    "published figure has is not said"
)
LEGEND: Final = (
    _FIRST,
    "×: the mean under fifo over the row's, above 1 is sooner; all numbers are simulated",
    _LOAD,
)


def verdicts(
    feedback: Sequence[FeedbackRow],
    shares: Sequence[ShareRow],
    suspensions: Sequence[SuspensionRow] = (),
) -> list[str]:
    """Say where the claims are reached, and at what price."""
    return [
        *(_form(feedback) if feedback else ()),
        *(_earlier(feedback) if feedback else ()),
        *_price(feedback),
        *_equal(shares),
        *_cheaper(suspensions),
    ]


def _form(feedback: Sequence[FeedbackRow]) -> Iterator[str]:
    scene = feedback[0].scene
    size = "The full form" if scene.form is FULL else "The quick form, not the paper's size"
    yield f"{size}: {scene.form.gpus} GPUs, {scene.jobs:,} jobs at each load"


def _earlier(feedback: Sequence[FeedbackRow]) -> Iterator[str]:
    """Say at which loads the first mini-batches come as much sooner as claimed."""
    found = [row for row in feedback if not row.is_baseline and row.earlier is not None]
    claim = f"{CLAIMED_EARLIER:g}× sooner to the first {FIRST_BATCHES} mini-batches (slides)"
    if not found:
        yield f"{claim}: nothing can be said, no job has so many"
        return
    reached = [row for row in found if _times(row) >= CLAIMED_EARLIER]
    told = ", ".join(f"{_times(row):.1f}× at {row.scene.load:g}" for row in found)
    if reached:
        least = min(reached, key=lambda row: row.scene.load)
        yield f"{claim}: reached from load {least.scene.load:g} on; by load {told}"
    else:
        yield f"{claim}: not reached at these loads; by load {told}"
    for before, after in pairwise(sorted(found, key=lambda row: row.scene.load)):
        if _times(before) < CLAIMED_EARLIER <= _times(after):
            yield (
                f"The published figure lies between loads {before.scene.load:g} and "
                f"{after.scene.load:g}: it is a function of the load, 1 where nobody waits and "
                "without bound where jobs come faster than they are served"
            )
    worse = [row for row in found if _times(row) < 1.0]
    if worse:
        where = ", ".join(f"load {row.scene.load:g} ({_times(row):.2f}×)" for row in worse)
        yield f"Later than under fifo: {where}"


def _price(feedback: Sequence[FeedbackRow]) -> Iterator[str]:
    """Say what early feedback does to completion times."""
    fifo = {row.scene: row.jct_mean_h for row in feedback if row.is_baseline}
    changes = [
        (row.scene.load, row.jct_mean_h / before - 1)
        for row in feedback
        if not row.is_baseline and row.jct_mean_h is not None
        if (before := fifo[row.scene])
    ]
    if changes:
        told = ", ".join(f"{change:+.1%} at {load:g}" for load, change in changes)
        yield f"The mean JCT against fifo's, by load: {told}"


def _equal(shares: Sequence[ShareRow]) -> Iterator[str]:
    """Say whether jobs have equal shares of four GPUs, as the paper's figure shows."""
    for row in shares:
        phase = row.phase
        span_s = (phase.end_min - phase.begin_min) * 60
        is_equal = all(
            abs(share - phase.expected) <= QUANTUM_S / span_s for share in row.shares.values()
        )
        is_whole = abs(row.together - phase.expected * len(phase.jobs)) <= EQUAL_WITHIN * 4
        verdict = "as published" if is_equal and is_whole else "not as published"
        yield (
            f"{len(phase.jobs)} jobs on four GPUs, minutes {phase.begin_min} to {phase.end_min}: "
            f"{min(row.shares.values()):.3f} to {max(row.shares.values()):.3f} of a GPU each, "
            f"{phase.expected:.3f} expected, {row.together:.2f} GPUs at work: {verdict}"
        )


def _cheaper(suspensions: Sequence[SuspensionRow]) -> Iterator[str]:
    """Say what it is worth to change hands at mini-batch boundaries."""
    if not suspensions:
        return
    aligned, anywhere = (row.idle for row in suspensions)
    times = f"{anywhere / aligned:.0f}×" if aligned > 0 else "without bound"
    yield (
        f"A turn that ends at a mini-batch boundary, of memory that swings by {MEMORY_SWING}×: "
        f"{times} cheaper than wherever jobs are (slides: about {CLAIMED_CHEAPER}×); "
        f"{aligned / 4:.3%} and {anywhere / 4:.2%} of the GPUs' time. A check of the cost model, "
        "which says what is copied: how memory swings within a mini-batch is our assumption"
    )


def _times(row: FeedbackRow) -> float:
    return row.earlier or 0.0
