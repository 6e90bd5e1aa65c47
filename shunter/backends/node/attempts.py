"""The attempts of one machine, seen from outside: what runs, what is fenced, what is left behind.

The records are those of supervisor.py, and their times nanoseconds of the monotonic clock. Only
the standard library is used here too: what looks after a far host runs there.
"""

# Paths are strings, as in supervisor.py, beside which this runs on a far host.
# ruff: noqa: PTH103, PTH110, PTH112, PTH123, PTH208

from __future__ import annotations

import fcntl
import json
import os
import signal
from typing import Any

from shunter.backends.node.cgroups import close_group, members
from shunter.backends.node.ranks import MARK
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    fifo,
    folder_of,
    get,
    hold,
    kill,
    processes,
    put,
    tell,
)


def raise_term(root: str, term: int) -> int:
    """Let no scheduler of a lower term order anything; return the term in force."""
    os.makedirs(f"{root}/jobs", exist_ok=True)
    return _raise(f"{root}/term", "term", term)


def raise_fence(root: str, job: str, attempt: int) -> int:
    """Let no attempt up to this one start any more; return the fence in force."""
    os.makedirs(f"{root}/jobs/{job}", exist_ok=True)
    return _raise(f"{root}/jobs/{job}/fence", "attempt", attempt)


def is_held(path: str) -> bool:
    """Say whether somebody holds the flock of a file."""
    if not os.path.exists(path):
        return False
    held = hold(path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    if held is not None:
        os.close(held)
    return held is None


def probe(folder: str) -> dict[str, Any]:
    """Return the state of an attempt: absent, starting, running, ended or lost."""
    held = is_held(f"{folder}/lock")  # first: what its holder wrote is read after
    started, status = get(f"{folder}/started"), get(f"{folder}/status")
    if status is not None:
        state = "ended"
    elif held:
        state = "running" if started is not None else "starting"
    else:
        state = "lost" if started is not None else "absent"
    return {"folder": folder, "state": state, "started": started, "status": status}


def inventory(root: str) -> list[dict[str, Any]]:
    """Return the state of every attempt there is, in order of job and attempt."""
    found: list[dict[str, Any]] = []
    jobs = f"{root}/jobs"
    for job in sorted(os.listdir(jobs)) if os.path.isdir(jobs) else []:
        numbers = sorted(int(name) for name in os.listdir(f"{jobs}/{job}") if name.isdigit())
        for attempt in numbers:
            known = probe(folder_of(root, job, attempt))
            found.append({"job": job, "attempt": attempt, **known})
    return found


def running(root: str, wanted: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the state of some attempts, and of all others that still run.

    However many there have been below a root, it costs no more than those and a look at the
    processes of this machine.
    """
    keys = sorted({*wanted, *_strays(root)})
    probes = ((job, attempt, probe(folder_of(root, job, attempt))) for job, attempt in keys)
    return [{"job": job, "attempt": attempt, **known} for job, attempt, known in probes]


def _strays(root: str) -> list[tuple[str, int]]:
    """Return the attempts below a root of which processes carry the mark."""
    mark = f"{MARK}={root}/jobs/".encode()
    found = []
    for pid in processes():
        for entry in _environment(pid):
            if entry.startswith(mark):
                job, _, attempt = entry[len(mark) :].decode("ascii", "replace").partition("/")
                if attempt.isdigit():
                    found.append((job, int(attempt)))
    return found


def journal(folder: str) -> list[dict[str, Any]]:
    """Return what was noted of an attempt's suspension so far, in order."""
    try:
        with open(f"{folder}/journal", "rb") as file:
            return [json.loads(line) for line in file if line.endswith(b"\n")]
    except FileNotFoundError:
        return []


def send(folder: str, order: dict[str, Any]) -> bool:
    """Hand an order to the supervisor of an attempt; False if nobody takes it."""
    line = json.dumps(order).encode() + b"\n"
    return len(line) <= LINE_BYTES_MAX and tell(f"{folder}/orders", line)


def open_notices(root: str) -> int:
    """Return the FIFO through which supervisors say that there is something to read."""
    return fifo(f"{root}/notices")


def sweep(folder: str) -> int:
    """Kill what an attempt left without its supervisor; return how much there was.

    None were there and `ranks.lock` is free: only then is the attempt really over.
    """
    mark = f"{MARK}={folder}".encode()
    group = (get(f"{folder}/started") or {}).get("cgroup") or ""
    grouped = members(group) if group else ()
    left = [pid for pid in processes() if pid in grouped or mark in _environment(pid)]
    for pid in left:
        kill(pid, signal.SIGKILL)
    if group and not left:
        close_group(group)
    return len(left) + is_held(f"{folder}/ranks.lock")


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _raise(path: str, name: str, value: int) -> int:
    held = hold(f"{path}.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"
    try:
        now = int((get(path) or {}).get(name, 0))
        if value > now:
            put(path, {name: value})
        return max(value, now)
    finally:
        os.close(held)
