"""The first policy's process, forked from the daemon before that imports and opens the rest.

One that is started by its command imports for 0.2 s of CPU what the daemon has imported already;
so it is for tests, and for what runs a site without `shunter serve`.
"""

import os
import select
import signal
import socket
import subprocess
import threading
import traceback
from typing import NoReturn, Protocol

from shunter.daemon.policy_process.child import answer_all


class Child(Protocol):
    """A process that was started or forked."""

    def kill(self) -> None:
        """Kill it, unless it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""


class ForkedChild:
    """A copy of this process, made by a fork."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = os.pidfd_open(pid)
        self._code: int | None = None

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self._code is None:
            signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the signal that killed it."""
        if self._code is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the policy's process", timeout or 0.0)
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            os.close(self._end)
        return self._code


_ready: list[tuple[socket.socket, Child]] = []


def fork_ahead() -> None:
    """Fork a process that `taken` returns later.

    To be called while this process has one thread and neither a loop, nor a log, nor sockets: a
    copy would have them too.
    """
    assert threading.active_count() == 1, "locks that other threads hold stay locked in a copy"
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_policy(theirs, parent)
    theirs.close()
    _ready.append((ours, ForkedChild(pid)))


def taken() -> tuple[socket.socket, Child] | None:
    """Return the process that was forked ahead, once, and our end of its socket."""
    return _ready.pop() if _ready else None


def _be_policy(theirs: socket.socket, parent: int) -> NoReturn:
    """Be the policy's process to its end, with the streams of one that is started."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        answer_all(theirs, parent)
        code = 0
    finally:  # whatever it was, nothing of the daemon goes on in this process
        if code:
            traceback.print_exc()
        os._exit(code)
