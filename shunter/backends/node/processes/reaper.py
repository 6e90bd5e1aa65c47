"""The reaper: kills what is left of an attempt whose supervisor was killed.

A supervisor is the child of a process that does nothing but wait for its end. To it the kernel
hands all that a supervisor leaves behind, whatever session, group or environment that gave itself;
so it is killed at once, also on a host that no scheduler reaches. A supervisor that ends by itself
leaves nothing. A reaper that is killed takes nothing with it, and has no successor: only if both
were killed does anything live on, until `sweep` finds it. Only the standard library of Python 3.8
or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from shunter.backends.node.failpoints import failpoint
from shunter.backends.node.ranks import adopt_orphans, close_all_but, tell_of_parents_end
from shunter.backends.node.records import kill, processes
from shunter.backends.node.shares.cgroups import close_group, members

if TYPE_CHECKING:
    from collections.abc import Callable

REAP_POLL_S, REAP_POLL_S_MAX = 0.002, 1.0
PARENT_ENDED = signal.SIGRTMIN + 1


def go_on_below_reaper(group: str | None, *, is_bound: bool = False) -> None:
    """Go on as a child of this process, which stays as the reaper and never returns.

    Args:
        group: the control group of the attempt, if it has one.
        is_bound: the supervisor is killed once the process that started this one has ended.

    Raises:
        OSError: there is no room for another process.
    """
    adopt_orphans()
    parent = os.getppid()
    supervisor = os.fork()
    if not supervisor:
        os.setsid()  # a signal to the session of one is none to the other
        return
    try:
        if is_bound:
            _kill_once_ended(supervisor, parent)
        _reap_after(supervisor, group)
    finally:
        os._exit(0)


def kill_remaining(group: str | None, reap: Callable[[], None] | None = None) -> int:
    """Kill all processes below this one or in a group, until none is left.

    Args:
        group: a control group, if there is one.
        reap: called again and again meanwhile.

    Returns:
        how many there were.
    """
    left = remaining(group)
    count, before, pause_s = len(left), left, REAP_POLL_S
    while left:
        for pid in left:
            kill(pid, signal.SIGKILL)
        time.sleep(pause_s)
        if reap is not None:
            reap()
        before, left = left, remaining(group)
        # Some take long to die, in a driver, and some cannot be killed by us.
        pause_s = min(2 * pause_s, REAP_POLL_S_MAX) if left == before else REAP_POLL_S
    return count


def remaining(group: str | None) -> list[int]:
    """Return all processes below this one or in a group, wherever they forked to."""
    return sorted({*descendants(), *(members(group) if group else ())})


def descendants() -> list[int]:
    """Return all living processes below this one, adopted orphans included."""
    if not _has_children():  # the usual end of a job, which needs no look at all of the machine
        return []
    children: dict[int, list[int]] = {}
    for pid, parent in processes().items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], children.get(os.getpid(), [])
    while todo:
        found += todo
        todo = [child for pid in todo for child in children.get(pid, [])]
    return found


def family(group: str | None) -> list[int]:
    """Return all processes below this one or in a group, maybe ended ones too.

    It looks at these only, not at all of the machine, and so may miss one that comes or goes just
    now: who needs them all stops what it has found, and looks again until it finds no other.
    """
    found, todo = [], [os.getpid()]
    try:
        while todo:
            todo = [child for pid in todo for child in _children(pid)]
            found += todo
    except FileNotFoundError:  # a kernel without these files
        return remaining(group)
    return sorted({*found, *(members(group) if group else ())})


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it is gone.

    Raises:
        FileNotFoundError: this kernel does not list them.
    """
    found: list[int] = []
    try:
        threads = sorted(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}/stat"):
                raise
        except OSError:
            continue
    return found


def _has_children() -> bool:
    """Say whether this process has any; who adopts orphans has descendants only then."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_once_ended(supervisor: int, parent: int) -> None:
    """Have a child killed once our parent has ended, by whatever."""
    signal.set_wakeup_fd(-1)
    signal.signal(PARENT_ENDED, lambda *_: kill(supervisor, signal.SIGKILL))
    tell_of_parents_end(PARENT_ENDED)
    if os.getppid() != parent:
        kill(supervisor, signal.SIGKILL)


def _reap_after(supervisor: int, group: str | None) -> None:
    """Wait for the end of a child, and kill what it has left."""
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    close_all_but()  # who holds the lock of an attempt is taken for its supervisor
    failpoint("attempt reaper ready")
    os.waitpid(supervisor, 0)
    kill_remaining(group)
    if group:
        close_group(group)
