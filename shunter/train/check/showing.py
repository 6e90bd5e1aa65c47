"""What a script says to a check; outside of a check it does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Watching(Protocol):
    """Who takes what a script shows."""

    def workers(self, number: int) -> int: ...
    def begins(self, values: Mapping[str, object]) -> None: ...
    def saw(self, epoch: int | None, values: Mapping[str, object]) -> None: ...
    def evaluating(self) -> None: ...


watcher: Watching | None = None
"""Is there in a process of a check."""


def workers(number: int) -> int:
    """Return how many workers a loader has: a check also tries another number."""
    return number if watcher is None else watcher.workers(number)


def begins(**state: object) -> None:
    """Show what was loaded, before the first mini-batch.

    What was not restored is named then.
    """
    if watcher is not None:
        watcher.begins(state)


def saw(epoch: int | None = None, **values: object) -> None:
    """Show what a mini-batch trained with, once each, before the run's boundary.

    Args:
        epoch: its number; that of the run where it is not given.
        values: by name: arrays, tensors, numbers, texts, what can be pickled, dicts and lists of
            these, and what has `state_dict`. Those that come first are named first where a resumed
            run differs.

    Raises:
        TypeError: of a value nobody can say whether its bits are equal.
    """
    if watcher is not None:
        watcher.saw(epoch, values)


def evaluating() -> None:
    """Tell a batch of an evaluation, where that does not go through `run.evaluate`."""
    if watcher is not None:
        watcher.evaluating()
