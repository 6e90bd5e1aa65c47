"""The attempts of one machine, seen from outside: what runs, what is fenced, what is left behind.

The records are those of supervisor.py, and their times nanoseconds of the monotonic clock. Only
the standard library is used here too: what looks after a remote host runs there.
"""

# Paths are strings, as in supervisor.py, beside which this runs on a remote host.
# ruff: noqa: PTH110, PTH112, PTH116, PTH208

from __future__ import annotations

import fcntl
import json
import os
import signal
from typing import TYPE_CHECKING

from shunter.backends.node.messages.attempt_records import (
    PATH,
    a_job,
    number_of,
    started_in,
    status_in,
)
from shunter.backends.node.messages.shapes import checked
from shunter.backends.node.processes.marks import Alive, alive_below
from shunter.backends.node.processes.open_files import mount_of, open_files, real_user_of
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    count_in,
    fifo,
    folder_of,
    get,
    hold,
    kill,
    own_folder,
    processes,
    put,
    tell,
)
from shunter.backends.node.shares.cgroups import close_group, members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Found, Probe, State

NO_END = ("absent", "lost")


def raise_term(root: str, term: int) -> int:
    """Let no scheduler of a lower term order anything; return the term in force."""
    own_folder(f"{root}/jobs")
    return _raise(f"{root}/term", "term", term)


def raise_fence(root: str, job: str, attempt: int) -> int:
    """Let no attempt up to this one start any more; return the fence in force."""
    own_folder(f"{root}/jobs/{job}")
    return _raise(f"{root}/jobs/{job}/fence", "attempt", attempt)


def is_held(path: str) -> bool:
    """Say whether somebody holds the flock of a file."""
    if not os.path.exists(path):
        return False
    held = hold(path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    if held is not None:
        os.close(held)
    return held is None


def probe(folder: str) -> Probe:
    """Return the state of an attempt: absent, starting, running, ended or lost."""
    held = is_held(f"{folder}/lock")  # first: what its holder wrote is read after
    started, status = started_in(folder), status_in(folder)
    if status is not None:
        state: State = "ended"
    elif held:
        state = "running" if started is not None else "starting"
    else:
        state = "lost" if started is not None else "absent"
    return {"folder": folder, "state": state, "started": started, "status": status}


def inventory(root: str) -> list[Found]:
    """Return the state of every attempt there is, in order of job and attempt."""
    found: list[Found] = []
    jobs = f"{root}/jobs"
    for job in sorted(os.listdir(jobs)) if os.path.isdir(jobs) else []:
        for attempt in numbers_in(f"{jobs}/{job}") if checked(job, a_job) else ():
            known = probe(folder_of(root, job, attempt))
            found.append({"job": job, "attempt": attempt, **known})
    return found


def numbers_in(folder: str) -> list[int]:
    """Return the numbers of the attempts whose folders lie in that of a job."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return sorted(number for name in names if (number := number_of(name)) is not None)


def known_of(root: str, job: str) -> list[int]:
    """Return the attempts of a job that have folders or processes."""
    alive = [number for name, number in alive_below(root) if name == job]
    return sorted({*numbers_in(f"{root}/jobs/{job}"), *alive})


def running(root: str, wanted: list[tuple[str, int]]) -> list[Found]:
    """Return the state of some attempts, and of all others that still run.

    However many there have been below a root, it costs no more than those and a look at the
    processes of this machine.
    """
    alive = alive_below(root)
    found: list[Found] = []
    for job, attempt in sorted({*wanted, *alive}):
        known = probe(folder_of(root, job, attempt))
        if known["state"] in NO_END and (job, attempt) in alive:
            known["state"] = "running"
        found.append({"job": job, "attempt": attempt, **known})
    return found


def pids_of(root: str, key: tuple[str, int], parents: Mapping[int, int]) -> list[int]:
    """Return the processes of an attempt that runs, whatever their sessions.

    Args:
        root: where it is.
        key: its job and number.
        parents: the parent of each process of this machine.
    """
    folder = folder_of(root, *key)
    started = started_in(folder) if is_held(f"{folder}/lock") else None
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items() if started is not None else ():
        children.setdefault(parent, []).append(pid)
    found, todo = [], children.get(started["pid"], []) if started is not None else []
    while todo:
        found += todo
        todo = [child for pid in todo for child in children.get(pid, [])]
    return found


def send(folder: str, order: Mapping[str, object]) -> bool:
    """Hand an order to the supervisor of an attempt; False if nobody takes it."""
    line = json.dumps(order).encode() + b"\n"
    return len(line) <= LINE_BYTES_MAX and tell(f"{folder}/orders", line)


def open_notices(root: str) -> int:
    """Return the FIFO through which supervisors say that there is something to read."""
    return fifo(f"{root}/notices")


def sweep(folder: str) -> int:
    """Kill what an attempt left without its supervisor; return how much there was.

    None were there and nobody has `ranks.lock` open: only then is the attempt really over. A
    supervisor whose folder was removed looks after its processes, and makes the folder anew.
    """
    root, _, name = folder.rpartition("/jobs/")
    job, _, attempt = name.partition("/")
    alive = alive_below(root).get((job, number_of(attempt) or 0), Alive([], []))
    if alive.supervisors:
        return len(alive.supervisors)
    group = checked((get(f"{folder}/started") or {}).get("cgroup"), PATH) or ""
    grouped = members(group) if group else ()
    left = [pid for pid in processes() if pid in grouped or pid in alive.marked]
    for pid in left:
        kill(pid, signal.SIGKILL)
    if group and not left:
        close_group(group)
    return len(left) or len(holders(folder))


def holders(folder: str) -> list[int]:
    """Return the processes of an attempt's user that have its `ranks.lock` open.

    No lock on it counts, since who has it open could give that up for all others. Whose the attempt
    was its channel tells or, where that was removed, the file that they have open.
    """
    path = os.path.realpath(f"{folder}/ranks.lock")
    mount = mount_of(folder.rpartition("/jobs/")[0])
    try:
        user = os.stat(f"{folder}/channel").st_uid
    except OSError:
        user = None
    found = []
    for pid in processes():
        started_by = real_user_of(pid)
        if user not in (None, started_by):
            continue
        held = [file for file in open_files(pid) if file.path == path and file.is_believed(mount)]
        if held if user is not None else any(file.owner() == started_by for file in held):
            found.append(pid)
    return found


def end_alone(root: str, job: str, attempt: int, term: int) -> bool:
    """End one attempt, whatever its number; return whether nothing of it runs.

    No fence is raised by it, and no record of it is read.
    """
    folder = folder_of(root, job, attempt)
    if is_held(f"{folder}/lock"):
        send(folder, {"do": "fence", "term": term})
    return remains(folder) == "lost"


def remains(folder: str) -> State:
    """Return whether an attempt runs or is lost; no record of it is read."""
    return "running" if is_held(f"{folder}/lock") or sweep(folder) else "lost"


def _raise(path: str, name: str, value: int) -> int:
    held = hold(f"{path}.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"
    try:
        now = count_in(path, name)
        if value > now:
            put(path, {name: value})
        return max(value, now)
    finally:
        os.close(held)
