"""A data loader whose position is part of the checkpoint.

A shuffled loader draws its order when its iteration begins, or when its first batch is asked for.
So we remember the state of chance at both instants and the number of batches handed out; a resumed
run does the same with the same chance, throws away what was used, and then goes on with the chance
of the checkpoint. All of that when it asks for a batch: until then a trainer may draw, too.
A loader that can do that itself (`state_dict`, `load_state_dict`) is asked instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")
_PASS = "iteration"


class Batches(Generic[T]):
    """The batches of one loader, over its passes; iterate it once a pass."""

    def __init__(self, source: Iterable[T]) -> None:
        self.source = source
        self.given = 0
        self.ahead = 0  # how many of them a trainer has fetched and not trained with
        self._is_over = False
        self._begun: state.State | None = None
        self._first: state.State | None = None
        self._resumed_own: list[object] | None = None
        self.resumed_chance: state.State = {}

    def __iter__(self) -> Iterator[T]:
        if self._resumed_own is not None:
            return self._going_on()
        self.next_pass()
        self._begun = self._chance()
        return self._fresh(iter(self.source))

    def next_pass(self) -> None:
        """Begin at the front again."""
        self.given, self.ahead, self._is_over = 0, 0, False
        self._begun = self._first = self._resumed_own = None

    def state_dict(self) -> state.State:
        keeps = state.keeps_position(self.source)
        return {
            "given": self.given - self.ahead,
            "over": self._is_over,
            "begun": self._begun,
            "first": self._first,
            "generators": [each.get_state() for each in state.generators(self.source)],
            "source": state.captured(self.source) if keeps else None,
            "pass": getattr(self.source, _PASS, None),
        }

    def load_state_dict(self, saved: state.State) -> None:
        self.given, self._is_over = saved["given"], saved["over"]
        self._begun, self._first = saved["begun"], saved.get("first")
        self._resumed_own = None if self._begun is None else saved["generators"]
        if saved["source"] is not None:
            state.restore(self.source, saved["source"])
        if saved.get("pass") is not None:
            # Accelerate's loaders seed an order by it.
            setattr(self.source, _PASS, saved["pass"])

    def _fresh(self, iterator: Iterator[T]) -> Iterator[T]:
        self._first = self._chance()
        yield from self._counted(iterator)

    def _counted(self, iterator: Iterator[T]) -> Iterator[T]:
        for batch in iterator:
            self.given += 1
            yield batch
        self._is_over = True

    def _going_on(self) -> Iterator[T]:
        """Walk to where the checkpoint was, then yield what is left of that pass."""
        own, self._resumed_own = self._resumed_own, None
        if self._is_over:
            return
        assert own is not None
        assert self._begun is not None
        keeps = state.keeps_position(self.source)
        if not keeps:
            self._set_chance(self._begun)
        iterator = iter(self.source)
        if self._first is not None and not keeps:
            self._set_chance(self._first)
        for _ in range(0 if keeps else self.given):
            next(iterator)
        self._set_chance({"global": self.resumed_chance, "own": own})
        yield from self._counted(iterator)

    def _chance(self) -> state.State:
        own = [each.get_state() for each in state.generators(self.source)]
        return {"global": state.chance(), "own": own}

    def _set_chance(self, saved: state.State) -> None:
        state.set_chance(saved["global"])
        for index, generator in enumerate(state.generators(self.source)):
            generator.set_state(saved["own"][index])
