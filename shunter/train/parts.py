"""What a checkpoint of a script holds: its parts by name, and what it writes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    Whole = Callable[[Path], object]


class Parts:
    """What a checkpoint of the script holds, and how it is written."""

    def __init__(
        self,
        named: dict[str, Any],
        replicated: Collection[str] = (),
        save: Whole | None = None,
        load: Whole | None = None,
    ) -> None:
        state.check_parts(named)
        self.save = save
        self.load = load
        self._named = named
        self._replicated = replicated

    def captured(self, rank: int) -> dict[str, Any]:
        """Return the states of the parts that this rank saves."""
        own = [name for name in self._named if self._is_own(name, rank)]
        return {name: state.captured(self._named[name]) for name in own}

    def restore(self, rank: int, saved: dict[str, Any], first: dict[str, Any]) -> None:
        """Put the parts back: this rank's own, and those that only the first one saved."""
        for name, part in self._named.items():
            state.restore(part, (saved if self._is_own(name, rank) else first)[name])

    def _is_own(self, name: str, rank: int) -> bool:
        return not rank or name not in self._replicated
