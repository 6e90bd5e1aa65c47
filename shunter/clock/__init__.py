"""The one port to time of the live stack; `virtual` has a clock that tests and simulations set."""

from shunter.clock.port import (
    Clock,
    SystemClock,
    clock_set,
    monotonic_ns,
    monotonic_s,
    uptime_ns,
    wall_now,
    wall_ns,
    wall_s,
)

__all__ = [
    "Clock",
    "SystemClock",
    "clock_set",
    "monotonic_ns",
    "monotonic_s",
    "uptime_ns",
    "wall_now",
    "wall_ns",
    "wall_s",
]
