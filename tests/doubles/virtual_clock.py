"""A clock that nobody waits for: when all tasks wait, it jumps to the next instant that is due.

The event loop takes its time from the clock, so that `anyio.sleep`, deadlines and timeouts follow
it too. Nothing but such a wait moves it: what is computed takes no time, and code that asks the
clock again and again without waiting never sees it move. The jump to the next timer when nothing is
ready is that of trio's `MockClock` with its `autojump_threshold`, here `idle_s`.
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import anyio

from shunter.clock import clock_set

__all__ = ["VirtualClock"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

MONOTONIC_NS = 1_000 * 10**9
WALL_NS = 1_577_836_800 * 10**9  # the first instant of 2020
RESOLUTION_S = 1e-7
"""Timers so near to one that is due run with it. At asyncio's own 1e-9, which is lost in the
rounding of a clock that has counted half a year, one that is due at this very instant never would.
"""


class VirtualClock:
    """A clock for one run at a time, whose instants are exact to the nanosecond.

    Args:
        monotonic_ns: what the monotonic clock and the uptime show at first.
        wall_ns: what the wall clock shows at first, since 1970.
    """

    def __init__(self, monotonic_ns: int = MONOTONIC_NS, wall_ns: int = WALL_NS) -> None:
        self._monotonic_ns = monotonic_ns
        self._slept_ns = 0
        self._wall_ahead_ns = wall_ns - monotonic_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def wall_ns(self) -> int:
        return self._monotonic_ns + self._wall_ahead_ns

    def uptime_ns(self) -> int:
        return self._monotonic_ns + self._slept_ns

    def advance(self, by_ns: int) -> None:
        """Let time pass; timers that become due run when the loop has its next turn."""
        assert by_ns >= 0, "only the wall clock ever goes back"
        self._monotonic_ns += by_ns

    def step_wall(self, by_ns: int) -> None:
        """Set the wall clock forward, or back."""
        self._wall_ahead_ns += by_ns

    def sleep_machine(self, for_ns: int) -> None:
        """Let the machine sleep: its monotonic clock stands still meanwhile."""
        assert for_ns >= 0, "nothing sleeps backwards"
        self._slept_ns += for_ns
        self._wall_ahead_ns += for_ns

    def run(
        self,
        main: Callable[[*Arguments], Awaitable[T]],
        *arguments: *Arguments,
        idle_s: float = 0.0,
    ) -> T:
        """Run an async function by this clock; return what it returns.

        Args:
            main: the function.
            arguments: what it is called with.
            idle_s: real seconds within which nothing may become ready before time jumps. Threads,
                processes and sockets work in real time: where a run has any, give them some.
        """

        def loop_factory() -> asyncio.AbstractEventLoop:
            return _VirtualEventLoop(self, idle_s)

        with clock_set(self):
            return anyio.run(main, *arguments, backend_options={"loop_factory": loop_factory})


class _VirtualEventLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio, by another clock."""

    def __init__(self, clock: VirtualClock, idle_s: float) -> None:
        self._clock = clock
        super().__init__(_JumpingSelector(clock, idle_s))
        self._clock_resolution = RESOLUTION_S

    def time(self) -> float:
        """Return what `monotonic_s` does, to the last bit: both are compared."""
        return self._clock.monotonic_ns() / 1e9


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: where nothing is ready, the clock shows that one is due."""

    def __init__(self, clock: VirtualClock, idle_s: float) -> None:
        super().__init__()
        self._clock = clock
        self._idle_s = idle_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; nothing, if time has jumped by the timeout instead."""
        if timeout is None or timeout <= 0:  # no timer is set, or a task is ready
            return super().select(timeout)
        ready = super().select(self._idle_s)
        if not ready:
            self._jump(timeout)
        return ready

    def _jump(self, by_s: float) -> None:
        """Move the clock to the next timer: to a whole nanosecond, and by one at least."""
        now_ns = self._clock.monotonic_ns()
        due_s = now_ns / 1e9 + by_s
        due_ns = max(round(due_s * 1e9), now_ns + 1)
        self._clock.advance(due_ns + (due_ns / 1e9 < due_s) - now_ns)
