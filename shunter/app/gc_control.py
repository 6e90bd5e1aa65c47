"""When Python's cyclic collector may work: it costs time where it finds nothing to collect."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_off", "collector_on"]


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the collector off: many objects are made, but no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def collector_on() -> Iterator[None]:
    """Let the collector work for a while, where it is off."""
    was_on = gc.isenabled()
    gc.enable()
    try:
        yield
    finally:
        if not was_on:
            gc.disable()
