"""The clocks of a simulated machine, and what is to happen on it, in order of its instants.

Nobody waits for that: whoever looks at the machine has all happen first that was due by then, each
at its own instant. So a machine needs no task, and lives on while no daemon is there.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from shunter import clock

__all__ = ["Machine", "Timer"]

BOOTED_NS = 60 * 10**9
"""What the clocks of a machine show when it has just been booted."""


@dataclass(slots=True, eq=False)
class Timer:
    """Something that is to happen, unless it is cancelled."""

    action: Callable[[], None] | None

    def cancel(self) -> None:
        """Let it not happen."""
        self.action = None


class Machine:
    """A machine with a name, whose actions of one instant happen as they were added.

    Instants are nanoseconds of `clock.uptime_ns()`: it does not sleep when the daemon's machine
    does. `now_ns` is the instant of the action that happens, `boot` tells its boots apart, and
    `beat_ns` is when the last sign of life of its scheduler was sent.
    """

    def __init__(self, name: str) -> None:
        self.now_ns = clock.uptime_ns()
        self.boot = ""
        self.beat_ns = -1
        self._name, self._boots, self._ahead_ns = name, 0, 0
        self._count = 0
        self._due: list[tuple[int, int, Timer]] = []
        self._waiting: list[anyio.Event] = []
        self.reboot()

    def reboot(self) -> None:
        """Count time anew."""
        self._boots += 1
        self.boot = f"{self._name}-boot-{self._boots}"
        self._ahead_ns = BOOTED_NS - self.now_ns

    def host_ns(self) -> int:
        """Return what its own clocks show."""
        return self.now_ns + self._ahead_ns

    def note_beat(self, host_ns: int) -> None:
        """Note a sign of life that was sent when its clocks showed something."""
        self.beat_ns = max(self.beat_ns, min(host_ns - self._ahead_ns, self.now_ns))

    def add(self, after_ns: int, action: Callable[[], None]) -> Timer:
        """Have something happen so long from now."""
        timer = Timer(action)
        self._count += 1
        heapq.heappush(self._due, (self.now_ns + after_ns, self._count, timer))
        return timer

    def advance(self) -> None:
        """Have all happen that is due by now."""
        upto_ns = clock.uptime_ns()
        while (due_ns := self._next_ns()) is not None and due_ns <= upto_ns:
            _, _, timer = heapq.heappop(self._due)
            action, timer.action = timer.action, None
            self.now_ns = max(self.now_ns, due_ns)
            if action is not None:
                action()
        self.now_ns = max(self.now_ns, upto_ns)

    def wake(self) -> None:
        """Have whoever waits for something here look again."""
        for woken in self._waiting:
            woken.set()

    async def wait(self, until_ns: int | None) -> None:
        """Wait for something to happen here, at most until an instant."""
        dues = [due for due in (until_ns, self._next_ns()) if due is not None]
        left_s = max(0, min(dues) - clock.uptime_ns()) / 1e9 if dues else None
        woken = anyio.Event()
        self._waiting.append(woken)
        try:
            with anyio.move_on_after(left_s):
                await woken.wait()
        finally:
            self._waiting.remove(woken)

    def _next_ns(self) -> int | None:
        """Return when something is to happen next; None: nothing is."""
        while self._due and self._due[0][2].action is None:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None
