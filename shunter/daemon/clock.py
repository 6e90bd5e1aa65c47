"""The wall clock, watched: its steps are recorded, and nothing follows them."""

from collections.abc import Callable
from datetime import datetime

import anyio

from shunter import clock
from shunter.daemon.backends import LiveBackend
from shunter.events.facts import ClockStepped

LOOK_S = 5.0
STEP_US = 1_000_000
"""A step of the wall clock is one of more than a second; less is a clock being slewed."""

Ahead = Callable[[], int]


def wall_now() -> datetime:
    """Return the date and time that the wall clock shows."""
    return clock.wall_now()


def ahead_us() -> int:
    """Return how far the wall clock is ahead of the monotonic clock."""
    return (clock.wall_ns() - clock.monotonic_ns()) // 1000


async def watch_clock(
    backend: LiveBackend, ahead: Ahead = ahead_us, look_s: float = LOOK_S
) -> None:
    """Record each step of the wall clock, for ever."""
    before_us = ahead()
    while True:
        await anyio.sleep(look_s)
        now_us = ahead()
        by_us = now_us - before_us
        if abs(by_us) > STEP_US:
            _tell(backend, by_us)
        before_us = now_us  # what it drifts in between is no step


def _tell(backend: LiveBackend, by_us: int) -> None:
    backend.post(lambda at_us: ClockStepped(at_us, by_us))
