"""An attempt that is stopped where it is and goes on later: suspend mode `stop`.

Its processes hear SIGTSTP, which one may handle to put itself in order, and then SIGSTOP, which
none can; SIGCONT lets them go on. All that they hold, they keep: GPUs, memory, open files. Only the
standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from shunter.backends.node.records import kill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STOP_S = 0.2


class Stopping:
    """Whether the processes of an attempt are to stand still, and whether they do."""

    def __init__(self, processes: Callable[[], Iterable[int]], note: Callable[[str], None]) -> None:
        self._processes, self._note = processes, note
        self._is_stopped = False
        self._due_s: float | None = None

    def stop(self, now_s: float) -> None:
        """Ask them to stand still; a while later they are made to."""
        if not self._is_stopped and self._due_s is None:
            self._signal(signal.SIGTSTP)
            self._due_s = now_s + STOP_S

    def go_on(self) -> None:
        """Let them go on, and say so if they had been stopped."""
        was_stopped, was_asked = self._is_stopped, self._due_s is not None
        self._is_stopped, self._due_s = False, None
        if was_stopped or was_asked:
            self._signal(signal.SIGCONT)
        if was_stopped:
            self._note("continued")

    def look(self, now_s: float) -> None:
        """Make them stand still if it is time."""
        if self._due_s is None or now_s < self._due_s:
            return
        self._due_s = None
        before: list[int] = []
        while (found := sorted(self._processes())) != before:  # one may have forked meanwhile
            before = found
            self._signal(signal.SIGSTOP)
        self._is_stopped = True
        self._note("stopped")

    def patience_s(self, now_s: float, otherwise_s: float) -> float:
        """Return how long nothing has to be done, at most so long."""
        return (
            otherwise_s if self._due_s is None else max(0.0, min(otherwise_s, self._due_s - now_s))
        )

    def _signal(self, number: int) -> None:
        for pid in self._processes():
            kill(pid, number)
