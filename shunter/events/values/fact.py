"""The decorator of everything that is written down once and never changed.

A fact is frozen to every type checker, and really frozen under pytest. At run time it is a
plain slotted dataclass: a frozen one costs three times as much to build, and the simulator
builds half a million of them in a few seconds.
"""

import sys
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

REALLY_FROZEN = "pytest" in sys.modules


@dataclass_transform(frozen_default=True)
def fact(cls: type[T]) -> type[T]:
    """Turn a class into an immutable, comparable, hashable record with slots.

    A class that is a key in hot dictionaries may bring a cheaper `__hash__` of its own.
    """
    if REALLY_FROZEN:
        return dataclass(slots=True, frozen=True)(cls)
    return dataclass(slots=True, unsafe_hash="__hash__" not in cls.__dict__)(cls)
