"""What time it is, by the clock of the run: that of this machine unless a run sets another.

    from shunter import clock
    began_s = clock.monotonic_s()

The clock belongs to the run, as its event loop does, and is no argument: waits through anyio follow
the time of the loop, and a second clock could only disagree. Tasks and the threads that anyio
starts inherit the clock.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Three readings of time, in nanoseconds."""

    def monotonic_ns(self) -> int:
        """Return a reading that only time moves, while the machine is awake."""

    def wall_ns(self) -> int:
        """Return the time since 1970 that the wall clock shows."""

    def uptime_ns(self) -> int:
        """Return for how long the machine has been up, its sleep included."""


class SystemClock:
    """The clocks of this machine, which its agent and supervisors read as well."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    def uptime_ns(self) -> int:
        return time.clock_gettime_ns(_UPTIME)


@contextmanager
def clock_set(clock: Clock) -> Iterator[None]:
    """Have this task, and those that it starts meanwhile, read a clock."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)


def monotonic_ns() -> int:
    """Return a reading that no step of the wall clock moves, in ns."""
    return _CLOCK.get().monotonic_ns()


def monotonic_s() -> float:
    """Return a reading that no step of the wall clock moves, in seconds."""
    return _CLOCK.get().monotonic_ns() / 1e9


def wall_ns() -> int:
    """Return the time since 1970 that the wall clock shows, in nanoseconds."""
    return _CLOCK.get().wall_ns()


def wall_s() -> float:
    """Return the time since 1970 that the wall clock shows, in seconds."""
    return _CLOCK.get().wall_ns() / 1e9


def wall_now() -> datetime:
    """Return the date and time that the wall clock shows, in UTC."""
    return _EPOCH + timedelta(microseconds=_CLOCK.get().wall_ns() // 1000)


def uptime_ns() -> int:
    """Return for how long this machine has been up, its sleep included, in ns."""
    return _CLOCK.get().uptime_ns()


# Linux alone counts sleep; `shunter.backends.node.ownership`, a program of its own, reads the same.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SYSTEM: Clock = SystemClock()
_CLOCK: ContextVar[Clock] = ContextVar("shunter.clock", default=_SYSTEM)
