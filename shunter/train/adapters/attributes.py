"""The attributes of a trainer's objects that hold data, for what has no `state_dict`.

Data are numbers, texts, arrays, tensors, generators of numpy, and small containers of these.
Functions, classes, modules and open files come from the script, which makes them again.
"""

from __future__ import annotations

import sys
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

DEPTH_MAX = 6
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None), Enum)


def data_of(holder: object, but: Collection[str] = ()) -> dict[str, Any]:
    """Return the attributes of an object that are data, without some names."""
    return {
        name: value for name, value in vars(holder).items() if name not in but and is_data(value)
    }


def is_data(value: object, depth: int = 0) -> bool:
    """Say whether a value is data through and through."""
    if isinstance(value, (*_PLAIN, *_of_numpy())):
        return True
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return not isinstance(value, torch.nn.Parameter)
    if depth < DEPTH_MAX:
        if isinstance(value, dict):
            return all(is_data(each, depth + 1) for pair in value.items() for each in pair)
        if isinstance(value, (list, tuple, deque, set, frozenset)):
            return all(is_data(each, depth + 1) for each in value)
    return False


def _of_numpy() -> tuple[Any, ...]:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return ()
    chance = (numpy.random.Generator, numpy.random.BitGenerator, numpy.random.RandomState)
    return (numpy.ndarray, numpy.generic, *chance)
