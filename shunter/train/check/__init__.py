"""Check that a training script resumes exactly: suspend it everywhere, compare every bit.

    python -m shunter.train.check train.py --with --its arguments

It runs the script to its end twice, which has to be the same. Then it suspends it at each kind of
boundary, and at some drawn by chance, has a new process go on, and compares what the script trained
with after each mini-batch. That is what the script and its adapter give `train.start` as parts, and
what it shows here; outside a check these functions do nothing::

    from shunter.train import check

    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=check.workers(0))
    ...
    check.saw(epoch, batch=x, loss=loss, model=model, optimizer=optimizer)
    run.step()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shunter.train.check.watching import Watcher

__all__ = ["begins", "evaluating", "saw", "workers"]

_watcher: Watcher | None = None


def workers(number: int) -> int:
    """Return how many workers a loader has: a check also tries another number."""
    return number if _watcher is None else _watcher.workers(number)


def begins(**state: object) -> None:
    """Show what was loaded, before the first mini-batch: it names what was not restored."""
    if _watcher is not None:
        _watcher.begins(state)


def saw(epoch: int | None = None, **values: object) -> None:
    """Show what a mini-batch trained with, once each, before the run's boundary.

    Args:
        epoch: its number; that of the run where it is not given.
        values: by name: arrays, tensors, numbers, texts, bytes, dicts and lists of these, and what
            has `state_dict`. Those that come first are named first where a resumed run differs.

    Raises:
        TypeError: of a value nobody can say whether its bits are equal.
    """
    if _watcher is not None:
        _watcher.saw(epoch, values)


def evaluating() -> None:
    """Tell a batch of an evaluation, where that does not go through `run.evaluate`."""
    if _watcher is not None:
        _watcher.evaluating()
