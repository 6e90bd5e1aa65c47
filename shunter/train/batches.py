"""A data loader whose position is part of the checkpoint.

A shuffled loader draws its order when its iteration begins. So we remember the state of chance
at that instant and the number of batches handed out; a resumed run begins the same iteration with
the same chance, throws away what was used, and then goes on with the chance of the checkpoint.
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
        self._is_over = False
        self._begun: dict[str, Any] | None = None
        self._resumed_own: list[Any] | None = None
        self.resumed_chance: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        iterator = self._resumed() if self._resumed_own is not None else self._fresh()
        for batch in iterator:
            self.given += 1
            yield batch
        self._is_over = True

    def next_pass(self) -> None:
        """Begin at the front again."""
        self.given, self._is_over, self._begun, self._resumed_own = 0, False, None, None

    def state_dict(self) -> dict[str, Any]:
        keeps = self._keeps_position()
        return {
            "given": self.given,
            "over": self._is_over,
            "begun": self._begun,
            "generators": [each.get_state() for each in state.generators(self.source)],
            "source": state.captured(self.source) if keeps else None,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.given, self._is_over = saved["given"], saved["over"]
        self._begun = saved["begun"]
        self._resumed_own = None if self._begun is None else saved["generators"]
        if saved["source"] is not None:
            state.restore(self.source, saved["source"])

    def _fresh(self) -> Iterator[Any]:
        self.next_pass()
        self._begun = self._chance()
        return iter(self.source)

    def _resumed(self) -> Iterator[Any]:
        own, self._resumed_own = self._resumed_own, None
        assert own is not None
        assert self._begun is not None
        if self._is_over:
            return iter(())
        if self._keeps_position():
            return iter(self.source)
        self._set_chance(self._begun)
        iterator: Iterator[Any] = iter(self.source)
        for _ in range(self.given):
            next(iterator)
        self._set_chance({"global": self.resumed_chance, "own": own})
        return iterator

    def _keeps_position(self) -> bool:
        return hasattr(self.source, "state_dict") and hasattr(self.source, "load_state_dict")

    def _chance(self) -> dict[str, Any]:
        own = [each.get_state() for each in state.generators(self.source)]
        return {"global": state.chance(), "own": own}

    def _set_chance(self, saved: dict[str, Any]) -> None:
        state.set_chance(saved["global"])
        for index, generator in enumerate(state.generators(self.source)):
            generator.set_state(saved["own"][index])
