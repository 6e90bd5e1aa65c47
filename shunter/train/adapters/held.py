"""What objects of a training script hold in plain values: other callbacks, and data.

Plain are numbers, texts, arrays of numpy, and lists and dicts of these. Whoever holds more gives it
by `state_dict` and `load_state_dict`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from shunter.train import state
from shunter.train.digests import digest

if TYPE_CHECKING:
    from collections.abc import Collection


class Held:
    """What a callback holds."""

    def __init__(self, callback: Any, left_out: Collection[str] = ()) -> None:
        """Begin to watch a callback.

        Args:
            callback: of any trainer.
            left_out: names of what its trainer sets.
        """
        self.kind = type(callback).__name__
        self._callback = callback
        self._left_out = left_out
        self._at_first = digests(callback)

    def state_dict(self) -> state.State:
        if state.has_state_dict(self._callback):
            return {"own": state.captured(self._callback)}
        now, held = digests(self._callback), getattr(self._callback, "__dict__", {})
        # Of large arrays that stay as they are, as data for an evaluation, no copy is kept.
        return {
            name: held[name]
            for name in now
            if name not in self._left_out
            and (not _has_array(held[name]) or now[name] != self._at_first.get(name))
        }

    def load_state_dict(self, saved: state.State) -> None:
        if state.has_state_dict(self._callback):
            state.restore(self._callback, saved["own"])
            return
        held = getattr(self._callback, "__dict__", {})
        for name, value in saved.items():
            if isinstance(value, dict) and isinstance(held.get(name), dict):
                held[name].clear()  # the script may have given it, and read it later
                held[name].update(value)
            else:
                held[name] = value


def digests(holder: Any) -> dict[str, str]:
    """Return a digest of each plain value that an object holds."""
    held = getattr(holder, "__dict__", {})
    return {name: digest(held[name]) for name in held if is_plain(held[name])}


def is_plain(value: Any) -> bool:
    """Say whether a value is made of numbers, texts and arrays in memory."""
    if isinstance(value, dict):
        return all(isinstance(key, (str, int)) and is_plain(value[key]) for key in value)
    if type(value) in (list, tuple):
        return all(is_plain(each) for each in value)
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        return type(value) is numpy.ndarray and not value.dtype.hasobject
    return value is None or isinstance(value, (bool, int, float, str, bytes, numpy.generic))


def bytes_of(value: Any) -> int:
    """Return about how many bytes a plain value takes."""
    if isinstance(value, dict):
        return sum(bytes_of(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return sum(bytes_of(each) for each in value) + 8 * len(value)
    return int(getattr(value, "nbytes", 0))


def copied(value: Any) -> Any:
    """Return a plain value that does not change with the original."""
    if isinstance(value, dict):
        return {key: copied(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(each) for each in value)
    return value.copy() if hasattr(value, "copy") else value


def _has_array(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_array(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_array(each) for each in value)
    return getattr(value, "ndim", 0) > 0
