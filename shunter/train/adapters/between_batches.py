"""What adapters share that leave where a trainer asks for its next batch.

There all hooks of the mini-batch before and an evaluation that was due are done, and nothing has
been drawn for the next one. So the loader that a trainer trains from is wrapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shunter.train.batches import Batches
    from shunter.train.run import Run


class Boundary:
    """Hears as a mini-batch ends whether to leave, and leaves before the next one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._is_asked = False
        self._is_saving_due = False

    def passed(self) -> None:
        """Tell that a mini-batch is done."""
        self._is_asked = self.run.boundary() or self._is_asked
        self._is_saving_due = self.run.is_saving_due()

    def act(self, before: Callable[[], None] | None = None) -> None:
        """Save if that is due, and leave if the run is to be suspended.

        Args:
            before: called first, where it saves.
        """
        is_asked, self._is_asked = self._is_asked, False
        is_saving_due, self._is_saving_due = self._is_saving_due, False
        if is_asked or is_saving_due:
            if before is not None:
                before()
            self.run.suspend() if is_asked else self.run.save()


class WatchedLoader:
    """A loader as a trainer sees it: the one within, but for its iteration."""

    def __init__(
        self,
        loader: Iterable[object],
        batches: Batches[object],
        before_batch: Callable[[], None],
        after_fetch: Callable[[], None] | None = None,
    ) -> None:
        """Wrap a loader.

        Args:
            loader: what the trainer would iterate over.
            batches: the same, with its position.
            before_batch: called before each batch is fetched, and before the end of a pass.
            after_fetch: called once a batch is fetched, before the trainer has it.
        """
        vars(self).update(_loader_=loader, _batches_=batches)
        vars(self).update(_before_=before_batch, _after_=after_fetch)

    def __iter__(self) -> Iterator[object]:
        return self._watched(iter(self._batches_))

    def _watched(self, iterator: Iterator[object]) -> Iterator[object]:
        while True:
            self._before_()
            try:
                batch = next(iterator)
            except StopIteration:
                if self._after_ is not None:
                    self._after_()
                return
            if self._after_ is not None:
                self._after_()
            yield batch

    def __len__(self) -> int:
        return len(self._loader_)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader_, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._loader_, name, value)

    def state_dict(self) -> dict[str, object]:
        """Nothing: the position lies with all else that each rank saves."""
        return {}

    def load_state_dict(self, saved: dict[str, object]) -> None:
        """Nothing to load."""
