"""Where a check suspends a script: boundaries of each kind, from an undisturbed run, and by chance.

A mini-batch is a number, from 1. A point asks as a mini-batch ends, right after its boundary, or in
the evaluation after it. Then there is bad input: the newest of two checkpoints is damaged, or it is
resumed as one of two ranks, where each has parts of its own.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from shunter.train.check.attempts import CUT, LOST, RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.train.check.attempts import Record

HALF, WORLD, WORKERS = "half saved", "other ranks", "other workers"
KINDS = ("mid-epoch", "last batch", "epoch end", "evaluation", "accumulation")


class Point(NamedTuple):
    """Where to ask, once in each attempt but the last one."""

    kind: str
    asks: tuple[tuple[str, int], ...]
    workers: tuple[int | None, ...] = (None, None)
    damage: str = ""
    """What the last attempt finds instead of a whole checkpoint of its own."""


class Batch(NamedTuple):
    """What an undisturbed run tells of a mini-batch."""

    epoch: int
    is_whole: bool
    is_evaluated: bool  # an evaluation comes after it


def batches_of(records: Sequence[Record]) -> list[Batch]:
    """Return the mini-batches of a run, in order."""
    found: list[Batch] = []
    for each in records:
        if each["what"] == "saw":
            found.append(Batch(each["epoch"] or 0, is_whole=True, is_evaluated=False))
        elif found and each["what"] == "boundary":
            found[-1] = found[-1]._replace(is_whole=each["whole"])
        elif found and each["what"] == "evaluating":
            found[-1] = found[-1]._replace(is_evaluated=True)
    return found


def points(records: Sequence[Record], number: int, seed: int) -> list[Point]:
    """Return a point of each kind that the script has, and so many by chance.

    Half of those by chance are asked a second time in the attempt that goes on.
    """
    batches = batches_of(records)
    found = []
    for kind in KINDS:
        at = _first(kind, batches)
        if at is not None:
            found.append(Point(kind, ((_INSTANT.get(kind, "saw"), at),)))
    middle = _first("mid-epoch", batches) or max(1, len(batches) // 2)
    if any(each["what"] == "workers" for each in records):
        found.append(Point(WORKERS, (("saw", middle),), (0, 2)))
        found.append(Point(WORKERS, (("saw", middle),), (2, 0)))
    chance = random.Random(seed)
    for count in range(number):
        at = chance.randrange(1, max(2, len(batches)))
        left = len(batches) - at
        again = ("saw", chance.randrange(1, left)) if count % 2 and left > 1 else None
        asks = (("saw", at), again) if again else (("saw", at),)
        found.append(Point("by chance", asks, (None,) * (len(asks) + 1)))
    return [*found, *_bad_input(records, len(batches))]


def _bad_input(records: Sequence[Record], count: int) -> list[Point]:
    """Return the points after which a checkpoint is no more what it was."""
    early = ("saw", max(1, count // 4))
    found = [Point(HALF, (early, early), (None, None, None), each) for each in (CUT, LOST)]
    runs = [each for each in records if each["what"] == "started"]
    if any(each["own"] for each in runs) and not any(each["distributed"] for each in runs):
        found.append(Point(WORLD, (early,), (None, None), RANKS))
    return found if count >= _LEAST else []


_LEAST = 4  # mini-batches
_INSTANT = {"epoch end": "boundary", "evaluation": "evaluating"}


def _first(kind: str, batches: Sequence[Batch]) -> int | None:
    """Return the mini-batch of a kind that has most before it and as much after it."""
    fitting = [at for at in range(1, len(batches)) if _is_of(kind, batches, at)]
    return min(fitting, key=lambda at: abs(2 * at - len(batches)), default=None)


def _is_of(kind: str, batches: Sequence[Batch], at: int) -> bool:
    batch, following = batches[at - 1], batches[at]
    is_last = batch.epoch != following.epoch
    if kind == "evaluation":
        return batch.is_evaluated
    if kind == "accumulation":
        return not batch.is_whole
    return is_last if kind in ("last batch", "epoch end") else not is_last and batch.is_whole
