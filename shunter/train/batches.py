"""A data loader whose position is part of the checkpoint.

A shuffled loader draws its order when its iteration begins, or when its first batch is asked for.
So we remember the state of chance at both instants and the number of batches handed out; a resumed
run does the same with the same chance, throws away what was used, and then goes on with the chance
of the checkpoint. All of that when it asks for a batch: until then a trainer may draw, too.
A loader that can do that itself (`state_dict`, `load_state_dict`) is asked instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Iterator


class Batches:
    """The batches of one loader, over its passes; iterate it once a pass."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.given = 0
        self.ahead = 0  # how many of them a trainer has fetched and not trained with
        self._is_over = False
        self._begun: dict[str, Any] | None = None
        self._first: dict[str, Any] | None = None
        self._resumed_own: list[Any] | None = None
        self.resumed_chance: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        if self._resumed_own is not None:
            return self._going_on()
        self.next_pass()
        self._begun = self._chance()
        return self._fresh(iter(self.source))

    def next_pass(self) -> None:
        """Begin at the front again."""
        self.given, self.ahead, self._is_over = 0, 0, False
        self._begun = self._first = self._resumed_own = None

    def state_dict(self) -> dict[str, Any]:
        keeps = state.keeps_position(self.source)
        return {
            "given": self.given - self.ahead,
            "over": self._is_over,
            "begun": self._begun,
            "first": self._first,
            "generators": [each.get_state() for each in state.generators(self.source)],
            "source": state.captured(self.source) if keeps else None,
            "pass": getattr(self.source, "iteration", None),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.given, self._is_over = saved["given"], saved["over"]
        self._begun, self._first = saved["begun"], saved.get("first")
        self._resumed_own = None if self._begun is None else saved["generators"]
        if saved["source"] is not None:
            state.restore(self.source, saved["source"])
        if saved.get("pass") is not None:
            self.source.iteration = saved["pass"]  # Accelerate's loaders seed an order by it

    def _fresh(self, iterator: Iterator[Any]) -> Iterator[Any]:
        self._first = self._chance()
        yield from self._counted(iterator)

    def _counted(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for batch in iterator:
            self.given += 1
            yield batch
        self._is_over = True

    def _going_on(self) -> Iterator[Any]:
        """Walk to where the checkpoint was, then yield what is left of that pass."""
        own, self._resumed_own = self._resumed_own, None
        if self._is_over:
            return
        assert own is not None
        assert self._begun is not None
        keeps = state.keeps_position(self.source)
        if not keeps:
            self._set_chance(self._begun)
        iterator: Iterator[Any] = iter(self.source)
        if self._first is not None and not keeps:
            self._set_chance(self._first)
        for _ in range(0 if keeps else self.given):
            next(iterator)
        self._set_chance({"global": self.resumed_chance, "own": own})
        yield from self._counted(iterator)

    def _chance(self) -> dict[str, Any]:
        own = [each.get_state() for each in state.generators(self.source)]
        return {"global": state.chance(), "own": own}

    def _set_chance(self, saved: dict[str, Any]) -> None:
        state.set_chance(saved["global"])
        for index, generator in enumerate(state.generators(self.source)):
            generator.set_state(saved["own"][index])
