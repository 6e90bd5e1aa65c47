"""Orders to end an attempt that its supervisor does not read, since it was stopped or hangs.

Who has left such an order unread for `READ_MOST_S`, and does at three looks more, is killed: the
kernel and the reaper end the processes of the attempt then, as with any supervisor that was killed
(processes/reaper.py). One that reads ends its job itself, by the deadlines of the order. Only the
standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.

from __future__ import annotations

import array
import fcntl
import os
import signal
import stat
import termios
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import is_held, send
from shunter.backends.node.messages.attempt_records import number_of
from shunter.backends.node.processes.marks import alive_below
from shunter.backends.node.records import kill

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_MOST_S, LOOKS, LOOK_S = 15.0, 3, 1.0
ENDING = ("terminate", "fence")


class Unanswered:
    """Who was told to end, and when it is looked whether that was read."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}

    def send(self, folder: str, order: Mapping[str, object]) -> bool:
        """Hand an order to a supervisor; False if nobody takes it."""
        if order["do"] in ENDING:
            self._due.setdefault(folder, (time.monotonic() + READ_MOST_S, 0))
        return send(folder, order)

    def look(self) -> None:
        """Kill the supervisors that have read nothing for too long."""
        now_s = time.monotonic()
        for folder, (due_s, looks) in list(self._due.items()):
            if now_s < due_s:
                continue
            if not is_held(f"{folder}/lock") or not _is_unread(f"{folder}/orders"):
                del self._due[folder]
            elif looks < LOOKS:
                self._due[folder] = (now_s + LOOK_S, looks + 1)
            else:
                del self._due[folder]
                _kill_supervisor(folder)


def _is_unread(path: str) -> bool:
    """Say whether a FIFO holds anything; one that is gone its reader would make anew."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        size = array.array("i", [0])
        if stat.S_ISFIFO(os.fstat(file).st_mode):
            fcntl.ioctl(file, termios.FIONREAD, size)
            return size[0] > 0
        return True
    finally:
        os.close(file)


def _kill_supervisor(folder: str) -> None:
    root, _, name = folder.rpartition("/jobs/")
    job, _, attempt = name.partition("/")
    alive = alive_below(root).get((job, number_of(attempt) or 0))
    for pid in alive.supervisors if alive is not None else ():
        kill(pid, signal.SIGKILL)
