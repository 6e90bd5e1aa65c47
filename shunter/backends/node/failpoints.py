"""Failpoints: where a process can be made to die, so that tests can try every one of them.

    SHUNTER_CRASH=NAME:FILE   whoever comes to the point NAME first makes FILE and kills itself
    SHUNTER_CRASH=:FILE       all write into FILE which points they come to

Otherwise a mark is a call that does nothing. A point lies before and after each thing that lasts:
an append to the log, an order to a backend, a record of a supervisor. Only the standard library of
Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import os
import signal

_armed: list[str] = []


def arm_failpoint(setting: str) -> None:
    """Take a setting of SHUNTER_CRASH; an empty one disarms this process."""
    _armed[:] = setting.rpartition(":")[::2] if setting else ()


def is_armed() -> bool:
    """Say whether points mean anything, where naming them would cost something."""
    return bool(_armed)


def failpoint(name: str) -> None:
    """Mark a point; see above."""
    if _armed:
        _reached(name)


def _reached(name: str) -> None:
    wanted, path = _armed
    flags = os.O_WRONLY | os.O_CREAT
    if not wanted:
        file = os.open(path, flags | os.O_APPEND, 0o666)
        os.write(file, name.encode() + b"\n")
        os.close(file)
    elif name == wanted:
        try:
            file = os.open(path, flags | os.O_EXCL, 0o666)
        except FileExistsError:
            return
        os.write(file, str(os.getpid()).encode())
        os.kill(os.getpid(), signal.SIGKILL)


arm_failpoint(os.environ.get("SHUNTER_CRASH", ""))
