"""When Python's cyclic collector may work: it costs time where it finds nothing to collect."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_USUAL = gc.get_threshold()
NEW_OBJECTS = 200_000
"""After so many new objects the collector looks at them, where it is to work rarely."""


def collect_rarely() -> None:
    """Let the collector work three hundred times more rarely than it does by itself.

    A start makes a hundred thousand objects that all stay: looking for cycles among them took an
    eighth of its time.
    """
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def collect_as_usual() -> None:
    """Let the collector work as often as Python itself has it: what begins now lasts.

    What has been imported stays as long as the process: it is never looked at.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)


def end_uncollected() -> None:
    """Have the process end without a last look for cycles.

    All that is left goes with it, and looking took a tenth of the CPU of a short command.
    """
    gc.freeze()


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
